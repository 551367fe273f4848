"""The page of a comparison, and its lines for a terminal."""

import datetime
import html
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from equipoise.blocks.figures import heat_map, lines_figure
from equipoise.blocks.html import Page
from equipoise.blocks.league_sections import mixture_bars
from equipoise.blocks.recorded_sections import CardAnswer, MatchCard, card_row
from equipoise.blocks.section import (
    Cards,
    Curve,
    Figure,
    Section,
    Table,
    Tile,
    Tiles,
    label,
    number,
)
from equipoise.blocks.terminal import duration
from equipoise.evaluation.compared_arms import (
    Arm,
    ComparisonNumbers,
    Difference,
    Standing,
    WinRates,
    meeting_title,
)
from equipoise.payoffs.cycles import cyclic_warning
from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.regret import gap_text

MOST_TEXT = 500_000  # characters of questions and answers on the page
LONGEST = 4_000  # of one of them

VERDICT_COLUMNS = (
    "difference of",
    "verdict",
    "over the prompts",
    "with all others",
    "prompts",
    "corrected p",
    "could have shown",
)
POOLED = (
    "The answers of a recipe's runs are taken together here, and the interval is over prompts "
    "alone: whether recipes differ, seeds included, stands under who is ahead."
)
RUNS_COLUMNS = ("runs", "p over the runs alone")  # where there are several of a recipe


def comparison_page(numbers: ComparisonNumbers, further: Sequence[Section] = ()) -> Page:
    """Everything that the page shows; `further` sections stand below win rates."""
    now = datetime.datetime.now(datetime.UTC)
    names = ", ".join(numbers.names)
    has_runs = any(len(arm.sheets) > 1 for arm in numbers.arms)
    sections = [
        verdict_section(numbers),
        standings_section(numbers),
        *(win_rates_section(i, table, has_runs) for i, table in enumerate(numbers.win_rates)),
        *further,
        curves_section(numbers.arms),
        side_by_side_section(numbers),
        usage_section(numbers.arms),
        left_out_section(numbers),
    ]
    warnings = []
    for table in numbers.win_rates:
        warning = cyclic_warning(table.cyclic_triples)
        if warning:
            warnings.append(f"{table.measure}: {warning}")
    return Page(
        f"Comparison of {len(numbers.arms)}",
        names,
        now.strftime("%Y-%m-%d %H:%M UTC"),
        tuple(sections),
        tuple(warnings),
    )


# -- differences


def verdict_section(numbers: ComparisonNumbers) -> Section:
    """The differences of all pairs, with their verdicts."""
    shown = [each for each in numbers.differences if each.differs]
    prompts = [each.items for each in numbers.differences]
    tiles = (
        Tile(
            "shown to differ", f"{len(shown)} of {len(numbers.differences)}", "pairs and measures"
        ),
        Tile("prompts", span_text(prompts), "that both of a pair answered"),
        Tile(
            "level of each interval",
            number(numbers.level, "%"),
            "at which all of them hold together at 95 %",
        ),
    )
    tables = []
    has_runs = any(each.seeds != (1, 1) for each in numbers.differences)
    columns = VERDICT_COLUMNS + (RUNS_COLUMNS if has_runs else ())
    for measure in numbers.measures:
        rows = []
        for each in numbers.differences:
            if each.measure == measure:
                rows.append(verdict_row(each) + (runs_cells(each) if has_runs else ()))
        if rows:
            tables.append(Table(columns, tuple(rows), measure))
    lead = (
        "Every difference is paired, prompt by prompt: all samples of a prompt are one item. "
        "Beside its own 95 % interval stands the wider one that holds together with all others on "
        "this page. Two targets are said to differ only where that interval leaves out 0 and the "
        "sign-flip test, corrected by Holm for all comparisons, is below 0.05. The last number is "
        "the smallest true difference that these prompts would have shown four times in five."
    )
    return Section("differences", "Who is ahead", (Tiles(tiles), *tables), lead)


def verdict_row(each: Difference) -> tuple[str, ...]:
    """A difference as a row of the table."""
    items = f"{each.items:,}"
    if each.only_first or each.only_second:
        items += f" (+{each.only_first:,} and {each.only_second:,} of one alone)"
    return (
        f"{each.first} − {each.second}",
        each.word,
        difference_text(each.interval, each.share),
        bounds_text(each.together, each.share),
        items,
        p_text(each.adjusted),
        smallest_text(each),
    )


