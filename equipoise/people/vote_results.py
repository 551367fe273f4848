"""Results of people's votes: rankings, agreement with judges and among people, training data."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.blocks.section import Section, Table, Tile, Tiles, number
from equipoise.errors import RunError
from equipoise.evaluation.judge_opinions import (
    Agreement,
    VoterAgreement,
    agreement_between,
    opinions,
    readings,
    voter_agreement,
)
from equipoise.ledger.journal import (
    BOTH_BAD,
    HUMAN,
    HumanVote,
    Judged,
    first_votes,
    human_outcomes,
    judged_pairs,
    votes_of,
)
from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.judge_agreement import Calibration, calibrate
from equipoise.ratings.base import Rating, Ratings
from equipoise.ratings.bradley_terry import BradleyTerry
from equipoise.runs.directory import RunDirectory
from equipoise.system.folder import write_text
from equipoise.system.locks import check_writable
from equipoise.types import Judgement


@dataclass(frozen=True)
class JudgeBesidePeople:
    """The agreement of one judge with people on the answers that they voted on."""

    judge: str
    agreement: Agreement
    calibration: Calibration | None


@dataclass(frozen=True)
class PeopleVotes:
    """People's votes on a run's answers.

    `votes` are those that count, in order; `by_voter` how many each gave; `judges` those that
    scored both answers of some pair; `among_people` is None where nobody voted on the same pair;
    `both_bad` the share of votes that liked neither.
    """

    votes: Sequence[HumanVote]
    by_voter: Mapping[str, int]
    ratings: Sequence[Rating]
    judges: Sequence[JudgeBesidePeople]
    among_people: VoterAgreement | None
    left_preferred: float | None
    both_bad: float


def people_votes(run: RunDirectory, ratings: Ratings | None = None) -> PeopleVotes | None:
    """People's results, None without votes; `ratings`: None: by Bradley–Terry."""
    votes = votes_of(run.folder).read()
    utility = run.config.utility
    pairs = judged_pairs(run.ledger, votes, utility)
    if not pairs:
        return None
    counted = first_votes(votes)
    by_voter = dict(Counter(vote.voter for vote in counted))
    rated = (ratings or BradleyTerry.model_validate({})).rate(
        human_outcomes(pairs), run.config.seed
    )
    decided = [vote.choice for vote in counted if vote.choice in ("left", "right")]
    return PeopleVotes(
        votes=counted,
        by_voter=by_voter,
        ratings=rated,
        judges=_judges(run, pairs, utility),
        among_people=_among_people(pairs, utility),
        left_preferred=decided.count("left") / len(decided) if decided else None,
        both_bad=sum(vote.choice == BOTH_BAD for vote in counted) / len(counted),
    )


def _among_people(pairs: Sequence[Judged], utility: str) -> VoterAgreement | None:
    matches = {pair.match.id: pair.match for pair in pairs}
    judgements = [pair.judgement for pair in pairs]
    views = opinions(readings(matches, judgements, utility))
    return voter_agreement([each for each in views if each.seat < each.other])


def _judges(run: RunDirectory, pairs: Sequence[Judged], utility: str) -> list[JudgeBesidePeople]:
    """Every other judge that scored both answers of some pair."""
    by_judge = _other_judgements(run, pairs)
    beside = []
    for judge in sorted(by_judge):
        scored = [
            given
            for pair in pairs
            if (given := _judgement_of_pair(pair, by_judge[judge], judge, utility)) is not None
        ]
        if scored:
            people = [pair.judgement for pair in pairs]
            agreement = agreement_between(people, scored, utility)
            calibration = _calibration(people, scored, utility)
            beside.append(JudgeBesidePeople(judge, agreement, calibration))
    return beside


def _other_judgements(
    run: RunDirectory, pairs: Sequence[Judged]
) -> dict[str, dict[str, Judgement]]:
    """judge -> match -> judgement, of the answers' own matches and of those side by side."""
    ids = {pair.match.id for pair in pairs}
    ids |= {ref.match for pair in pairs for ref in pair.sources.values()}
    by_judge: dict[str, dict[str, Judgement]] = {}
    for judgement in run.ledger.every_judgement_of(ids):
        if judgement.judge != HUMAN:
            by_judge.setdefault(judgement.judge, {})[judgement.match] = judgement
    return by_judge


def _judgement_of_pair(
    pair: Judged, given: Mapping[str, Judgement], judge: str, utility: str
) -> Judgement | None:
    """A judge's scores of the two answers side by side, else as they were given, or None.

    Of answers of two matches, those count that the judge scored alone: a comparison with others
    says nothing of these two.
    """
    if pair.match.id in given:
        return given[pair.match.id]
    several = len({ref.match for ref in pair.sources.values()}) > 1
    scores: dict[str, dict[str, float]] = {}
    for seat, ref in pair.sources.items():
        judgement = given.get(ref.match)
        if judgement is None or (several and any(vote.other for vote in judgement.votes)):
            return None
        score = judgement.score(ref.seat, utility)
        if score is not None:
            scores[seat] = {utility: score}
    if len(scores) < len(pair.sources):
        return None
    return Judgement(pair.match.id, pair.match.id, judge, scores)


def _calibration(
    people: Sequence[Judgement], judge: Sequence[Judgement], utility: str
) -> Calibration | None:
    preferred = {each.match: each.by_seat(utility)["1"] for each in people}
    leads = []
    for each in judge:
        scores = each.by_seat(utility)
        if {"1", "2"} <= scores.keys():
            leads.append((scores["1"] - scores["2"], preferred[each.match]))
    lead_n, preferred_n = np.array(leads).reshape(-1, 2).T
    return calibrate(lead_n, preferred_n)


