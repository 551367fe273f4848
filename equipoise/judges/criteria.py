"""Criteria that stay apart: each member's wins between the answers of one match, and the answers'
scores against the adversary of the criterion by which they are worst off.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from equipoise.judges.base import Judge
from equipoise.judges.pairwise import Comparing, combine_orders
from equipoise.judges.question import Reading
from equipoise.solvers.blackwell import criterion_gains
from equipoise.types import Judgement, Match

Wins = dict[tuple[str, str], float]
"""(seat, other) -> P(the seat's answer is preferred); both orders of what is known."""


def member_wins(judge: Judge, match: Match, judgement: Judgement) -> Wins:
    """P(a is preferred to b) by one member, of every two seats of which it is known.

    Of a member that compares: by its votes on the two, in both orders, as its `flip` says. Of one
    that scores: 1 for the higher score, ½ for equal ones. Equal answers are a tie.
    """
    turns = match.last_turns()
    scores = judgement.by_seat("score")
    wins: Wins = {}
    for first, second in combinations(match.seats, 2):
        win: float | str = ""
        if isinstance(judge, Comparing):
            win = compared_win(judge, judgement, first, second)
            both = first in turns and second in turns
            if both and {first, second} <= scores.keys() and judge.alike(match, first, second):
                win = 0.5
        elif first in scores and second in scores:
            lead = scores[first] - scores[second]
            win = 0.5 if lead == 0 else float(lead > 0)
        if not isinstance(win, str):
            wins[first, second] = win
            wins[second, first] = 1 - win
    return wins


def compared_win(judge: Comparing, judgement: Judgement, first: str, second: str) -> float | str:
    """P(first is preferred to second) by a judge's recorded votes, or why it is not known."""
    readings = {
        (vote.seat, vote.other): Reading(vote.value, vote.reason) for vote in judgement.votes
    }
    forward = readings.get((first, second))
    backward = readings.get((second, first))
    if forward is None or backward is None:
        return "the two were not compared in both orders"
    return combine_orders(forward, backward, judge.flip)


def seats_in_all(match: Match, members: Mapping[str, Wins]) -> list[str]:
    """The seats of which every member knows how each meets each other; of those that it does not,
    the one with the most unknown meetings is left out first.
    """
    seats = list(match.seats)
    while len(seats) > 1:
        unknown = dict.fromkeys(seats, 0)
        for wins in members.values():
            for pair in combinations(seats, 2):
                if pair not in wins:
                    for seat in pair:
                        unknown[seat] += 1
        worst = max(reversed(seats), key=lambda seat: unknown[seat])
        if not unknown[worst]:
            return seats
        seats.remove(worst)
    return []


def scores_by_worst_criterion(
    seats: list[str], members: Mapping[str, Wins], beta: float
) -> dict[str, float]:
    """How often each seat's answer is preferred to the adversary's, by the criterion by which the
    answers together are left with least.

    The policy is the match's answers, each as likely; the adversary chooses among them, too, and
    pays `beta` a nat for leaving equal chances.
    """
    if len(seats) < 2:
        return {}
    size = len(seats)
    win_CNN = np.full((len(members), size, size), 0.5)
    for criterion, wins in enumerate(members.values()):
        for row, seat in enumerate(seats):
            for column, other in enumerate(seats):
                if seat != other:
                    win_CNN[criterion, row, column] = wins[seat, other]
    alike_N = np.full(size, 1 / size)
    gain_N = criterion_gains(win_CNN, alike_N, alike_N, beta)
    return dict(zip(seats, map(float, gain_N), strict=True))
