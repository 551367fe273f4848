"""Adversaries and defenders of one or several runs meet on held-out harmful prompts.

In one run, measured matches are read from its ledger, and the rest is played and recorded there. Of
several runs nothing is recorded, and a match's dice depend on the first run's seed, the players'
full names and the prompt, so that nobody else changes a cell.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, Literal

from equipoise import seeds
from equipoise.environments.red_team.cross_play_table import summary
from equipoise.environments.red_team.game import ADVERSARY, DEFENDER, RedTeam, harmful
from equipoise.environments.red_team.red_teaming import HeldOutMatches
from equipoise.errors import NoSignal, RunError
from equipoise.evaluation.base import JudgedMatch
from equipoise.judges.base import Judge, JudgeContext
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.matches.roles import Roles
from equipoise.players.base import Actor
from equipoise.players.population import Population, with_decoding
from equipoise.runs.arena import RunArena
from equipoise.runs.directory import RunDirectory
from equipoise.runs.monitor import Monitor
from equipoise.runs.open_run import OpenRun
from equipoise.types import Move, PlayerId, Prompt, View, record_id

Generations = Literal["last", "measured"]
MeetingCells = dict[tuple[str, str], list[JudgedMatch]]


@dataclass(frozen=True, slots=True)
class Entrant:
    """A player at a generation: `name` in the table, `run` by place, another `temperature`."""

    run: int
    player: PlayerId
    name: str
    temperature: float | None = None

    @property
    def full_id(self) -> PlayerId:
        """The player by its full name, which no other run's player has."""
        return PlayerId(self.name.rpartition("@")[0], self.player.generation)


@dataclass(frozen=True, slots=True)
class CrossPlayPlan:
    """Every adversary is to meet every defender on the first run's `prompts` in its game.

    `run_names` are the runs' names in the table; `most` is the number of prompts asked for.
    """

    runs: tuple[RunDirectory, ...]
    run_names: tuple[str, ...]
    adversaries: tuple[Entrant, ...]
    defenders: tuple[Entrant, ...]
    prompts: tuple[Prompt, ...]
    most: int
    judge: Judge

    @property
    def outside(self) -> bool:
        """True if it is played outside of the runs: of several, or at other temperatures."""
        everyone = (*self.adversaries, *self.defenders)
        return len(self.runs) > 1 or any(entrant.temperature is not None for entrant in everyone)

    @property
    def notes(self) -> list[str]:
        """Notes for a reader of the table."""
        game = self.runs[0].config.game
        return [
            f"{name}: learned another form of the game (its `game` differs); here "
            f"everyone plays as in {self.run_names[0]}"
            for name, run in zip(self.run_names, self.runs, strict=True)
            if run.config.game != game
        ]


# -- planning


def plan_cross_play(
    runs: Sequence[RunDirectory],
    generations: Generations,
    most: int,
    judge: Judge | None = None,
    temperatures: Sequence[float] = (),
) -> CrossPlayPlan:
    """The cross-play on the first run's held-out harmful prompts, at most `most`.

    `judge`: None for the first run's; `temperatures`: every defender plays at each, none: at its
    own. Raises RunError for runs that cannot take part, and a defender without a temperature.
    """
    names = _run_names(runs)
    for run in runs:
        _check(run)
    adversaries = _entrants(runs, names, ADVERSARY, generations)
    defenders = _entrants(runs, names, DEFENDER, generations)
    if temperatures:
        defenders = [
            at_temperature(runs[defender.run], defender, temperature)
            for defender, temperature in product(defenders, dict.fromkeys(temperatures))
        ]
    for role, entrants in (("an adversary", adversaries), ("a defender", defenders)):
        if not entrants:
            folders = ", ".join(str(run.folder) for run in runs)
            raise RunError(f"{folders}: nobody plays {role}; add a run in which one does")
    first = runs[0]
    held_out = first.ledger.prompts("held_out", 0)
    prompts = [prompt for prompt in held_out if harmful(prompt)][:most]
    if not prompts:
        raise RunError(f"{first.folder}: none of its {len(held_out)} held-out prompts is harmful")
    measuring = first.config.evaluate.judge or first.config.judge_of(player_of(first, DEFENDER))
    return CrossPlayPlan(
        tuple(runs),
        tuple(names),
        tuple(adversaries),
        tuple(defenders),
        tuple(prompts),
        most,
        judge or first.from_anywhere(measuring),
    )


