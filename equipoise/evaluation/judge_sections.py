"""The report's sections on the judges: who judged whom how, and how good they are at it."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from equipoise.blocks.figures import heat_map
from equipoise.blocks.section import (
    Figure,
    SampleSize,
    Section,
    Table,
    finite_or_none,
    label,
    number,
)
from equipoise.evaluation.judge_report import JudgeReport, MeanGiven, SelfPreference, VoterReport
from equipoise.ledger.facts import Estimate

Row = tuple[str, Mapping[str, MeanGiven]]  # a voter, and what it gave each player

COLUMNS: tuple[tuple[str, str], ...] = (
    ("judgements", "matches that the judge judged"),
    ("unjudged", "share of the answers in them that got no score; they count nowhere"),
    ("unreadable", "share of its readings in which no verdict could be found"),
    (
        "first preferred",
        "share of decided comparisons won by the answer that was shown first; half is no bias",
    ),
    (
        "inconsistent",
        "share of comparisons read in both orders in which the winner changed with the order",
    ),
    (
        "length",
        "rank correlation of scores (or wins) with the answer's length, prompt by "
        "prompt; 0 is no bias",
    ),
    (
        "own answers",
        "how much more it gives its own answers than others give them; in parentheses, "
        "to other players'",
    ),
    (
        "agreement",
        "Krippendorff's alpha of those who judged the same answers: 1 agree, 0 as by chance",
    ),
    ("calls", "readings by a model"),
    ("tokens", "asked and answered in those readings"),
    ("cost", "in the currency of the prices that were set; 0 for local models"),
)


def judge_sections(reports: Mapping[str, JudgeReport], sample: SampleSize) -> Iterator[Section]:
    """Sections on who judged whom, and how good the judges are; none where nobody judged."""
    if reports:
        yield who_judged_whom_section(reports, sample)
        yield judges_section(reports, sample)


def who_judged_whom_section(reports: Mapping[str, JudgeReport], sample: SampleSize) -> Section:
    """The mean score that each judge gave each player."""
    figures = tuple(_figure(title, rows) for title, rows in _groups(reports))
    if not figures:
        return Section(
            "who-judged-whom",
            "Who judged whom",
            reason="one judge and one player: nothing to compare",
        )
    lead = (
        "What the row's judge gave the column's player: the mean score, or the "
        "probability of winning where answers were compared. Empty: never "
        f"judged.{sample.note()}"
    )
    return Section("who-judged-whom", "Who judged whom", figures, lead)


def _groups(reports: Mapping[str, JudgeReport]) -> Iterator[tuple[str, list[Row]]]:
    """Rows of one scale: those within [0, 1] together, any other judge in a figure of its own."""
    shares: list[Row] = []
    others: list[tuple[str, list[Row]]] = []
    for judge, report in reports.items():
        rows = list(report.who_judged_whom.items())
        means = [cell.mean for _, given in rows for cell in given.values()]
        if all(0 <= mean <= 1 for mean in means):
            shares += [(_row_name(judge, voter, len(reports)), given) for voter, given in rows]
        else:
            others.append((f"Mean score by {judge}", [*rows]))
    for title, rows in [("Mean score given", shares), *others]:
        if len(rows) > 1 or any(len(given) > 1 for _, given in rows):
            yield title, rows


def _row_name(judge: str, voter: str, judges: int) -> str:
    return voter if judges == 1 or voter == judge else f"{voter} ({judge})"


def _figure(title: str, rows: Sequence[Row]) -> Figure:
    names = [name for name, _ in rows]
    players = sorted({player for _, given in rows for player in given})
    cells = [[given.get(player) for player in players] for _, given in rows]
    value_JN = np.array([[np.nan if cell is None else cell.mean for cell in row] for row in cells])
    written = [
        ["" if cell is None else number(cell.mean, digits=2) for cell in row] for row in cells
    ]
    hover = [
        [_hover(name, player, cell) for player, cell in zip(players, row, strict=True)]
        for name, row in zip(names, cells, strict=True)
    ]
    below_zero = bool((value_JN < 0).any())
    return heat_map(
        title, names, players, value_JN, written, hover, ("judge", "player"), around_zero=below_zero
    )


def _hover(judge: str, player: str, cell: MeanGiven | None) -> str:
    mean = "never judged" if cell is None else number(cell.mean, digits=2)
    answers = 0 if cell is None else cell.n
    return f"{label(judge)} on {label(player)}<br><b>{mean}</b><br>{number(answers)} answers"


def judges_section(reports: Mapping[str, JudgeReport], sample: SampleSize) -> Section:
    """A table of answers left out, biases and costs of each judge."""
    rows = tuple(row for judge, report in reports.items() for row in _rows(judge, report))
    table = Table(("judge", *(name for name, _ in COLUMNS)), rows)
    legend = Table(("column", "what it says"), COLUMNS, prose=True)
    lead = (
        "A judge that asks several has a line for each of them. –: cannot be known "
        f"from what was recorded.{sample.note()}"
    )
    return Section("judges", "Judges", (table, legend), lead)


def _rows(judge: str, report: JudgeReport) -> Iterator[tuple[str, ...]]:
    is_its_only_voter = list(report.voters) == [judge]
    agreement = report.agreement or report.agreement_on_pairs
    own = report.self_preference.get(judge) if is_its_only_voter else None
    yield (
        judge,
        number(report.judgements),
        number(report.unjudged_share, "%"),
        *_biases(report),
        _own_answers(own),
        "–" if agreement is None else number(agreement.alpha, digits=2),
        *_spent(report),
    )
    if is_its_only_voter:
        return
    for name, voter in report.voters.items():
        yield (
            f"·\u00a0{name}",
            "–",
            "–",
            *_biases(voter),
            _own_answers(report.self_preference.get(name)),
            "–",
            *_spent(voter),
        )


def _biases(report: VoterReport) -> tuple[str, str, str, str]:
    return (
        number(report.unreadable_share, "%"),
        _share(report.first_preferred),
        _share(report.inconsistent),
        _length(report),
    )


def _length(report: VoterReport) -> str:
    length = report.length
    if length is None:
        return "–"
    within = length.within_prompts
    return _signed(length.of_pairs if within is None else within)


def _spent(report: VoterReport) -> tuple[str, str, str]:
    return number(report.calls), number(report.tokens), number(report.cost)


def _share(share: Estimate | None) -> str:
    """A share with its interval, in whole percent."""
    if share is None:
        return "–"
    interval = share.interval
    mean = f"{number(100 * interval.mean, digits=0)} %"
    if finite_or_none(interval.low) is None or finite_or_none(interval.high) is None:
        return mean
    low, high = 100 * interval.low, 100 * interval.high
    return f"{mean} ({number(low, digits=0)} to {number(high, digits=0)})"


def _own_answers(preference: SelfPreference | None) -> str:
    if preference is None:
        return "–"
    others = preference.lead_on_others
    on_others = None if others is None else others.mean
    return f"{_signed(preference.lead.mean)} ({_signed(on_others)})"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")