def runs_cells(each: Difference) -> tuple[str, ...]:
    """The runs of either recipe, and the exact test over them alone."""
    return f"{each.seeds[0]} and {each.seeds[1]}", p_text(each.seed_p)


def difference_text(interval: Interval, share: bool) -> str:
    """`+4.1 points (1.0 to 7.2)`, or a number of another unit."""
    mean = amount_text(interval.mean, share, sign=True)
    if not np.isfinite(interval.low):
        return f"{mean} (no interval)"
    return f"{mean} ({bounds_text(interval, share)})"


def bounds_text(interval: Interval, share: bool) -> str:
    """`−1.2 to +7.2`."""
    if not np.isfinite(interval.low):
        return "–"
    low = signed(interval.low, share)
    high = signed(interval.high, share)
    return f"{low} to {high}"


def amount_text(value: float, share: bool, sign: bool = False) -> str:
    """A difference with its unit: points of a share, else the plain number."""
    if not np.isfinite(value):
        return "–"
    text = signed(value, share)
    if not sign:
        text = text.lstrip("+")
    return f"{text} points" if share else text


def smallest_text(each: Difference) -> str:
    """The smallest difference that could have been shown; shares differ by one at most."""
    if each.share and each.smallest > 1:
        return "nothing"
    return amount_text(each.smallest, each.share)


def signed(value: float, share: bool) -> str:
    """A number with its sign, of a share in points."""
    text = f"{100 * value:+.1f}" if share else f"{value:+.3g}"
    return text.replace("-", "−")