def _check(run: RunDirectory) -> None:
    config = run.config
    if not isinstance(config.game, RedTeam):
        raise RunError(
            f"{run.folder}: plays the game '{config.game.kind}'; cross-play is of red_team"
        )
    if not isinstance(config.schedule, Roles):
        raise RunError(f"{run.folder}: schedule '{config.schedule.kind}' gives no role to a player")


def player_of(run: RunDirectory, role: str) -> str:
    assert isinstance(run.config.schedule, Roles)
    return run.config.schedule.roles.get(role, "")


def _entrants(
    runs: Sequence[RunDirectory], names: Sequence[str], role: str, generations: Generations
) -> list[Entrant]:
    """By run and age; players that start alike take part once at generation 0."""
    entrants: list[Entrant] = []
    starts: set[str] = set()
    for place, (run_name, run) in enumerate(zip(names, runs, strict=True)):
        name = player_of(run, role)
        if not name:
            continue
        measured = [stage.facts for stage in run.ledger.stages("measure")]
        if not measured:
            raise RunError(
                f"{run.folder}: nothing was measured yet; `equipoise resume {run.folder}`"
            )
        ages = sorted({facts["ages"].get(name, 0) for facts in measured})
        start = run.config.players[name].model_dump_json(exclude={"learns"})
        for age in ages if generations == "measured" else sorted({0, ages[-1]}):
            if age == 0 and start in starts:
                continue
            if age == 0:
                starts.add(start)
            player = PlayerId(name, age)
            title = f"{run_name}/{player}" if len(runs) > 1 else str(player)
            entrants.append(Entrant(place, player, title))
    return entrants


def at_temperature(run: RunDirectory, entrant: Entrant, temperature: float) -> Entrant:
    player = run.config.players[entrant.player.name]
    if "temperature" not in type(player).model_fields:
        raise RunError(
            f"{run.folder}: '{entrant.player.name}' is {player.kind}, which has no temperature"
        )
    title, _, age = entrant.name.rpartition("@")
    return replace(entrant, name=f"{title}:{temperature:g}@{age}", temperature=temperature)


def _run_names(runs: Sequence[RunDirectory]) -> list[str]:
    """The runs' folders' names, or whole paths if two are alike. RunError for a run given twice."""
    folders = [run.folder.resolve() for run in runs]
    for i, folder in enumerate(folders):
        if folder in folders[:i]:
            raise RunError(f"{runs[i].folder}: is given twice")
    names = [folder.name for folder in folders]
    return [
        name if names.count(name) == 1 else str(run.folder)
        for name, run in zip(names, runs, strict=True)
    ]


# -- playing


def play_cross_play(plan: CrossPlayPlan, monitor: Monitor) -> MeetingCells:
    """(adversary, defender) -> their judged matches, by name. RunError where weights are gone."""
    if plan.outside:
        return between_runs(plan, monitor)
    [directory] = plan.runs
    newest = max(stage.generation for stage in directory.ledger.stages("measure"))
    with OpenRun(directory, monitor) as run:
        matches = HeldOutMatches(RunArena(run), plan.judge, newest)
        return {
            (adversary.name, defender.name): matches.attacks(
                adversary.player, defender.player, plan.most
            )
            for adversary, defender in product(plan.adversaries, plan.defenders)
        }


