"""The arena in which evaluations measure: held-out play and its judgement, recorded
like everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from equipoise import seeds
from equipoise.environments.red_team.game import harmful
from equipoise.errors import ConfigError
from equipoise.evaluate.base import JudgedMatch
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.matches.roles import Roles
from equipoise.models.resources import Resources
from equipoise.payoffs.table import Result
from equipoise.players.base import Distribution
from equipoise.ratings.base import Ratings
from equipoise.solvers.base import Solver
from equipoise.types import Match, PlayerId, Prompt, Turn, record_id

if TYPE_CHECKING:
    from equipoise.run.stages import RunStages

MADE = "attack"  # the split, by its recorded name, of prompts that a game made of dealt ones
MEETING = "meeting"  # the `game` of matches that set recorded answers beside each other


class RunArena:
    """`evaluate.Arena` over a run's stages."""

    def __init__(self, stages: RunStages) -> None:
        self._stages, self._recorder, self._ledger = (
            stages,
            stages.recorder,
            stages.ledger,
        )
        self._policies: dict[PlayerId, np.ndarray] = {}
        self._scores: dict[
            tuple[PlayerId, int, str, str], dict[str, list[float | None]]
        ] = {}
        self._answered: dict[tuple[PlayerId, int], dict[str, list[Turn]]] = {}
        self._met: dict[tuple[PlayerId, PlayerId, int, str], list[JudgedMatch]] = {}
        self._meetings: dict[tuple[PlayerId, PlayerId, int, str], list[Result]] = {}
        self._judged: dict[tuple[str, str], list[JudgedMatch]] = {}

    @property
    def game(self) -> Game:
        """The run's game."""
        return self._stages.config.game

    @property
    def solver(self) -> Solver:
        """How the run finds equilibria."""
        return self._stages.config.solver

    @property
    def ratings(self) -> Ratings:
        """How the run rates the league."""
        return self._stages.config.ratings

    def judge_of(self, player: PlayerId) -> Judge:
        """The judge that teaches this player."""
        return self._stages.config.judge_of(player.name)

    def learners(self, t: int) -> list[PlayerId]:
        """Every player that learns, at generation t."""
        return self._stages.learners(t)

    def others(self) -> list[PlayerId]:
        """The players that do not learn."""
        return self._stages.others()

    def past(self, player: PlayerId) -> list[PlayerId]:
        """The generations of `player` up to itself that were measured, newest first."""
        return self._stages.measured(player)

    @cached_property
    def _prompts(self) -> dict[str, list[Prompt]]:
        self._stages.deal_all()
        return {part: self._ledger.prompts(part, 0) for part in ("held_out", "test")}

    @property
    def held_out(self) -> list[Prompt]:
        """The held-out prompts."""
        return self._prompts["held_out"]

    def scores(
        self, player: PlayerId, samples: int, judge: Judge, part: str = "held_out"
    ) -> dict[str, list[float | None]]:
        """Prompt id -> the scores of `player`'s answers, None where unjudged."""
        key = (player, samples, judge.name, part)
        if key not in self._scores:
            matches = self._played(player, samples, part)
            prompts = {prompt.id: prompt for prompt in self._prompts[part]}
            t, utility = player.generation, self._stages.config.utility
            stage = f"{t}/{part}/{player.name}/judge/{judge.name}"
            judgements = self._recorder.judgements(
                stage,
                judge,
                self._stages.judge_context(t),
                matches,
                prompts,
                t,
                player.name,
            )
            scores: dict[str, list[float | None]] = {}
            for match, judgement in zip(matches, judgements, strict=True):
                found = [judgement.score(seat, utility) for seat in match.seats]
                scores.setdefault(match.prompt, []).extend(found)
            self._scores[key] = {
                prompt: found[:samples] for prompt, found in scores.items()
            }
        return self._scores[key]

    def _played(self, player: PlayerId, samples: int, part: str) -> list[Match]:
        seats = dict.fromkeys(self.game.seats, player)
        rounds = -(-samples // len(seats))
        seatings = [
            (prompt, seats) for _ in range(rounds) for prompt in self._prompts[part]
        ]
        key = f"{player.generation}/{part}/{player.name}/play"
        return self._recorder.matches(
            key, seatings, player.generation, part, player.name
        )

    def meetings(
        self, first: PlayerId, second: PlayerId, samples: int, judge: Judge
    ) -> list[Result]:
        """What `first` gets from meeting `second`: 2·P(win) − 1 of each pair of
        answers; None where unjudged.
        """
        key = (first, second, samples, judge.name)
        if key not in self._meetings:
            t = max(first.generation, second.generation)
            matches = self._set_beside(first, second, samples, t)
            prompts = {prompt.id: prompt for prompt in self._prompts["held_out"]}
            stage = f"{t}/meet/{first}/{second}/{judge.name}"
            judgements = self._recorder.judgements(
                stage, judge, self._stages.judge_context(t), matches, prompts, t
            )
            utility = self._stages.config.utility
            self._meetings[key] = [
                Result(
                    str(first),
                    str(second),
                    None if p is None else 2 * p - 1,
                    match.prompt,
                )
                for match, judgement in zip(matches, judgements, strict=True)
                for p in [judgement.score("1", utility)]
            ]
        return self._meetings[key]

    def _set_beside(
        self, first: PlayerId, second: PlayerId, samples: int, t: int
    ) -> list[Match]:
        """Matches in which the i-th recorded answer of `first` to a prompt sits beside
        the i-th of `second`.
        """
        answers = [self._answers(player, samples) for player in (first, second)]
        matches = []
        for prompt, turns in answers[0].items():
            for i, pair in enumerate(
                zip(turns, answers[1].get(prompt, ()), strict=False)
            ):
                identity = record_id(
                    MEETING, self._stages.config.seed, prompt, i, first, second
                )
                beside = tuple(
                    Turn(seat, turn.view, turn.move)
                    for seat, turn in zip("12", pair, strict=True)
                )
                dice = seeds.child(self._stages.config.seed, "match", identity)
                seats = {"1": first, "2": second}
                matches.append(
                    Match(identity, t, "held_out", MEETING, prompt, seats, dice, beside)
                )
        self._ledger.add_matches(matches)
        return matches

    def _answers(self, player: PlayerId, samples: int) -> dict[str, list[Turn]]:
        """Prompt id -> the player's recorded answers; read once, since it meets
        everybody in the league.
        """
        if (player, samples) not in self._answered:
            found: dict[str, list[Turn]] = {}
            for match in self._played(player, samples, "held_out"):
                last = {turn.seat: turn for turn in match.turns}
                found.setdefault(match.prompt, []).extend(last.values())
            self._answered[player, samples] = {
                prompt: turns[:samples] for prompt, turns in found.items()
            }
        return self._answered[player, samples]

    # -- games with roles

    def seated(self, t: int | None = None) -> Mapping[str, PlayerId]:
        """role -> the player that has it in generation t."""
        schedule = self._stages.config.schedule
        if not isinstance(schedule, Roles):
            raise ConfigError(
                f"schedule: '{schedule.kind}' gives no role to a player; use roles"
            )
        now = self._stages.now if t is None else t
        players = self._stages.learners(now) + self._stages.others()
        return schedule.seated(self.game, players)

    def play(
        self,
        roles: Mapping[str, PlayerId],
        prompts: Sequence[Prompt],
        judge: Judge,
        t: int,
        label: str,
    ) -> list[JudgedMatch]:
        """Matches on these prompts with these players in the roles, judged as of
        generation t of the loop; done once, then remembered.

        `prompts` are held-out prompts or made of them by the game (a prompt that occurs
        twice is played twice); `label` names the selection in the ledger, and another
        selection must have another label.
        """
        players = "+".join(map(str, roles.values()))
        born = max((player.generation for player in roles.values()), default=0)
        key = f"{born}/held_out/{label}/{players}"
        if (key, judge.name) not in self._judged:
            dealt = {prompt.id for prompt in self.held_out}
            made = [prompt for prompt in prompts if prompt.id not in dealt]
            self._ledger.add_prompts(made, MADE, born)
            seatings = [(prompt, self._seats(prompt, roles)) for prompt in prompts]
            matches = self._recorder.matches(
                f"{key}/play", seatings, born, "held_out", players
            )
            judgements = self._recorder.judgements(
                f"{key}/judge/{judge.name}",
                judge,
                self._stages.judge_context(t),
                matches,
                {prompt.id: prompt for prompt in prompts},
                born,
                players,
            )
            self._judged[key, judge.name] = list(zip(matches, judgements, strict=True))
        return self._judged[key, judge.name]

    def _seats(
        self, prompt: Prompt, roles: Mapping[str, PlayerId]
    ) -> dict[str, PlayerId]:
        return {
            seat: roles[self.game.role(seat)] for seat in self.game.seats_for(prompt)
        }

    def played(
        self,
        roles: Mapping[str, PlayerId],
        prompts: Literal["harmful", "harmless", "all"],
        judge: Judge,
        raw: bool = False,
        most: int | None = None,
        samples: int = 1,
    ) -> list[JudgedMatch]:
        """Held-out matches with these players in the roles, judged; of the first `most`
        prompts.
        """
        asked = [
            p
            for p in self.held_out
            if prompts == "all" or harmful(p) == (prompts == "harmful")
        ]
        asked = [self.game.given(prompt) if raw else prompt for prompt in asked[:most]]
        game, t = (
            self.game,
            max((player.generation for player in roles.values()), default=0),
        )
        seatings = [
            (p, {seat: roles[game.role(seat)] for seat in game.seats_for(p)})
            for p in asked * samples
        ]
        self._ledger.add_prompts(asked if raw else (), "attack", t)
        who = "+".join(map(str, roles.values()))
        part = f"{prompts}{' as they are' if raw else ''}{f' ×{samples}' if samples > 1 else ''}"
        key = f"{t}/held_out/{part}/{most or len(asked)}/{who}"
        matches = self._recorder.matches(f"{key}/play", seatings, t, "held_out", who)
        by_id = {prompt.id: prompt for prompt in asked}
        judge_context = self._stages.judge_context(self._stages.now)
        judgements = self._recorder.judgements(
            f"{key}/judge/{judge.name}", judge, judge_context, matches, by_id, t, who
        )
        return list(zip(matches, judgements, strict=True))

    def met(
        self, adversary: PlayerId, defender: PlayerId, prompts: int, judge: Judge
    ) -> list[JudgedMatch]:
        """One adversary's attacks on one defender, from the first held-out harmful
        prompts.
        """
        key = (adversary, defender, prompts, judge.name)
        if key not in self._met:
            roles = {"adversary": adversary, "defender": defender}
            self._met[key] = self.played(roles, "harmful", judge, most=prompts)
        return self._met[key]

    @property
    def resources(self) -> Resources:
        """What is open in the run."""
        return self._stages.population.resources

    def probabilities(self, player: PlayerId, actions: Sequence[str]) -> np.ndarray:
        """A tabular player's probabilities of `actions`."""
        if player not in self._policies:
            actor = self._stages.population.actor(player)
            if not isinstance(actor, Distribution):
                raise ConfigError(
                    f"players.{player.name}: exact measures need a tabular player"
                )
            self._policies[player] = np.asarray(actor.probabilities(actions))
        return self._policies[player]
