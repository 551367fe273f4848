"""Judges calibrated on people's votes: κ, and win rates of two players corrected for a judge's
errors.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.blocks.section import Section, Table, finite_or_none
from equipoise.ledger.votes_and_matches import (
    Judged,
    human_outcomes,
    judged_pairs,
    side_by_side,
    votes_of,
)
from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.judge_calibration import CalibratedRate, calibrated_rate, kappa
from equipoise.people.ballot import VOTED_PARTS, AnswerPool, Pairing
from equipoise.people.vote_results import judgement_of_pair, other_judgements
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement

FEWEST = 3  # votes on two players below which nothing is shown of them
COLUMNS = (
    "win rate of",
    "judge",
    "by the judge alone",
    "by votes alone",
    "prediction-powered",
    "Rogan–Gladen",
    "κ with people",
    "votes, and judged beside",
    "more votes would settle it",
)


@dataclass(frozen=True, slots=True)
class CalibratedPair:
    """The win rate of `first` over `second` by one judge and by people's votes.

    `voted` items have votes and a verdict of the judge, `judged` ones its verdict alone; `kappa` is
    its agreement with people on who wins, ties included, on the voted ones.
    """

    first: str
    second: str
    judge: str
    rate: CalibratedRate
    kappa: Interval
    voted: int
    judged: int

    def row(self) -> tuple[str, ...]:
        """The pair as a row of the table."""
        more = "–"
        if self.rate.more_votes is not None:
            more = "settled" if self.rate.more_votes == 0 else f"{self.rate.more_votes:,}"
        return (
            f"{self.first} over {self.second}",
            self.judge,
            rate_text(self.rate.judge),
            rate_text(self.rate.votes),
            rate_text(self.rate.prediction_powered),
            rate_text(self.rate.rogan_gladen),
            self.kappa.text(),
            f"{self.voted:,} and {self.judged:,}",
            more,
        )

    def line(self) -> str:
        """The pair in one line."""
        title, judge, alone, votes, powered, *_ = self.row()
        *_, more = self.row()
        return (
            f"people: {title}: {powered} by {self.voted:,} votes and {judge}; {judge} alone "
            f"{alone}, votes alone {votes}; more votes to settle it: {more}"
        )

    def facts(self) -> dict[str, Any]:
        """Plain JSON values."""
        facts: dict[str, Any] = {
            "first": self.first,
            "second": self.second,
            "judge": self.judge,
            "voted": self.voted,
            "judged": self.judged,
            "more_votes": self.rate.more_votes,
        }
        intervals = {**self.rate._asdict(), "kappa": self.kappa}
        for name, interval in intervals.items():
            if isinstance(interval, Interval):
                values = (interval.mean, interval.low, interval.high)
                facts[name] = [finite_or_none(value) for value in values]
        return facts


def rate_text(interval: Interval) -> str:
    """A win rate in percent; its interval may leave [0, 1], and is cut there."""
    if math.isnan(interval.low):
        return interval.percent()
    low = max(0.0, interval.low)
    high = min(1.0, interval.high)
    return Interval(min(max(interval.mean, low), high), low, high, interval.n).percent()


def calibrated_pairs(
    run: RunDirectory, players: Sequence[str] | None = None
) -> list[CalibratedPair]:
    """Every two players on whose answers people voted, by every judge that judged those, too.

    `players`: only these, as `policy@3`. Votes on one pair of answers are one item, their mean.
    """
    utility = run.config.utility
    votes = votes_of(run.folder).read()
    pairs = judged_pairs(run.ledger, votes, utility)
    if not pairs:
        return []
    voted = {pair.match.id: pair for pair in pairs}
    by_players = items_by_players(run, voted)
    calibrated = []
    for (first, second), items in sorted(by_players.items()):
        if players is not None and not {first, second} <= set(players):
            continue
        given = other_judgements(run, items)
        for judge, judgements in sorted(given.items()):
            pair = calibrated_pair(first, second, judge, items, voted, judgements, utility)
            if pair is not None:
                calibrated.append(pair)
    return calibrated


def items_by_players(
    run: RunDirectory, voted: Mapping[str, Judged]
) -> dict[tuple[str, str], list[Judged]]:
    """(first, second) -> everything that both answered, of players on whom people voted."""
    items: dict[tuple[str, str], dict[str, Judged]] = {}
    for outcome in human_outcomes(list(voted.values())):
        names = sorted((outcome.first, outcome.second))
        items.setdefault((names[0], names[1]), {})
    for pair in voted.values():
        names = sorted(str(player) for player in pair.match.seats.values())
        if (names[0], names[1]) in items:
            items[names[0], names[1]][pair.match.id] = pair
    for part in VOTED_PARTS:
        pool = AnswerPool(part)
        pool.read(run.ledger)
        for first, second in items:
            if first in pool.chats_of and second in pool.chats_of:
                for pairing in pool.pairs(first, second):
                    items[first, second].setdefault(pairing.id, unvoted(run, pairing))
    return {names: list(of_pair.values()) for names, of_pair in items.items()}


def unvoted(run: RunDirectory, pairing: Pairing) -> Judged:
    """Two answers side by side on which nobody has voted."""
    first, second = sorted((pairing.one.ref, pairing.other.ref))
    matches = run.ledger.matches_of({first.match, second.match})
    match = side_by_side(pairing.id, first, second, matches)
    return Judged(match, Judgement(match.id, match.id, "", None), {"1": first, "2": second})


def calibrated_pair(
    first: str,
    second: str,
    judge: str,
    items: Sequence[Judged],
    voted: Mapping[str, Judged],
    judgements: Mapping[str, Judgement],
    utility: str,
) -> CalibratedPair | None:
    """The two players by one judge; None where it shares fewer than `FEWEST` items with people."""
    unseen: list[float] = []
    of_judge: list[float] = []
    of_people: list[float] = []
    for item in items:
        given = judgement_of_pair(item, judgements, judge, utility)
        verdict = None if given is None else win_of(first, item, given, utility)
        if verdict is None:
            continue
        if item.match.id in voted:
            share = share_of(first, item, utility)
            of_judge.append(verdict)
            of_people.append(share)
        else:
            unseen.append(verdict)
    if len(of_people) < FEWEST:
        return None
    rate = calibrated_rate(unseen, of_judge, of_people)
    winners = [(share > 0.5) - (share < 0.5) for share in of_people]
    own = [(verdict > 0.5) - (verdict < 0.5) for verdict in of_judge]
    agreement = kappa(own, winners)
    return CalibratedPair(first, second, judge, rate, agreement, len(of_people), len(unseen))


def win_of(player: str, item: Judged, judgement: Judgement, utility: str) -> float | None:
    """1 where the judge scores the player's answer above the other, ½ where alike, else 0."""
    scores = judgement.by_seat(utility)
    if not {"1", "2"} <= scores.keys():
        return None
    lead = scores["1"] - scores["2"]
    won = 0.5 * (1 + (lead > 0) - (lead < 0))
    return won if str(item.match.seats["1"]) == player else 1 - won


