"""The meetings of a generation's training matches, as ratings read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import fmean

from equipoise.judges.base import Grades, mean_grades
from equipoise.ratings.base import Duel
from equipoise.runs.ledger import Ledger
from equipoise.types import Judgement, PlayerId, Vote

GradesOf = Callable[[Sequence[Vote]], Grades]


def duels(
    ledger: Ledger, judge: str, t: int, utility: str, grades_of: GradesOf = mean_grades
) -> list[Duel]:
    """The meetings of two different players in generation t, in order, with what each voter gave
    both.

    `judge` by its name in the ledger; `grades_of` says what a match's votes count as. A judge
    without votes counts as one voter, by its scores. Who graded one answer only counts for neither.
    A meeting that nobody scored is a duel without scores.
    """
    matches = ledger.matches("train", t)
    judgements = ledger.judgements_of((match.id for match in matches), judge)
    meetings = []
    for match in matches:
        by_voter = _by_voter(judgements.get(match.id), utility, grades_of)
        for (a, first), (b, second) in combinations(match.seats.items(), 2):
            if first.name != second.name:
                scores = {
                    voter: (by_seat[a], by_seat[b])
                    for voter, by_seat in by_voter.items()
                    if a in by_seat and b in by_seat
                }
                meetings.append(Duel(first.name, second.name, scores))
    return meetings


def _by_voter(judgement: Judgement | None, utility: str, grades_of: GradesOf) -> Grades:
    """voter -> seat -> what it gave the seat: its grade, or the judge's score."""
    if judgement is None:
        return {}
    votes = [vote for vote in judgement.votes if not vote.other]
    if not votes:
        return {judgement.judge: judgement.by_seat(utility)}
    points: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for by, given in grades_of(votes).items():
        for seat, grade in given.items():
            points[PlayerId.parse(by).name][seat].append(grade)
    return {
        voter: {seat: fmean(values) for seat, values in by_seat.items()}
        for voter, by_seat in points.items()
    }
