"""Policy-space response oracles: each learner meets the mixture that the solver made of the
others' leagues, so that what it becomes is a best response to it.

The league of a player are its generations that were measured; between two measurements the mixture
stays as it is, and `evaluate.every` generations are the budget of a best response, which begins
from the newest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.games.base import Game
from equipoise.matches.base import MatchContext, Seatings, Weighted
from equipoise.matches.roles import Roles
from equipoise.system.effects import Text
from equipoise.types import PlayerId, Prompt


class PSRO(Roles):
    """Every learner whose turn it is meets, on each prompt, opponents drawn from the mixture at
    equilibrium of the league as it was last measured.

    With `roles` each role has a player and a league of its own, and a learner meets the mixtures of
    the other roles; `raw` and `replay` are as in `roles`. Without, all players are one league whose
    members may take any seat: in a game of several roles a learner takes each in turn, in a game of
    one role half of the seats. A role without a known mixture is played by its newest player.
    Source: policy-space response oracles, Lanctot et al. 2017, arXiv 1711.00832, algorithm 1.
    """

    kind: Literal["psro"] = "psro"  # pyright: ignore[reportIncompatibleVariableOverride]
    roles: dict[Text, Text] = Field(
        default_factory=dict,
        description="role -> the player that plays it; empty: one league of all "
        "players, who take any seat",
    )

    by_mixture: ClassVar[bool] = True

    @model_validator(mode="after")
    def _own_leagues(self) -> PSRO:
        if self.shared:
            raise ValueError(
                "shared: each role has a league of its own; for one league that takes "
                "every seat leave roles empty"
            )
        if not self.roles and (self.raw or self.replay):
            raise ValueError("raw and replay: are read with roles only")
        return self

    def opponents(self, learner: PlayerId, match_context: MatchContext) -> Mapping[str, Weighted]:
        if not self.roles:
            mixture = mixture_of(match_context.league, match_context) or [(learner, 1.0)]
            return dict.fromkeys(match_context.game.roles, mixture)
        by_name = {player.name: player for player in match_context.players}
        mixtures = {}
        for role, name in self.roles.items():
            if name == learner.name:
                continue
            league = [player for player in match_context.league if player.name == name]
            newest = [(by_name[name], 1.0)]
            mixtures[role] = mixture_of(league, match_context) or newest
        return mixtures

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """`samples` matches for each prompt and learner. Raises ConfigError."""
        turn = match_context.turn or [p.name for p in match_context.learning]
        seatings: Seatings = []
        for learner in match_context.learning:
            if learner.name not in turn:
                continue
            if self.roles and learner.name not in self.roles.values():
                continue
            if self.roles:
                alone = replace(match_context, turn=[learner.name])
                matches = super().seatings(prompts, alone)
            else:  # the learner's seats alone, in turn
                matches = [
                    (prompt, dict.fromkeys(own_seats(match_context.game, prompt, i), learner))
                    for i, prompt in enumerate(list(prompts) * self.samples)
                ]
            seatings += self._seat_opponents(matches, learner, match_context)
        return seatings

    def _seat_opponents(
        self, matches: Seatings, learner: PlayerId, match_context: MatchContext
    ) -> Seatings:
        """The matches with everybody but `learner` drawn from the mixtures, one draw a role."""
        game = match_context.game
        draws = {
            role: _draw(mixture, len(matches), match_context.seed, learner, role)
            for role, mixture in self.opponents(learner, match_context).items()
        }
        return [
            (
                prompt,
                {
                    seat: learner if seats.get(seat) == learner else draws[game.role(seat)][i]
                    for seat in game.seats_for(prompt)
                },
            )
            for i, (prompt, seats) in enumerate(matches)
        ]


def mixture_of(league: Sequence[PlayerId], match_context: MatchContext) -> Weighted:
    """The league's players that the mixture holds, their weights adding up to one."""
    weights = {player: match_context.mixture.get(player, 0.0) for player in league}
    total = sum(weights.values())
    return [(player, w / total) for player, w in weights.items() if w > 0]


def _draw(mixture: Weighted, size: int, seed: int, learner: PlayerId, role: str) -> list[PlayerId]:
    players = [player for player, _ in mixture]
    weight_N = np.array([weight for _, weight in mixture])
    rng = seeds.generator(seed, "psro", learner, role)
    draws = rng.choice(len(players), size=size, p=weight_N / weight_N.sum())
    return [players[draw] for draw in draws]


def own_seats(game: Game, prompt: Prompt, i: int) -> Sequence[str]:
    """The learner's seats in match i: one in turn, or half where all have the same role."""
    seats = game.seats_for(prompt)
    if len(game.roles) > 1:
        return [seats[i % len(seats)]]
    half = (len(seats) + 1) // 2
    if i % 2 and len(seats) > 1:
        return seats[half:]
    return seats[:half]
