"""The stage that rates: the players' ratings after a generation's matches."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import fmean

from equipoise import seeds
from equipoise.judges.base import Grades, mean_grades
from equipoise.ledger.ledger import Ledger
from equipoise.ratings.base import Duel, Ratings
from equipoise.runs.contexts import training_ratings
from equipoise.runs.open_run import OpenRun
from equipoise.types import Judgement, Match, PlayerId, Vote

GradesOf = Callable[[Sequence[Vote]], Grades]


def rate(
    run: OpenRun, matches: Sequence[Match], judgements: Sequence[Judgement], t: int
) -> list[Judgement]:
    """Rate the players; return the judgements, weighed by their judges' ratings."""
    judges = run.config.teachers
    key = f"{t}/rate"
    config = run.config
    names = [player.name for player in run.roster.players(t)]
    comparable = len(names) > 1 and config.game.symmetric
    if comparable and matches and not run.ledger.has_finished(key):
        run.show("ratings", None, t)
        with run.stage("rate", key, t) as facts:
            judge = next(iter(judges.values()))
            rates_all = (
                type(config.training_ratings).training_ratings is not Ratings.training_ratings
            )
            by_generation = [
                duels(run.ledger, judge.name, g, config.utility, judge.grades_by_votes)
                for g in range(0 if rates_all else t, t + 1)
            ]
            seed = seeds.child(config.seed, "standing", t)
            rated = config.training_ratings.training_ratings(names, by_generation, seed)
            facts["duels"] = len(by_generation[-1])
            facts["ratings"] = [
                {"name": r.name, "value": r.value, "low": r.low, "high": r.high} for r in rated
            ]
    ratings = training_ratings(run, t + 1)
    return [judges[judgement.judge].reweigh(judgement, ratings) for judgement in judgements]


def duels(
    ledger: Ledger, judge: str, t: int, utility: str, grades_of: GradesOf = mean_grades
) -> list[Duel]:
    """Meetings of two players in generation t, in order, with each voter's grades of both.

    `grades_of` says what a match's votes count as. A judge without votes counts as one voter, by
    its scores. Who graded one answer only counts for neither. A meeting that nobody scored is a
    duel without scores.
    """
    matches = ledger.matches("train", t)
    judgements = ledger.judgements_of((match.id for match in matches), judge)
    meetings = []
    for match in matches:
        judgement = judgements.get(match.id)
        by_voter = _by_voter(judgement, utility, grades_of)
        compared = None if judgement is None else judgement.compared()
        for (a, first), (b, second) in combinations(match.seats.items(), 2):
            if first.name != second.name:
                scores = {
                    voter: (by_seat[a], by_seat[b])
                    for voter, by_seat in by_voter.items()
                    if a in by_seat
                    and b in by_seat
                    and (compared is None or frozenset((a, b)) in compared)
                }
                meetings.append(Duel(first.name, second.name, scores, match.prompt))
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
