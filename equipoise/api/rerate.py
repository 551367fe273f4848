"""Ratings of a run's players, computed anew from its ledger alone."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from equipoise import seeds
from equipoise.errors import ConfigError, RunError
from equipoise.evaluation.held_out_measures import HeldOut
from equipoise.judges.base import mean_grades
from equipoise.ledger.votes_and_matches import HUMAN, human_outcomes, judged_pairs
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
    """Ratings by people's votes."""
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
    results = []
    for outcome in human_outcomes(pairs):
        payoff = 2 * outcome.value - 1
        results.append(Meeting(outcome.first, outcome.second, payoff))
    return Rerating("votes", kind, (tuple(votes.ratings),), tally(results), warning)


def rate_by_matches(run: RunDirectory, ratings: Ratings, judge: str) -> Rerating:
    """Ratings after each generation's training matches."""
    by_generation = recorded_duels(run, judge)
    names = list(run.config.players)
    rated = []
    for t in range(len(by_generation)):
        seed = seeds.child(run.config.seed, "standing", t)
        until = by_generation[: t + 1]
        rated.append(tuple(ratings.training_ratings(names, until, seed)))
    results = []
    for duel in by_generation[-1]:
        if duel.scores:
            payoff = 2 * duel_result(duel) - 1
            results.append(Meeting(duel.first, duel.second, payoff, duel.prompt))
    table = tally(results, names)
    return Rerating("matches", ratings.kind, tuple(rated), table, warning_of(table))


def recorded_duels(run: RunDirectory, judge: str) -> list[list[Duel]]:
    """Generation by generation, the meetings of two different players in training."""
    config = run.config
    teachers = {each.name: each for each in map(config.judge_of, config.learning)}
    name = judge or next(iter(teachers), config.measuring_judge.name)
    known = {stage.facts.get("judge") for stage in run.ledger.stages("judge")}
    if name not in known:
        names = ", ".join(sorted(filter(None, known)))
        raise RunError(f"{run.folder}: has no judgements by '{name}'; known: {names}")
    grades_of = mean_grades
    if name in teachers:
        grades_of = teachers[name].grades_by_votes
    last = -1  # of the generations that played; data may bring the pairs of the others along
    for stage in run.ledger.stages("play"):
        if stage.key == f"{stage.generation}/play":
            last = max(last, stage.generation)
    by_generation = []
    is_scored = False
    for t in range(last + 1):
        met = duels(run.ledger, name, t, config.utility, grades_of)
        by_generation.append(met)
        is_scored = is_scored or any(duel.scores for duel in met)
    if not any(by_generation):
        hint = "; try --of league" if run.ledger.matches("held_out", limit=1) else ""
        raise RunError(f"{run.folder}: no two different players met in training{hint}")
    if not is_scored:
        raise RunError(
            f"{run.folder}: '{name}' scored no match of two players; `equipoise status` says why, "
            "`equipoise judge` asks another judge"
        )
    return by_generation


def warning_of(table: PayoffTable) -> str:
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
    last = max(stage.generation for stage in measured)
    with OpenRun(run) as opened:
        table = evaluation.table(RunArena(opened), last)
    rated = tuple(ratings.rate(table_outcomes(table), run.config.seed))
    table.complete()  # or a message
    return Rerating("league", ratings.kind, (rated,), table, warning_of(table))
