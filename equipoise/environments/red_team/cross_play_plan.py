"""Who meets whom in the cross-play of one or several runs, and on which prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from equipoise.environments.red_team.game import ADVERSARY, DEFENDER, RedTeam
from equipoise.environments.red_team.seed_prompts import harmful
from equipoise.errors import RunError
from equipoise.judges.base import Judge
from equipoise.matches.roles import Roles
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId, Prompt

Generations = Literal["last", "measured"]


@dataclass(frozen=True, slots=True)
class Entrant:
    """A player at one generation that takes part.

    `run` is the place of its run among the runs, `name` what the table calls it, and `temperature`
    what it plays at where that is not its own.
    """

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
    """Every adversary is to meet every defender on `prompts`, judged by `judge`.

    `run_names` is what the table calls the runs. The game and the prompts are the first run's;
    `most` is how many prompts were asked for.
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
        """Whether it is played outside of the runs: of several, or not as they play."""
        everyone = (*self.adversaries, *self.defenders)
        heated = any(entrant.temperature is not None for entrant in everyone)
        return len(self.runs) > 1 or heated

    @property
    def pairs(self) -> Iterator[tuple[Entrant, Entrant]]:
        """Every adversary with every defender."""
        for adversary in self.adversaries:
            for defender in self.defenders:
                yield adversary, defender

    @property
    def notes(self) -> list[str]:
        """What a reader of the table should know."""
        game = self.runs[0].config.game
        return [
            f"{name}: learned another form of the game (its `game` differs); here "
            f"everyone plays as in {self.run_names[0]}"
            for name, run in zip(self.run_names, self.runs, strict=True)
            if run.config.game != game
        ]


def plan_cross_play(
    runs: Sequence[RunDirectory],
    generations: Generations,
    most: int,
    judge: Judge | None = None,
    temperatures: Sequence[float] = (),
) -> CrossPlayPlan:
    """The cross-play of these runs, on at most so many prompts.

    They are the first run's held-out harmful ones; `judge`: None for the judge of the first run;
    `temperatures`: every defender plays at each of them, none: at its own. Raises RunError for runs
    that cannot take part, and for a defender without a temperature.
    """
    names = _run_names(runs)
    for run in runs:
        _check(run)
    adversaries = _entrants(runs, names, ADVERSARY, generations)
    defenders = _entrants(runs, names, DEFENDER, generations)
    if temperatures:
        defenders = [
            _heated(runs[defender.run], defender, temperature)
            for defender in defenders
            for temperature in temperatures
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
    return CrossPlayPlan(
        tuple(runs),
        tuple(names),
        tuple(adversaries),
        tuple(defenders),
        tuple(prompts),
        most,
        judge or _judge_of(first),
    )


def _check(run: RunDirectory) -> None:
    """Raises RunError for a run of another game, or without roles."""
    config = run.config
    if not isinstance(config.game, RedTeam):
        raise RunError(
            f"{run.folder}: plays the game '{config.game.kind}'; cross-play is of red_team"
        )
    if not isinstance(config.schedule, Roles):
        raise RunError(f"{run.folder}: schedule '{config.schedule.kind}' gives no role to a player")


def _judge_of(run: RunDirectory) -> Judge:
    """The judge that the run measures by, else the defender's."""
    defender = _player_of(run, DEFENDER) or ""
    return run.config.evaluate.judge or run.config.judge_of(defender)


def _player_of(run: RunDirectory, role: str) -> str | None:
    schedule = run.config.schedule
    return schedule.roles.get(role) if isinstance(schedule, Roles) else None


def _entrants(
    runs: Sequence[RunDirectory], names: Sequence[str], role: str, generations: Generations
) -> list[Entrant]:
    """By run and age; players that start alike take part once at generation 0."""
    entrants: list[Entrant] = []
    starts: set[str] = set()
    for place, (run_name, run) in enumerate(zip(names, runs, strict=True)):
        name = _player_of(run, role)
        if name is None:
            continue
        ages = _measured_ages(run, name)
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


def _heated(run: RunDirectory, entrant: Entrant, temperature: float) -> Entrant:
    """The player at another temperature."""
    player = run.config.players[entrant.player.name]
    if "temperature" not in type(player).model_fields:
        raise RunError(
            f"{run.folder}: '{entrant.player.name}' is {player.kind}, which has no temperature"
        )
    title, _, age = entrant.name.rpartition("@")
    return replace(entrant, name=f"{title}:{temperature:g}@{age}", temperature=temperature)


def _measured_ages(run: RunDirectory, name: str) -> list[int]:
    """The generations of a player that were measured, oldest first.

    Raises RunError where there is none.
    """
    measured = [facts for _, _, _, facts, _ in run.ledger.stages("measure")]
    if not measured:
        raise RunError(f"{run.folder}: nothing was measured yet; `equipoise resume {run.folder}`")
    return sorted({facts["ages"].get(name, 0) for facts in measured})


def _run_names(runs: Sequence[RunDirectory]) -> list[str]:
    """What the table calls the runs.

    Their folders' names, or whole paths where two have one name. Raises RunError where a run is
    given twice.
    """
    folders = [run.folder.resolve() for run in runs]
    for i, folder in enumerate(folders):
        if folder in folders[:i]:
            raise RunError(f"{runs[i].folder}: is given twice")
    names = [folder.name for folder in folders]
    return [
        name if names.count(name) == 1 else str(run.folder)
        for name, run in zip(names, runs, strict=True)
    ]
