"""Ratings of a run's players, computed anew from its ledger alone."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from equipoise import seeds
from equipoise.errors import ConfigError, RunError
from equipoise.evaluation.held_out import HeldOut
from equipoise.judges.base import mean_grades
from equipoise.ledger.journal import HUMAN, human_outcomes, judged_pairs
from equipoise.payoffs.cycles import cyclic_triples, cyclic_warning
from equipoise.payoffs.table import Meeting, PayoffTable, tally
from equipoise.people.vote_results import people_votes
from equipoise.ratings.base import Duel, Rating, Ratings, duel_result, table_outcomes
from equipoise.runs.arena import RunArena
from equipoise.runs.directory import RunDirectory
from equipoise.runs.open_run import OpenRun
from equipoise.runs.rate_players import duels

RatedBy = Literal["matches", "league", "votes"]


@dataclass(frozen=True)
class Rerating:
    """Ratings, and by what they were computed.

    By "matches": the players' ratings after each generation's training matches; "league": one list,
    of every generation by held-out pay-offs; "votes": one list, of every generation that people
    voted on. `table`: the pay-offs behind the last list. `warning`: why one number misleads, or "".
    """

    rated_by: RatedBy
    kind: str
    ratings: tuple[tuple[Rating, ...], ...]
    table: PayoffTable
    warning: str


def rerate(
    run: RunDirectory,
    ratings: Ratings | None = None,
    rated_by: RatedBy | None = None,
    judge: str = "",
) -> Rerating:
    """Rate a run's players anew.

    Args: ratings: None: as the run does, and by Bradley–Terry where people voted; rated_by: None:
    by people's votes for the judge `human`, by matches where several players met in training, else
    the league; judge: by its name in the ledger, "" for the run's own.

    Raises RunError where nothing is there to rate by, ConfigError for a judge of the league, or an
    evaluation that keeps no held-out matches.
    """
    if rated_by == "votes" or (rated_by is None and judge == HUMAN):
        return rate_by_votes(run, ratings, judge)
    if rated_by is None:
        several = len(run.config.players) > 1
        rated_by = "matches" if several and run.ledger.stages("rate") else "league"
    if rated_by == "matches":
        return rate_by_matches(run, ratings or run.config.training_ratings, judge)
    if judge:
        raise ConfigError(
            "--judge: the league is rated by the judge that measured it; use --of matches"
        )
    return rated_league(run, ratings or run.config.league_ratings)


def rate_by_votes(run: RunDirectory, ratings: Ratings | None, judge: str) -> Rerating:
    """Ratings from the single votes of judges."""
    if judge not in ("", HUMAN):
        raise ConfigError(f"--of votes: people voted, not '{judge}'")
    votes = people_votes(run, ratings)
    if votes is None:
        raise RunError(
            f"{run.folder}: nobody has voted yet; `equipoise vote {run.folder}` asks people"
        )
    kind = "bradley_terry" if ratings is None else ratings.kind
    warning = "" if votes.ratings else "every vote is on two answers of one player"
    pairs = judged_pairs(run.ledger, votes.votes, run.config.utility)
    table = tally(Meeting(o.first, o.second, 2 * o.value - 1) for o in human_outcomes(pairs))
    return Rerating("votes", kind, (tuple(votes.ratings),), table, warning)


def rate_by_matches(run: RunDirectory, ratings: Ratings, judge: str) -> Rerating:
    """Ratings from whole matches."""
    duels_by_generation = recorded_duels(run, judge)
    names, rated = list(run.config.players), []
    for t in range(len(duels_by_generation)):
        seed = seeds.child(run.config.seed, "standing", t)
        rated.append(tuple(ratings.training_ratings(names, duels_by_generation[: t + 1], seed)))
    last = [duel for duel in duels_by_generation[-1] if duel.scores]
    met = (Meeting(d.first, d.second, 2 * duel_result(d) - 1, d.prompt) for d in last)
    table = tally(met, names)
    return Rerating("matches", ratings.kind, tuple(rated), table, _cycles(table))


def recorded_duels(run: RunDirectory, judge: str) -> list[list[Duel]]:
    """Generation by generation, the meetings of two different players in training."""
    teachers = {each.name: each for each in map(run.config.judge_of, run.config.learning)}
    name = judge or next(iter(teachers), run.config.measuring_judge.name)
    known = {stage.facts.get("judge") or "" for stage in run.ledger.stages("judge")} - {""}
    if name not in known:
        raise RunError(
            f"{run.folder}: has no judgements by '{name}'; known: {', '.join(sorted(known))}"
        )
    played = [t for key, t, *_ in run.ledger.stages("play") if key == f"{t}/play"]
    grades_of = teachers[name].grades_by_votes if name in teachers else mean_grades
    generations = range(max(played, default=-1) + 1)  # not all, where data brings pairs along
    utility = run.config.utility
    by_generation = [duels(run.ledger, name, t, utility, grades_of) for t in generations]
    if not any(by_generation):
        hint = "; try --of league" if run.ledger.matches("held_out", limit=1) else ""
        raise RunError(f"{run.folder}: no two different players met in training{hint}")
    if not any(duel.scores for part in by_generation for duel in part):
        raise RunError(
            f"{run.folder}: '{name}' scored no match of two players; `equipoise status` says why, "
            "`equipoise judge` asks another judge"
        )
    return by_generation


def _cycles(table: PayoffTable) -> str:
    """A warning where the wins of a table without holes go round in circles, else nothing."""
    if not np.isfinite(table.payoff_NN).all():
        return ""
    return cyclic_warning(cyclic_triples(table.payoff_NN))


def rated_league(run: RunDirectory, ratings: Ratings) -> Rerating:
    """The ratings of every generation of every player by held-out pay-offs."""
    evaluation = run.config.evaluate
    measured = run.ledger.stages("measure")
    if not measured:
        raise RunError(f"{run.folder}: nothing has been measured yet")
    if not isinstance(evaluation, HeldOut):
        raise ConfigError(
            f"--of league: evaluate: {evaluation.kind} keeps no held-out matches to rate by"
        )
    run.demand_trust()  # the prompts' source and the judge are opened
    last = max(t for _, t, *_ in measured)
    with OpenRun(run) as opened:
        table = evaluation.table(RunArena(opened), last)
    rated = tuple(ratings.rate(table_outcomes(table), run.config.seed))
    table.complete()  # or a message
    return Rerating("league", ratings.kind, (rated,), table, _cycles(table))