def between_runs(plan: CrossPlayPlan, monitor: Monitor) -> MeetingCells:
    """Open every player from its run's folder, shared weights once, and play."""
    first = plan.runs[0]
    home = Population(first.players_anywhere(), first.folder / "players")
    actor = actors(plan, home)
    everyone = (*plan.adversaries, *plan.defenders)
    pool = [entrant.player for entrant in everyone if entrant.run == 0]
    judge_context = JudgeContext(
        game=first.config.game,
        seed=seeds.child(first.config.seed, "bench", "crossplay"),
        pool=pool,
        ratings={},
        resources=home.resources,
        actor=home.actor,
    )
    judge = plan.judge.at(judge_context)
    prompts = {prompt.id: prompt for prompt in plan.prompts}

    def act(player: PlayerId, views: list[View], dice: list[int]) -> list[Move]:
        return actor(player).act(views, dice)

    cells: MeetingCells = {}
    for adversary, defender in product(plan.adversaries, plan.defenders):
        monitor.stage(f"{adversary.name} × {defender.name}", len(prompts))
        planned = [plan_match(plan, adversary, defender, prompt) for prompt in plan.prompts]
        matches = play(planned, first.config.game, act)
        judgements = judge.checked_judgements(matches, prompts)
        cells[adversary.name, defender.name] = list(zip(matches, judgements, strict=True))
        monitor.advance(len(matches))
    home.release()
    check_judged(plan, list(chain.from_iterable(cells.values())))
    return cells


def actors(plan: CrossPlayPlan, home: Population) -> Callable[[PlayerId], Actor]:
    """Full name of a player -> its actor; `home` has the first run's. RunError if gone."""
    populations: dict[tuple[int, float | None], Population] = {(0, None): home}
    by_id: dict[PlayerId, Entrant] = {}
    for entrant in (*plan.adversaries, *plan.defenders):
        key = (entrant.run, entrant.temperature)
        if key not in populations:
            run = plan.runs[entrant.run]
            players = {
                name: with_decoding(player, entrant.temperature)
                for name, player in run.players_anywhere().items()
            }
            populations[key] = Population(players, run.folder / "players", resources=home.resources)
        populations[key].weights(entrant.player)
        by_id[entrant.full_id] = entrant

    def actor(player: PlayerId) -> Actor:
        entrant = by_id[player]
        return populations[entrant.run, entrant.temperature].actor(entrant.player)

    return actor


def plan_match(
    plan: CrossPlayPlan, adversary: Entrant, defender: Entrant, prompt: Prompt
) -> Planned:
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


def check_judged(plan: CrossPlayPlan, matches: Sequence[JudgedMatch]) -> None:
    """Raise NoSignal where more is unjudged than the first run allows."""
    allowed = plan.runs[0].config.max_unjudged
    reasons = [
        judgement.reason or "no score for a seat"
        for match, judgement in matches
        if not match.seats.keys() <= judgement.by_seat("score").keys()
    ]
    if len(reasons) <= allowed * len(matches):
        return
    why = "; ".join(f"{count} × {reason}" for reason, count in Counter(reasons).most_common(2))
    raise NoSignal(
        f"judge '{plan.judge.kind}': {len(reasons)} of {len(matches)} matches are not "
        f"judged, more than max_unjudged = {allowed:.0%}. {why}"
    )


def cross_play_facts(plan: CrossPlayPlan, cells: MeetingCells) -> dict[str, Any]:
    """The table and what follows from it as plain JSON values, with the runs and the judge."""
    adversaries = [entrant.name for entrant in plan.adversaries]
    defenders = [entrant.name for entrant in plan.defenders]
    folders = [str(run.folder) for run in plan.runs]
    facts = {
        "runs": dict(zip(plan.run_names, folders, strict=True)),
        "judge": plan.judge.name,
        "notes": plan.notes,
        **summary(cells, adversaries, defenders),
    }
    if plan.outside:  # generations of different runs are in no order
        facts.pop("forgetting", None)
        facts.pop("cycling", None)
    return facts
