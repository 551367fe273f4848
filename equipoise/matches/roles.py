"""A schedule of roles, each with its player; one role's text for another may be given instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import cycle, islice
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.component import nearest
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.matches.base import MatchContext, Schedule, Seatings
from equipoise.system.effects import Text
from equipoise.types import Prompt


class Roles(Schedule):
    """Each role of the game is played by its own player, on every prompt.

    Of the prompts that a role would rewrite, the share `raw` is asked as it is, and in the share
    `replay` a text is given again that succeeded in an earlier generation. One player in several
    roles shares its weights among them; `shared` allows it.

    In a generation in which only some players learn, prompts that give none of them a move are not
    played (harmless ones while the adversary learns); the others are played again in their stead,
    in order, so that a learner's batch keeps its size.
    """

    kind: Literal["roles"] = "roles"
    roles: dict[Text, Text] = Field(min_length=1, description="role -> the player that plays it")
    samples: int = Field(1, ge=1, description="matches on each prompt")
    raw: float = Field(
        0.0, ge=0, le=1, description="share of the seed prompts that are asked as they are"
    )
    replay: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of the seed prompts in whose place a successful text of an "
        "earlier generation is given",
    )
    shared: bool = Field(
        False,
        description="one player may play several roles, and players of several roles "
        "start from one adapter",
    )

    @model_validator(mode="after")
    def _apart(self) -> Roles:
        if self.raw + self.replay > 1:
            raise ValueError(
                f"raw and replay: together {self.raw + self.replay:g}, more than all prompts"
            )
        twice = [name for name in self.roles.values() if list(self.roles.values()).count(name) > 1]
        if twice and not self.shared:
            raise ValueError(
                f"roles: '{twice[0]}' plays several roles with one set of weights, which tend to "
                "collapse together; give each role a player of its own, or set shared: true"
            )
        return self

    @property
    def player_of_role(self) -> Mapping[str, str]:
        return self.roles

    @property
    def replays_texts(self) -> bool:
        return self.replay > 0

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """`samples` matches a prompt. Raises ConfigError for unknown roles or players."""
        game = match_context.game
        player_of = self.seat_players(game, match_context.players)
        dice = seeds.generator(match_context.seed, "raw")
        # The roles of those whose turn it is: every role where that is everybody's.
        turn = match_context.turn or [player.name for player in player_of.values()]
        learning = {role for role, player in player_of.items() if player.name in turn}
        seatings: Seatings = []
        for prompt in prompts_that_teach(prompts, game, learning):
            if game.rewritable(prompt) and learning != {game.rewriter}:
                prompt = self._choose_text(prompt, match_context, dice)
            role_of = {seat: game.role(seat) for seat in game.seats_for(prompt)}
            vacant = sorted(set(role_of.values()) - set(player_of))
            if vacant:
                without = ", or set raw: 1" if vacant == [game.rewriter] else ""
                raise ConfigError(
                    f"schedule.roles: nobody plays {', '.join(vacant)}; name a player "
                    f"for it{without}"
                )
            seats = {seat: player_of[role] for seat, role in role_of.items()}
            seatings += [(prompt, seats)] * self.samples
        return seatings

    def check(self, game: Game, players: Sequence[str]) -> None:
        """Raises ConfigError for unknown roles and players, and unsupported `raw` or `replay`."""
        for role, name in self.roles.items():
            if role not in game.roles:
                hint = nearest(role, list(game.roles))
                raise ConfigError(
                    f"schedule.roles: game '{game.kind}' has no role '{role}'; {hint}"
                )
            if name not in players:
                hint = nearest(name, list(players))
                raise ConfigError(f"schedule.roles.{role}: there is no player '{name}'; {hint}")
        if (self.raw or self.replay) and game.rewriter is None:
            raise ConfigError(
                "schedule: raw and replay need a game in which one role writes what "
                f"another answers, and '{game.kind}' is none"
            )
        if self.raw:
            game.check_raw()
        if self.replay:
            game.check_replay()

    def _choose_text(
        self, prompt: Prompt, match_context: MatchContext, dice: np.random.Generator
    ) -> Prompt:
        draw, place = dice.random(2)
        texts = match_context.successful_texts
        if draw < self.raw:
            return match_context.game.give_text(prompt)
        if draw < self.raw + self.replay and texts:
            return match_context.game.give_text(prompt, texts[int(place * len(texts))])
        return prompt


def prompts_that_teach(
    prompts: Sequence[Prompt], game: Game, learning: Collection[str]
) -> Sequence[Prompt]:
    """Equally many prompts that give a learning role a move; all, where none does."""
    useful = [
        prompt
        for prompt in prompts
        if any(game.role(seat) in learning for seat in game.seats_for(prompt))
    ]
    if not useful:
        return prompts
    return list(islice(cycle(useful), len(prompts)))
