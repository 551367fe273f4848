"""Adversaries and defenders of one or several runs meet on held-out harmful prompts of
the first of them.

In one run what was measured is read from its ledger, and the rest is played and
recorded there. Players of several runs meet outside of all of them: nothing is
recorded, and a match's dice depend on the first run's seed, the two players' full names
and the prompt, so that neither the order of the runs nor who else is there changes a
cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from equipoise import seeds
from equipoise.environments.red_team.game import RedTeam
from equipoise.environments.red_team.seed_prompts import harmful
from equipoise.errors import NoSignal, RunError
from equipoise.evaluate.base import JudgedMatch
from equipoise.judges.base import Judge, JudgeContext
from equipoise.matches.base import Planned
from equipoise.matches.play import play
from equipoise.matches.roles import Roles
from equipoise.players.base import Actor
from equipoise.players.population import Population
from equipoise.run.arena import RunArena
from equipoise.run.directory import Run
from equipoise.run.monitor import Monitor
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, View, record_id

Generations = Literal["last", "measured"]


@dataclass(frozen=True)
class Entrant:
    """A player at one generation that takes part: the place of its run, and what the
    table calls it.
    """

    run: int
    who: PlayerId
    name: str


class Tournament:
    """Who meets whom on which prompts, before it is played. Raises RunError for runs
    that cannot take part.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        generations: Generations,
        prompts: int,
        judge: Judge | None = None,
    ) -> None:
        """`prompts`: at most so many of the first run's held-out harmful ones; `judge`:
        None for the first run's.
        """
        self.runs, self.names = list(runs), _names(runs)
        for run in runs:
            if not isinstance(run.config.game, RedTeam):
                raise RunError(
                    f"{run.folder}: plays the game '{run.config.game.kind}'; cross-play is of red_team"
                )
            if not isinstance(run.config.schedule, Roles):
                raise RunError(
                    f"{run.folder}: schedule '{run.config.schedule.kind}' gives no role to a player"
                )
        self.adversaries, self.defenders = (
            self._entrants(role, generations) for role in ("adversary", "defender")
        )
        for role, found in (
            ("an adversary", self.adversaries),
            ("a defender", self.defenders),
        ):
            if not found:
                raise RunError(
                    f"{', '.join(str(run.folder) for run in runs)}: nobody plays {role}; name another run"
                )
        first = self.runs[0]
        taught = _roles(first).get("defender", "")
        self.judge = (
            judge or first.config.evaluate.judge or first.config.judge_of(taught)
        )
        held_out = first.ledger.prompts("held_out", 0)
        self.asked = [prompt for prompt in held_out if harmful(prompt)][:prompts]
        self.most = prompts
        if not self.asked:
            raise RunError(
                f"{first.folder}: none of its {len(held_out)} held-out prompts is harmful"
            )

    @property
    def notes(self) -> list[str]:
        """What a reader of the table should know."""
        first = self.runs[0].config.game
        return [
            f"{name}: learned another form of the game (its `game` differs); here everyone plays as {self.names[0]} did"
            for name, run in zip(self.names, self.runs, strict=True)
            if run.config.game != first
        ]

    def _entrants(self, role: str, generations: Generations) -> list[Entrant]:
        """By run and age; players that start alike take part once at generation 0."""
        found: list[Entrant] = []
        starts: set[str] = set()
        for place, (title, run) in enumerate(zip(self.names, self.runs, strict=True)):
            name = _roles(run).get(role)
            ages = _ages(run, name) if name else []
            for age in (
                ages
                if generations == "measured"
                else sorted({0, *ages[-1:]} if ages else ())
            ):
                who = PlayerId(str(name), age)
                start = run.config.players[who.name].model_dump_json(exclude={"learns"})
                if age or start not in starts:
                    found.append(
                        Entrant(
                            place,
                            who,
                            f"{title}/{who}" if len(self.runs) > 1 else str(who),
                        )
                    )
                    starts |= set() if age else {start}
        return found

    def play(self, monitor: Monitor) -> dict[tuple[str, str], list[JudgedMatch]]:
        """(adversary, defender) -> their judged matches. Raises RunError where weights
        are gone.
        """
        return self._within(monitor) if len(self.runs) == 1 else self._among(monitor)

    def _within(self, monitor: Monitor) -> dict[tuple[str, str], list[JudgedMatch]]:
        """In one run's arena, as its own evaluation would; from the weights on disk."""
        arena = RunArena.of(self.runs[0], monitor)
        t = max(t for _, t, *_ in self.runs[0].ledger.stages("measure"))
        label = f"harmful/{self.most}"
        cells = {}
        for a in self.adversaries:
            for d in self.defenders:
                roles = {"adversary": a.who, "defender": d.who}
                matches = arena.play(roles, self.asked, self.judge, t, label)
                cells[a.name, d.name] = matches
        arena.close()
        return cells

    def _among(self, monitor: Monitor) -> dict[tuple[str, str], list[JudgedMatch]]:
        """Between runs; every player is opened from its run's folder, and a base that
        they share is loaded once.
        """
        first = self.runs[0]
        home = Population(first.config.players, first.folder / "players")
        populations = [home] + [
            Population(
                run.config.players, run.folder / "players", resources=home.resources
            )
            for run in self.runs[1:]
        ]
        everyone = [*self.adversaries, *self.defenders]
        for entrant in everyone:
            populations[entrant.run].weights(entrant.who)
        by_id = {_full(entrant): entrant for entrant in everyone}

        def actor(who: PlayerId) -> Actor:
            return populations[by_id[who].run].actor(by_id[who].who)

        def act(who: PlayerId, views: list[View], dice: list[int]) -> list[Move]:
            return actor(who).act(views, dice)

        pool = [entrant.who for entrant in everyone if entrant.run == 0]
        judge_context = JudgeContext(
            game=first.config.game,
            seed=seeds.child(first.config.seed, "bench", "crossplay"),
            pool=pool,
            ratings={},
            resources=home.resources,
            actor=home.actor,
        )
        seated, by_prompt = (
            self.judge.at(judge_context),
            {prompt.id: prompt for prompt in self.asked},
        )
        cells: dict[tuple[str, str], list[JudgedMatch]] = {}
        for a in self.adversaries:
            for d in self.defenders:
                monitor.stage(f"{a.name} × {d.name}", len(self.asked))
                matches = play(
                    [self._planned(a, d, prompt) for prompt in self.asked],
                    first.config.game,
                    act,
                )
                words = seated.judge_checked(matches, by_prompt)
                cells[a.name, d.name] = list(zip(matches, words, strict=True))
                monitor.advance(len(matches))
        home.release()
        self._check([met for cell in cells.values() for met in cell])
        return cells

    def _planned(self, a: Entrant, d: Entrant, prompt: Prompt) -> Planned:
        game, seed = self.runs[0].config.game, self.runs[0].config.seed
        roles = {"adversary": _full(a), "defender": _full(d)}
        seats = {seat: roles[game.role(seat)] for seat in game.seats_for(prompt)}
        identity = record_id("crossplay", seed, a.name, d.name, prompt.id)
        dice = seeds.child(seed, "crossplay", a.name, d.name, prompt.id)
        return Planned(
            identity,
            max(a.who.generation, d.who.generation),
            "held_out",
            prompt,
            seats,
            dice,
        )

    def _check(self, met: Sequence[JudgedMatch]) -> None:
        """Raises NoSignal where more is unjudged than the first run allows."""
        config = self.runs[0].config
        silent = [
            judgement.reason or "no score for a seat"
            for match, judgement in met
            if not _judged(match, judgement)
        ]
        if len(silent) > config.max_unjudged * len(met):
            why = "; ".join(
                f"{count} × {reason}"
                for reason, count in Counter(silent).most_common(2)
            )
            raise NoSignal(
                f"judge '{self.judge.kind}': {len(silent)} of {len(met)} matches are not judged, more than "
                f"max_unjudged = {config.max_unjudged:.0%}. {why}"
            )


