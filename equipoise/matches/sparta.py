"""SPARTA's matching: near equals mostly meet, and anyone may meet anyone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from equipoise import seeds
from equipoise.matches.base import MatchContext, Schedule, Seatings
from equipoise.matches.schedule import deal, two_or_more
from equipoise.types import PlayerId, Prompt


class Sparta(Schedule):
    """In each loop of as many prompts as players, every player, in random order, is once the first.

    Its opponent is, with probability `alpha`, uniform over the others, else uniform
    over the `k` nearest in rating. Equals are in random order, so without ratings all
    are alike; a player without a rating is near to nobody. Source: SPARTA, arXiv
    2506.04721, matching.
    """

    kind: Literal["sparta"] = "sparta"
    alpha: float = Field(0.6, ge=0, le=1, description="share of opponents drawn from all others")
    k: int = Field(
        5,
        ge=1,
        description="how many of the nearest the rest are drawn from; all others "
        "where there are fewer",
    )

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """One match per prompt. Raises ConfigError for fewer than two players."""
        players = two_or_more(match_context, self.kind)
        rng = seeds.generator(match_context.seed, self.kind)
        order: list[int] = []
        game = match_context.game
        ratings = match_context.ratings
        seatings: Seatings = []
        for prompt in prompts:
            order = order or rng.permutation(len(players)).tolist()
            first = players[order.pop()]
            others = [players[i] for i in rng.permutation(len(players)) if players[i] != first]
            if rng.random() >= self.alpha:
                # a stable sort, so that equals stay in random order
                others = sorted(others, key=lambda other: _gap(first, other, ratings))
                others = others[: self.k]
            opponent = others[rng.integers(len(others))]
            seatings.append((prompt, deal(game.seats, first, opponent)))
        return seatings


def _gap(first: PlayerId, second: PlayerId, ratings: Mapping[str, float]) -> float:
    """How far apart the two are in rating; infinite where either is not rated."""
    if first.name not in ratings or second.name not in ratings:
        return np.inf
    return abs(ratings[first.name] - ratings[second.name])
