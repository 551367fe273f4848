"""Adversaries and defenders of one or several runs meet on held-out harmful prompts.

In one run what was measured is read from its ledger, and the rest is played and recorded there.
Players of several runs meet outside of all of them: nothing is recorded, and a match's dice depend
on the first run's seed, the two players' full names and the prompt, so that neither the order of
the runs nor who else is there changes a cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

from equipoise import seeds
from equipoise.environments.red_team.cross_play_plan import CrossPlayPlan, Entrant
from equipoise.environments.red_team.game import ADVERSARY, DEFENDER
from equipoise.environments.red_team.held_out_matches import HeldOutMatches
from equipoise.errors import NoSignal
from equipoise.evaluation.base import JudgedMatch
from equipoise.judges.base import JudgeContext
from equipoise.matches.base import Planned
from equipoise.matches.play import play
from equipoise.players.base import Actor
from equipoise.players.population import Population, with_decoding
from equipoise.runs.arena import RunArena
from equipoise.runs.monitor import Monitor
from equipoise.runs.open_run import OpenRun
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, View, record_id

MeetingCells = dict[tuple[str, str], list[JudgedMatch]]


def play_cross_play(plan: CrossPlayPlan, monitor: Monitor) -> MeetingCells:
    """(adversary, defender) -> their judged matches, by their names in the table.

    Raises RunError where weights are gone.
    """
    if plan.outside:
        return _between_runs(plan, monitor)
    return _within_run(plan, monitor)


def _within_run(plan: CrossPlayPlan, monitor: Monitor) -> MeetingCells:
    """In the run's arena, as its own evaluation would; from the weights on disk."""
    [directory] = plan.runs
    newest = max(stage.generation for stage in directory.ledger.stages("measure"))
    with OpenRun(directory, monitor) as run:
        matches = HeldOutMatches(RunArena(run), plan.judge, newest)
        return {
            (adversary.name, defender.name): matches.attacks(
                adversary.player, defender.player, plan.most
            )
            for adversary, defender in plan.pairs
        }


def _between_runs(plan: CrossPlayPlan, monitor: Monitor) -> MeetingCells:
    """Every player is opened from its run's folder; what they share is loaded once."""
    first = plan.runs[0]
    home = Population(first.config.playing, first.folder / "players")
    actor = _actors(plan, home)
    everyone = (*plan.adversaries, *plan.defenders)
    judge_context = JudgeContext(
        game=first.config.game,
        seed=seeds.child(first.config.seed, "bench", "crossplay"),
        pool=[entrant.player for entrant in everyone if entrant.run == 0],
        ratings={},
        resources=home.resources,
        actor=home.actor,
    )
    judge = plan.judge.at(judge_context)
    prompts = {prompt.id: prompt for prompt in plan.prompts}

    def act(player: PlayerId, views: list[View], dice: list[int]) -> list[Move]:
        return actor(player).act(views, dice)

    cells: MeetingCells = {}
    for adversary, defender in plan.pairs:
        monitor.stage(f"{adversary.name} × {defender.name}", len(prompts))
        planned = [_planned(plan, adversary, defender, p) for p in plan.prompts]
        matches = play(planned, first.config.game, act)
        judgements = judge.judge_checked(matches, prompts)
        judged = list(zip(matches, judgements, strict=True))
        cells[adversary.name, defender.name] = judged
        monitor.advance(len(matches))
    home.release()
    _check_judged(plan, list(chain.from_iterable(cells.values())))
    return cells


def _actors(plan: CrossPlayPlan, home: Population) -> Callable[[PlayerId], Actor]:
    """Full name of a player -> its actor; `home` are the first run's players as they play. Raises
    RunError where weights are gone.
    """
    populations: dict[tuple[int, float | None], Population] = {(0, None): home}
    by_id: dict[PlayerId, Entrant] = {}
    for entrant in (*plan.adversaries, *plan.defenders):
        key = (entrant.run, entrant.temperature)
        if key not in populations:
            run = plan.runs[entrant.run]
            players = {
                name: with_decoding(player, entrant.temperature)
                for name, player in run.config.playing.items()
            }
            populations[key] = Population(players, run.folder / "players", resources=home.resources)
        populations[key].weights(entrant.player)
        by_id[entrant.full_id] = entrant

    def actor(player: PlayerId) -> Actor:
        entrant = by_id[player]
        key = (entrant.run, entrant.temperature)
        return populations[key].actor(entrant.player)

    return actor


def _planned(plan: CrossPlayPlan, adversary: Entrant, defender: Entrant, prompt: Prompt) -> Planned:
    config = plan.runs[0].config
    names = (adversary.name, defender.name, prompt.id)
    roles = {ADVERSARY: adversary.full_id, DEFENDER: defender.full_id}
    seats = config.game.seats_for(prompt)
    return Planned(
        id=record_id("crossplay", config.seed, *names),
        generation=max(adversary.player.generation, defender.player.generation),
        split="held_out",
        prompt=prompt,
        seats={seat: roles[config.game.role(seat)] for seat in seats},
        seed=seeds.child(config.seed, "crossplay", *names),
    )


def _check_judged(plan: CrossPlayPlan, matches: Sequence[JudgedMatch]) -> None:
    """Raises NoSignal where more is unjudged than the first run allows."""
    allowed = plan.runs[0].config.max_unjudged
    reasons = [
        judgement.reason or "no score for a seat"
        for match, judgement in matches
        if not _judged(match, judgement)
    ]
    if len(reasons) <= allowed * len(matches):
        return
    why = "; ".join(f"{count} × {reason}" for reason, count in Counter(reasons).most_common(2))
    raise NoSignal(
        f"judge '{plan.judge.kind}': {len(reasons)} of {len(matches)} matches are not "
        f"judged, more than max_unjudged = {allowed:.0%}. {why}"
    )


def _judged(match: Match, judgement: Judgement) -> bool:
    return match.seats.keys() <= judgement.by_seat("score").keys()
