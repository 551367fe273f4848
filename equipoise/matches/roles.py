"""A table with roles: each has its player; some attacks are old ones, or the seed
prompts as they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.component import nearest
from equipoise.environments.red_team.game import ATTACK, RedTeam, attacked, seed_of
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.matches.base import MatchContext, Schedule, Seatings
from equipoise.types import PlayerId, Prompt, record_id


class Roles(Schedule):
    """Each role of the game is played by its own player, on every prompt.

    Of the prompts that an adversary would rewrite, the share `raw` is asked as it is,
    and in the share `replay` an old attack that succeeded on some earlier defender is
    made again. One player in several roles shares its weights among them, which must be
    said to be meant.
    """

    kind: Literal["roles"] = "roles"
    roles: dict[str, str] = Field(
        min_length=1, description="role -> the player that plays it"
    )
    samples: int = Field(1, ge=1, description="matches on each prompt")
    raw: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of the seed prompts that are asked as they are",
    )
    replay: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of the seed prompts in whose place an old attack is made",
    )
    shared: bool = Field(
        False,
        description="one player may play several roles, and players of several roles start from one adapter",
    )

    @model_validator(mode="after")
    def _apart(self) -> Roles:
        if self.raw + self.replay > 1:
            raise ValueError(
                f"raw and replay: together {self.raw + self.replay:g}, more than all prompts"
            )
        twice = [
            name
            for name in self.roles.values()
            if list(self.roles.values()).count(name) > 1
        ]
        if twice and not self.shared:
            raise ValueError(
                f"roles: '{twice[0]}' plays several roles with one set of weights, which tend to collapse together; "
                "give each role a player of its own, or set shared: true"
            )
        return self

    @property
    def remembers(self) -> bool:  # type: ignore[override]  # its settings decide
        """Where old attacks are made again."""
        return self.replay > 0

    def seatings(
        self, prompts: Sequence[Prompt], match_context: MatchContext
    ) -> Seatings:
        """`samples` matches a prompt. Raises ConfigError for roles or players that
        there are not.
        """
        seated = self.seated(match_context)
        dice = seeds.generator(match_context.seed, "raw")
        table: Seatings = []
        for prompt in prompts:
            asked = (
                self._asked(prompt, match_context, dice) if attacked(prompt) else prompt
            )
            seats = {
                seat: seated.get(match_context.game.role(seat))
                for seat in match_context.game.seats_for(asked)
            }
            empty = sorted(
                {
                    match_context.game.role(seat)
                    for seat, player in seats.items()
                    if player is None
                }
            )
            if empty:
                raise ConfigError(
                    f"schedule.roles: nobody plays {', '.join(empty)}; name a player for it, or set raw: 1"
                )
            table += [
                (asked, {seat: player for seat, player in seats.items() if player})
            ] * self.samples
        return table

    def check(self, game: Game, players: Sequence[str]) -> None:
        """Raises ConfigError for a role or a player that there is not, and where the
        game knows no given attacks.
        """
        for role, name in self.roles.items():
            if role not in game.roles:
                hint = nearest(role, list(game.roles))
                raise ConfigError(
                    f"schedule.roles: game '{game.kind}' has no role '{role}'; {hint}"
                )
            if name not in players:
                hint = nearest(name, list(players))
                raise ConfigError(
                    f"schedule.roles.{role}: there is no player '{name}'; {hint}"
                )
        if (self.raw or self.replay) and not isinstance(game, RedTeam):
            raise ConfigError(
                f"schedule: raw and replay are of the game red_team; this is {game.kind}"
            )
        if self.replay and isinstance(game, RedTeam) and game.rounds > 1:
            raise ConfigError(
                "schedule.replay: the attacks of a conversation cannot be made again without its answers"
            )

    def seated(self, match_context: MatchContext) -> dict[str, PlayerId]:
        """role -> player. Raises ConfigError for a role or a player that there is not."""
        here = {player.name: player for player in match_context.players}
        self.check(match_context.game, list(here))
        return {role: here[name] for role, name in self.roles.items()}

    def _asked(
        self, prompt: Prompt, match_context: MatchContext, dice: np.random.Generator
    ) -> Prompt:
        """The prompt to be rewritten, or one whose attack is given."""
        draw, place = dice.random(2)
        if draw < self.raw:
            return with_attack(prompt, seed_of(prompt))
        if draw < self.raw + self.replay and match_context.attacks:
            return with_attack(
                prompt, match_context.attacks[int(place * len(match_context.attacks))]
            )
        return prompt


def with_attack(prompt: Prompt, attack: str) -> Prompt:
    """`prompt` with its attack given: nobody is asked to write one."""
    return Prompt(
        record_id("attack", prompt.id, attack),
        prompt.messages,
        {**prompt.facts, ATTACK: attack},
        prompt.source,
    )
