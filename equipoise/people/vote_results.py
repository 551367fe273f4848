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
from equipoise.ledger.votes_and_matches import (
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
    if ratings is None:
        ratings = BradleyTerry.model_validate({})
    counted = first_votes(votes)
    choices = Counter(vote.choice for vote in counted)
    decided = choices["left"] + choices["right"]
    left_preferred = None
    if decided:
        left_preferred = choices["left"] / decided
    return PeopleVotes(
        votes=counted,
        by_voter=dict(Counter(vote.voter for vote in counted)),
        ratings=ratings.rate(human_outcomes(pairs), run.config.seed),
        judges=judges_beside_people(run, pairs, utility),
        among_people=agreement_among_people(pairs, utility),
        left_preferred=left_preferred,
        both_bad=choices[BOTH_BAD] / len(counted),
    )


def agreement_among_people(pairs: Sequence[Judged], utility: str) -> VoterAgreement | None:
    """The agreement of voters on the same pairs, None where nobody voted on the same."""
    matches = {pair.match.id: pair.match for pair in pairs}
    judgements = [pair.judgement for pair in pairs]
    views = opinions(readings(matches, judgements, utility))
    return voter_agreement([each for each in views if each.seat < each.other])


def judges_beside_people(
    run: RunDirectory, pairs: Sequence[Judged], utility: str
) -> list[JudgeBesidePeople]:
    """Every other judge that scored both answers of some pair."""
    by_judge = other_judgements(run, pairs)
    people = [pair.judgement for pair in pairs]
    beside = []
    for judge in sorted(by_judge):
        scored = []
        for pair in pairs:
            given = judgement_of_pair(pair, by_judge[judge], judge, utility)
            if given is not None:
                scored.append(given)
        if scored:
            agreement = agreement_between(people, scored, utility)
            calibration = calibration_of(people, scored, utility)
            beside.append(JudgeBesidePeople(judge, agreement, calibration))
    return beside


def other_judgements(run: RunDirectory, pairs: Sequence[Judged]) -> dict[str, dict[str, Judgement]]:
    """judge -> match -> judgement, of the answers' own matches and of those side by side."""
    ids = {pair.match.id for pair in pairs}
    for pair in pairs:
        ids.update(ref.match for ref in pair.sources.values())
    by_judge: dict[str, dict[str, Judgement]] = {}
    for judgement in run.ledger.every_judgement_of(ids):
        if judgement.judge != HUMAN:
            by_judge.setdefault(judgement.judge, {})[judgement.match] = judgement
    return by_judge


def judgement_of_pair(
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


def calibration_of(
    people: Sequence[Judgement], judge: Sequence[Judgement], utility: str
) -> Calibration | None:
    """How well the judge's leads foretell what people prefer, None where that cannot be told."""
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
    alpha = None
    if votes.among_people is not None:
        alpha = votes.among_people.alpha
    note = "Krippendorff's alpha: 1 agree, 0 as by chance"
    tiles = (
        Tile("votes", number(len(votes.votes))),
        Tile("people", number(len(votes.by_voter))),
        Tile("agreement among people", number(alpha, digits=2), note),
        Tile("left preferred", number(votes.left_preferred, "%"), "half is no bias"),
        Tile("both bad", number(votes.both_bad, "%"), "of the votes"),
    )
    blocks: list[Tiles | Table] = [Tiles(tiles)]
    if votes.ratings:
        rows = []
        for rating in votes.ratings:
            interval = f"{rating.low:.0f} to {rating.high:.0f}"
            rows.append((rating.name, f"{rating.value:.0f}", interval))
        columns = ("player", "rating", "95 % interval")
        blocks.append(Table(columns, tuple(rows), "Players, as people rank them"))
    if votes.judges:
        blocks.append(judges_table(votes.judges))
    voters = sorted(votes.by_voter.items(), key=lambda each: (-each[1], each[0]))
    by_name = tuple((name, number(count)) for name, count in voters)
    blocks.append(Table(("voter", "votes"), by_name, "Who voted"))
    reasons = newest_reasons(run, votes.votes)
    if reasons:
        columns = ("voter", "preferred", "reason")
        blocks.append(Table(columns, tuple(reasons), "Why, the newest first", True))
    lead = (
        "People saw two answers to a prompt without knowing whose they were. Bradley–"
        "Terry ratings; a tie, and two bad answers, are half a win of each."
    )
    yield Section("people", "People", tuple(blocks), lead)


def judges_table(judges: Sequence[JudgeBesidePeople]) -> Table:
    """A row for each judge: its agreement with people, and its calibration."""
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
        pairs = 0
        same = "–"
        if beside.agreement.same_winner is not None:
            pairs = beside.agreement.same_winner.n
            same = beside.agreement.same_winner.interval.percent()
        slope = "–"
        loss = None
        fitted = beside.calibration
        if fitted is not None:
            slope = str(Interval(fitted.slope, fitted.low, fitted.high, pairs))
            loss = fitted.log_loss
        correlation = number(beside.agreement.spearman, digits=2)
        loss_text = number(loss, digits=3)
        rows.append((beside.judge, number(pairs), same, correlation, slope, loss_text))
    return Table(columns, tuple(rows), "Judges beside people")


def newest_reasons(run: RunDirectory, votes: Sequence[HumanVote]) -> list[tuple[str, str, str]]:
    """(voter, the players compared, why) of the newest votes with a reason."""
    given = [vote for vote in votes if vote.reason][-MOST_REASONS:]
    refs: set[str] = set()
    for vote in given:
        refs |= {vote.left.match, vote.right.match}
    matches = run.ledger.matches_of(refs)
    rows = []
    for vote in reversed(given):
        if vote.left.match not in matches or vote.right.match not in matches:
            continue
        left = matches[vote.left.match].seats[vote.left.seat]
        right = matches[vote.right.match].seats[vote.right.seat]
        choices = {
            "left": f"{left} to {right}",
            "right": f"{right} to {left}",
            "tie": f"neither {left} nor {right}: a tie",
            BOTH_BAD: f"neither {left} nor {right}: both bad",
        }
        rows.append((vote.voter, choices[vote.choice], vote.reason))
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
        if share == 0.5:
            continue
        weight = (abs(share - 0.5), len(pair.judgement.votes))
        messages = pair.match.turns[0].view.messages
        chat = json.dumps([(message.role, message.content) for message in messages])
        if chat not in best or weight > best[chat][0]:
            best[chat] = (weight, pair)
    return [preference_row(pair, utility) for _, pair in best.values()]


def preference_row(pair: Judged, utility: str) -> dict[str, Any]:
    """The pair as a row of TRL's preference format."""
    scores = pair.judgement.by_seat(utility)
    texts = {turn.seat: turn.move.text for turn in pair.match.turns}
    chosen, rejected = "2", "1"
    if scores["1"] > scores["2"]:
        chosen, rejected = "1", "2"
    messages = pair.match.turns[0].view.messages
    return {
        "prompt": [{"role": message.role, "content": message.content} for message in messages],
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