def share_of(player: str, item: Judged, utility: str) -> float:
    """The share of people who prefer the player's answer, ties counting half."""
    share = item.judgement.by_seat(utility)["1"]
    return share if str(item.match.seats["1"]) == player else 1 - share


LEAD = (
    "Votes are few and unbiased, a judge's verdicts many and biased. Prediction-powered rates take "
    "the judge for precision and the votes for the truth; where the judge is no help, they are "
    "those of the votes. Rogan–Gladen turns the judge's rate by its error rates on what people "
    "voted on. Both hold where the voted pairs are a random part of what both players answered, as "
    "`equipoise vote` draws them. The last column is how many more votes would tell the rate from "
    "one half with a chance of 80 %, were it where it seems; –: that cannot be said yet."
)


def calibration_sections(
    run: RunDirectory, players: Sequence[str] | None = None
) -> Iterator[Section]:
    """The section on a run's judges calibrated on people; nothing where nobody voted."""
    yield from calibration_section(calibrated_pairs(run, players))


def calibration_section(pairs: Sequence[CalibratedPair]) -> Iterator[Section]:
    """The section on calibrated pairs; nothing without one."""
    if pairs:
        rows = tuple(pair.row() for pair in pairs)
        table = Table(COLUMNS, rows)
        yield Section("calibrated", "Win rates, calibrated on people", (table,), LEAD)