def _judged(match: Match, judgement: Judgement) -> bool:
    return match.seats.keys() <= judgement.by_seat("score").keys()


def _full(entrant: Entrant) -> PlayerId:
    """The player by its full name, which no other run's player has."""
    return PlayerId(entrant.name.rpartition("@")[0], entrant.who.generation)


def _roles(run: Run) -> dict[str, str]:
    return run.config.schedule.roles if isinstance(run.config.schedule, Roles) else {}


def _ages(run: Run, name: str) -> list[int]:
    """The generations of a player that were measured, oldest first."""
    measured = [facts for _, _, _, facts, _ in run.ledger.stages("measure")]
    if not measured:
        raise RunError(
            f"{run.folder}: nothing was measured yet; `equipoise resume {run.folder}`"
        )
    return sorted({facts["ages"].get(name, 0) for facts in measured})


def _names(runs: Sequence[Run]) -> list[str]:
    """What the table calls the runs: their folders' names, or whole paths where two
    have one name.
    """
    names = [run.folder.resolve().name for run in runs]
    found = [
        name if names.count(name) == 1 else str(run.folder)
        for name, run in zip(names, runs, strict=True)
    ]
    twice = next(
        (
            run
            for i, run in enumerate(runs)
            if run.folder.resolve() in [r.folder.resolve() for r in runs[:i]]
        ),
        None,
    )
    if twice is not None:
        raise RunError(f"{twice.folder}: is given twice")
    return found