def p_text(p: float) -> str:
    """A p-value to read."""
    if not np.isfinite(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def prompts_text(count: int) -> str:
    """`1 prompt`, `20 prompts`."""
    return f"{count:,} prompt" if count == 1 else f"{count:,} prompts"


def span_text(values: Sequence[int]) -> str:
    """`20`, or `18–20`."""
    if not values:
        return "–"
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


# -- standings


def standings_section(numbers: ComparisonNumbers) -> Section:
    """Each target's score and the places that it may have, by measure."""
    blocks: list[Table | Figure] = []
    for measure, rows in numbers.standings.items():
        table = Table(
            ("target", "place", "score", "prompts", "without a score"),
            tuple(standing_row(row, len(rows)) for row in rows),
            measure,
        )
        blocks.append(table)
    lead = (
        "A range of places is what the joint intervals leave open: from one more than those that "
        "are surely better, to all but those that are surely worse. A score has its own 95 % "
        "interval, the same as in the report of its run; two scores whose intervals overlap may "
        "differ all the same, since prompts are shared: read the differences above."
    )
    if any(len(arm.sheets) > 1 for arm in numbers.arms):
        lead += f" {POOLED}"
    return Section("standings", "Places", tuple(blocks), lead)


def standing_row(row: Standing, arms: int) -> tuple[str, ...]:
    """A standing as a row of the table."""
    place = f"{row.first}" if row.first == row.last else f"{row.first} to {row.last}"
    score = row.score
    is_share = score.low >= 0 and score.high <= 1
    return (
        row.arm,
        f"{place} of {arms}",
        score.percent() if is_share else score.text(),
        f"{row.prompts:,}" if row.prompts else "–",
        f"{row.missing:,}" if row.missing else "",
    )


# -- who beats whom


def win_rates_section(place: int, rates: WinRates, has_runs: bool = False) -> Section:
    """Win rates of each against each, the equilibrium, and what beats each target."""
    players = rates.table.players
    name = f"win-rates-{place}"
    title = f"Who beats whom: {rates.measure}"
    if not rates.rates:
        return Section(name, title, reason="no two targets answered the same prompt")
    rate_NN = np.full((len(players), len(players)), np.nan)
    written = [["" for _ in players] for _ in players]
    hover = [["" for _ in players] for _ in players]
    for (first, second), rate in rates.rates.items():
        i, j = players.index(first), players.index(second)
        rate_NN[i, j] = rate.mean - 0.5
        written[i][j] = f"{100 * rate.mean:.0f} %"
        pair = f"{label(first)} over {label(second)}"
        hover[i][j] = f"{pair}<br><b>{rate.percent()}</b><br>{prompts_text(rate.n)}"
    figure = heat_map(
        "Win rate of the row's target over the column's",
        players,
        players,
        rate_NN,
        written,
        hover,
        ("", "over …"),
        most=0.5,
    )
    rows = []
    for player in players:
        gap, by = rates.gaps[player]
        share = rates.mixture.get(player)
        rows.append(
            (
                player,
                *(rate_cell(rates, player, other) for other in players),
                "–" if share is None else number(share, "%"),
                gap_text(gap),
                by,
            )
        )
    columns = ("", *(f"over {other}" for other in players), "Nash mass", "exploitability", "by")
    blocks: list[Figure | Table | Tiles] = [figure, Table(columns, tuple(rows))]
    if len(players) > 2:
        blocks.append(mixture_bars(rates.mixture))
        circles = tuple(
            (" → ".join((*circle, circle[0])), number(gain, digits=2))
            for circle, gain in rates.circles
        )
        if circles:
            blocks.append(Table(("each beats the next", "least pay-off"), circles, "Circles"))
    lead = (
        "An answer wins where its score is higher, and a tie counts half; each answer to a prompt "
        "meets each of the other's, and a prompt counts once. Intervals hold for all pairs "
        "together. Nash mass is the share in the mixture that no target beats. Exploitability is "
        "what the best of the others wins against a target, P(win) − P(loss), for all at once."
    )
    if has_runs:
        lead += f" {POOLED}"
    return Section(name, title, tuple(blocks), lead)


def rate_cell(rates: WinRates, first: str, second: str) -> str:
    """A win rate with its interval."""
    rate = rates.rates.get((first, second))
    return "" if rate is None else rate.percent()


# -- courses, answers, costs


def curves_section(arms: Sequence[Arm]) -> Section:
    """The courses of learning, overlaid by measure."""
    by_title: dict[str, list[Curve]] = {}
    units: dict[str, str] = {}
    for arm in arms:
        for number_of_run, sheet in enumerate(arm.sheets, 1):
            for title, curve in sheet.curves.items():
                name = arm.name if len(arm.sheets) == 1 else f"{arm.name} ({number_of_run})"
                own = by_title.setdefault(title, [])
                units[title] = curve.unit
                same = [each for each in own if (each.x, each.mean) == (curve.x, curve.mean)]
                if same:  # of another generation of the same run
                    own.remove(same[0])
                    name = f"{same[0].name}, {name}"
                own.append(replace(curve, name=name))
    figures = [lines_figure(title, own, unit=units[title]) for title, own in by_title.items()]
    if not figures:
        return Section("learning", "Courses of learning", reason="no target is a run that learned")
    lead = "As each run measured itself, on its own held-out prompts."
    return Section("learning", "Courses of learning", tuple(figures), lead)


def side_by_side_section(numbers: ComparisonNumbers) -> Section:
    """The answers of all targets to one question, those that differ most first."""
    cards = []
    for measure in numbers.measures:
        cards += list(question_cards(numbers.arms, measure))
    if not cards:
        return Section(
            "answers", "Answers side by side", reason="the answers of no two targets are recorded"
        )
    cards.sort(key=lambda card: -spread_of(card))
    kept: list[MatchCard] = []
    size = 0
    for card in cards:
        size += sum(len(message.content) for message in card.prompt)
        size += sum(len(answer.text) for answer in card.answers)
        if size > MOST_TEXT:
            break
        kept.append(card)
    rows = []
    for card in kept:
        rows.append({**card_row(card), "generation": None})
    source = f"{len(cards):,} questions of this comparison"
    if len(kept) < len(cards):
        source = f"the {len(kept):,} of {source} that differ most"
    block = Cards(rows, len(cards), source=source)
    lead = (
        "One question a card, with the answer of each target: those whose scores differ most come "
        "first."
    )
    return Section("answers", "Answers side by side", (block,), lead)


def question_cards(arms: Sequence[Arm], measure: str) -> Iterator[MatchCard]:
    """A card for each item that two targets or more answered."""
    items: dict[str, None] = {}
    judges = {judge for arm in arms for sheet in arm.sheets for judge in sheet.meetings}
    meetings = {meeting_title(judge) for judge in judges}
    for arm in arms:
        for sheet in arm.sheets:
            if measure in sheet.measures:
                items.update(dict.fromkeys(sheet.measures[measure].scores))
            elif measure in meetings:
                items.update(dict.fromkeys(sheet.answers))
    for item in items:
        answers = []
        prompt = ()
        for arm in arms:
            for place, sheet in enumerate(arm.sheets, 1):
                shown = sheet.answers.get(item)
                if shown is None or not shown.answers:
                    continue
                if measure not in sheet.measures and measure not in meetings:
                    continue
                scores = ()
                if measure in sheet.measures:
                    scores = sheet.measures[measure].scores.get(item, ())
                mean = float(np.mean(scores)) if len(scores) else None
                more = len(shown.answers) - 1
                note = ""
                if more:
                    note = f"mean score of {more + 1} samples; the first is shown"
                answers.append(
                    CardAnswer(
                        player=arm.name if len(arm.sheets) == 1 else f"{arm.name} ({place})",
                        text=shown.answers[0][:LONGEST],
                        score=mean,
                        note=note,
                    )
                )
                prompt = shown.prompt
        if len(answers) > 1:
            yield MatchCard(item, None, measure, prompt, tuple(answers))


def spread_of(card: MatchCard) -> float:
    """The largest difference between two scores of a card."""
    scores = [answer.score for answer in card.answers if answer.score is not None]
    return max(scores) - min(scores) if len(scores) > 1 else -1.0


def usage_section(arms: Sequence[Arm]) -> Section:
    """Tokens of the measured answers; money and time of the runs behind them."""
    rows = []
    for arm in arms:
        facts = arm.usage_facts()
        answers, tokens, seconds = facts["answers"], facts["tokens"], facts["seconds"]
        per_answer = f"{tokens / answers:.0f}" if answers and tokens else "–"
        money = [f"{amount:,.4f} {unit}".strip() for unit, amount in facts["money"].items()]
        rows.append(
            (
                arm.name,
                "; ".join(facts["is"]) or "–",
                f"{facts['runs']}",
                "–".join(map(str, facts["generations"])),
                f"{answers:,}" if answers else "–",
                f"{tokens:,}" if tokens else "–",
                per_answer,
                " + ".join(money) or "–",
                duration(seconds) if seconds else "–",
            )
        )
    columns = (
        "target",
        "what it is",
        "runs",
        "generation",
        "answers measured",
        "tokens of them",
        "tokens an answer",
        "money of its run",
        "time of its run",
    )
    lead = (
        "Money is by the prices that the run was given, in their currency; time and money are "
        "those of the whole run, of training, too."
    )
    return Section("usage", "Targets: cost, tokens, time", (Table(columns, tuple(rows)),), lead)


def left_out_section(numbers: ComparisonNumbers) -> Section:
    """Sentences on measures that are not compared."""
    if not numbers.notes:
        return Section("notes", "What is not compared", reason="nothing was left out")
    rows = tuple((note,) for note in numbers.notes)
    return Section("notes", "What is not compared", (Table(("",), rows, prose=True),))


# -- a terminal and a notebook


def difference_line(each: Difference) -> str:
    """A difference in one line: the verdict, the numbers behind it, and what they could show."""
    if not each.items:
        return f"{each.first} − {each.second}: {each.word}"
    apart = difference_text(each.interval, each.share)
    together = bounds_text(each.together, each.share)
    smallest = smallest_text(each)
    runs = "" if each.seeds == (1, 1) else f", {each.seeds[0]} and {each.seeds[1]} runs"
    alone = each.only_first + each.only_second
    unpaired = f", {alone:,} of one alone left out" if alone else ""
    return (
        f"{each.first} − {each.second}: {each.word}; {apart}, with all others {together}; "
        f"{prompts_text(each.items)}{runs}{unpaired}; corrected p {p_text(each.adjusted)}; "
        f"could have shown {smallest}"
    )


def comparison_lines(numbers: ComparisonNumbers) -> list[str]:
    """The verdicts, a line each."""
    lines = [f"{each.measure}: {difference_line(each)}" for each in numbers.differences]
    return [*lines, *numbers.notes]


def comparison_table(numbers: ComparisonNumbers) -> str:
    """The verdicts as an HTML table."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("measure", *VERDICT_COLUMNS))
    body = []
    for each in numbers.differences:
        row = (each.measure, *verdict_row(each))
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        body.append(f"<tr>{cells}</tr>")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div style="overflow-x: auto">{table}</div>'
