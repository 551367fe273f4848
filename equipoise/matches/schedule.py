"""Schedules without ratings. The same players, prompts and seed give the same seats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from pydantic import Field

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.matches.base import MatchContext, Schedule, Seatings
from equipoise.types import PlayerId, Prompt


def deal(
    seats: Sequence[str], first: PlayerId, second: PlayerId, swap: bool = False
) -> dict[str, PlayerId]:
    """The first half of the seats to `first`, the rest to `second`; the other way round when
    `swap`.
    """
    if swap:
        first, second = second, first
    half = (len(seats) + 1) // 2
    return {seat: first if i < half else second for i, seat in enumerate(seats)}


def two_or_more(match_context: MatchContext, kind: str) -> Sequence[PlayerId]:
    """The players. Raises ConfigError when there are fewer than two."""
    if len(match_context.players) < 2:
        present = ", ".join(map(str, match_context.players)) or "nobody"
        raise ConfigError(
            f"schedule '{kind}' needs two players or more, and there is {present}; add "
            "players, or use self_play"
        )
    return match_context.players


class SelfPlay(Schedule):
    """Every learner meets itself on every prompt: all seats are its own."""

    kind: Literal["self_play"] = "self_play"

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """One match per prompt and learner."""
        return [
            (prompt, dict.fromkeys(match_context.game.seats, player))
            for player in match_context.learning
            for prompt in prompts
        ]


class RoundRobin(Schedule):
    """Every two players meet on every prompt; who sits first alternates from prompt to prompt."""

    kind: Literal["round_robin"] = "round_robin"

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """One match per prompt and pair of players; a lone player meets itself."""
        game = match_context.game
        players = match_context.players
        alone = [(player, player) for player in players]
        seatings: Seatings = []
        for first, second in list(combinations(players, 2)) or alone:
            for i, prompt in enumerate(prompts):
                seats = deal(game.seats, first, second, swap=i % 2 == 1)
                seatings.append((prompt, seats))
        return seatings


class AgainstHistory(Schedule):
    """Every learner meets, on each prompt, one of its own earlier generations, drawn uniformly."""

    kind: Literal["against_history"] = "against_history"
    max_history: int = Field(
        4, ge=1, description="how many of the newest earlier generations may be drawn"
    )

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """One match per prompt and learner; a learner without a past meets itself."""
        game = match_context.game
        seatings: Seatings = []
        for player in match_context.learning:
            own = [old for old in match_context.history if old.name == player.name]
            opponents = own[: self.max_history] or [player]
            rng = seeds.generator(match_context.seed, "history", player)
            draws = rng.integers(len(opponents), size=len(prompts))
            for i, (prompt, draw) in enumerate(zip(prompts, draws, strict=True)):
                seats = deal(game.seats, player, opponents[draw], swap=i % 2 == 1)
                seatings.append((prompt, seats))
        return seatings