# -- the report's section

MOST_REASONS = 12  # of people's, the newest, that are shown


def people_sections(run: RunDirectory) -> Iterator[Section]:
    """The report's section on people; nothing where nobody voted."""
    votes = people_votes(run)
    if votes is None:
        return
    alpha = votes.among_people and votes.among_people.alpha
    tiles = (
        Tile("votes", number(len(votes.votes))),
        Tile("people", number(len(votes.by_voter))),
        Tile(
            "agreement among people",
            number(alpha, digits=2),
            "Krippendorff's alpha: 1 agree, 0 as by chance",
        ),
        Tile("left preferred", number(votes.left_preferred, "%"), "half is no bias"),
        Tile("both bad", number(votes.both_bad, "%"), "of the votes"),
    )
    blocks: list[Tiles | Table] = [Tiles(tiles)]
    if votes.ratings:
        rows = tuple(
            (r.name, f"{r.value:.0f}", f"{r.low:.0f} to {r.high:.0f}") for r in votes.ratings
        )
        columns = ("player", "rating", "95 % interval")
        blocks.append(Table(columns, rows, "Players, as people rank them"))
    if votes.judges:
        blocks.append(_judges_beside(votes.judges))
    voters = sorted(votes.by_voter.items(), key=lambda each: (-each[1], each[0]))
    by_name = tuple((name, number(count)) for name, count in voters)
    blocks.append(Table(("voter", "votes"), by_name, "Who voted"))
    if reasons := _reasons(run, votes.votes):
        columns = ("voter", "preferred", "reason")
        blocks.append(Table(columns, tuple(reasons), "Why, the newest first", True))
    lead = (
        "People saw two answers to a prompt without knowing whose they were. Bradley–"
        "Terry ratings; a tie, and two bad answers, are half a win of each."
    )
    yield Section("people", "People", tuple(blocks), lead)


def _judges_beside(judges: Sequence[JudgeBesidePeople]) -> Table:
    columns = (
        "judge",
        "pairs both decided",
        "same winner as people",
        "rank correlation",
        "log odds a point of lead",
        "log loss (coin: 0.693)",
    )
    rows = []
    for beside in judges:
        same, fitted = beside.agreement.same_winner, beside.calibration
        pairs = 0 if same is None else same.n
        slope = fitted and Interval(fitted.slope, fitted.low, fitted.high, pairs)
        rows.append(
            (
                beside.judge,
                number(pairs),
                "–" if same is None else same.interval.percent(),
                number(beside.agreement.spearman, digits=2),
                "–" if slope is None else str(slope),
                number(fitted and fitted.log_loss, digits=3),
            )
        )
    return Table(columns, tuple(rows), "Judges beside people")


def _reasons(run: RunDirectory, votes: Sequence[HumanVote]) -> list[tuple[str, str, str]]:
    """(voter, the players compared, why) of the newest votes with a reason."""
    given = [vote for vote in votes if vote.reason][-MOST_REASONS:]
    refs = {ref.match for vote in given for ref in (vote.left, vote.right)}
    matches = run.ledger.matches_of(refs)
    rows = []
    for vote in reversed(given):
        if {vote.left.match, vote.right.match} <= matches.keys():
            left = matches[vote.left.match].seats[vote.left.seat]
            right = matches[vote.right.match].seats[vote.right.seat]
            choice = {
                "left": f"{left} to {right}",
                "right": f"{right} to {left}",
                "tie": f"neither {left} nor {right}: a tie",
                BOTH_BAD: f"neither {left} nor {right}: both bad",
            }[vote.choice]
            rows.append((vote.voter, choice, vote.reason))
    return rows


# -- training data

FILE = "votes.jsonl"


def preference_rows(run: RunDirectory) -> list[dict[str, Any]]:
    """Rows in TRL's preference format, of each chat the least disputed pair, of equals the one with
    more votes.

    `score_chosen` is the share that preferred the answer, a tie as ½; a tied chat has no row.
    """
    utility = run.config.utility
    best: dict[str, tuple[tuple[float, int], Judged]] = {}
    for pair in judged_pairs(run.ledger, votes_of(run.folder).read(), utility):
        share = pair.judgement.by_seat(utility)["1"]
        weight = abs(share - 0.5), len(pair.judgement.votes)
        chat = json.dumps([(m.role, m.content) for m in pair.match.turns[0].view.messages])
        if share != 0.5 and (chat not in best or weight > best[chat][0]):
            best[chat] = weight, pair
    return [_row(pair, utility) for _, pair in best.values()]


def _row(pair: Judged, utility: str) -> dict[str, Any]:
    scores = pair.judgement.by_seat(utility)
    texts = {turn.seat: turn.move.text for turn in pair.match.turns}
    chosen, rejected = ("1", "2") if scores["1"] > scores["2"] else ("2", "1")
    messages = pair.match.turns[0].view.messages
    return {
        "prompt": [{"role": m.role, "content": m.content} for m in messages],
        "chosen": texts[chosen],
        "rejected": texts[rejected],
        "score_chosen": scores[chosen],
        "score_rejected": scores[rejected],
        "votes": len(pair.judgement.votes),
    }


def export_votes(folder: Path, to: Path, trust: bool = False) -> dict[Path, int]:
    """Write preferences to `to`/votes.jsonl: file -> rows. RunError where there are none."""
    with RunDirectory.read(folder, trust) as run:
        rows = preference_rows(run)
    if not rows:
        raise RunError(f"{folder}: people have preferred no answer yet")
    check_writable(to)
    to.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_text(to / FILE, text)
    return {to / FILE: len(rows)}
