"""Whom a preference loss takes its residual against: nobody, the reference, the current policy, or the past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from equipoise.losses.base import PreferenceLoss
from equipoise.types import PlayerId


def merged(shares: Sequence[tuple[PlayerId, float]]) -> list[tuple[PlayerId, float]]:
    """Each opponent once, its weights added up (at first π_t is π_0 too), without those that have no weight."""
    total: dict[PlayerId, float] = {}
    for player, weight in shares:
        total[player] = total.get(player, 0.0) + weight
    return [(player, weight) for player, weight in total.items() if weight > 0]


class Alone(PreferenceLoss):
    """Opponents: none."""

    def opponents(self, past: Sequence[PlayerId]) -> list[tuple[PlayerId, float]]:
        return []


class AgainstReference(PreferenceLoss):
    """Opponents: π_ref with weight 1."""

    reference: Literal["initial", "previous"] = Field(
        "initial", description="the start π_0, or (the iterative form) the policy π_t that sampled the pairs"
    )

    def opponents(self, past: Sequence[PlayerId]) -> list[tuple[PlayerId, float]]:
        return [(past[-1] if self.reference == "initial" else past[0], 1.0)]


class AgainstCurrent(PreferenceLoss):
    """Opponents: π_t, the policy that sampled the pairs, with weight 1."""

    def opponents(self, past: Sequence[PlayerId]) -> list[tuple[PlayerId, float]]:
        return [(past[0], 1.0)]


class AgainstHistory(PreferenceLoss):
    """Opponents: π_t, π_{t−1}, … with weights λ, and the reference π_0 with a share."""

    weights: tuple[float, ...] = Field(
        (0.5, 0.5),
        min_length=1,
        description="λ of π_t, π_{t−1}, …, newest first; how many says how far back the opponents go; "
        "scaled to add up to one over the generations that exist",
    )
    ratio: float = Field(0.0, ge=0, le=1, description="the reference's share among the opponents")

    @model_validator(mode="after")
    def _positive(self) -> AgainstHistory:
        if min(self.weights) < 0 or not 0 < self.weights[0] <= sum(self.weights) < float("inf"):
            raise ValueError(
                "weights must be finite and not negative, the first (of π_t, which is never absent) positive"
            )
        return self

    def history(self, past: Sequence[PlayerId]) -> list[tuple[PlayerId, float]]:
        """The newest of `past`, one for each weight, with weights that add up to one."""
        present = list(zip(past, self.weights, strict=False))
        total = sum(weight for _, weight in present)
        return [(player, weight / total) for player, weight in present]

    def rivals(self, past: Sequence[PlayerId]) -> list[tuple[PlayerId, float]]:
        """The history alone: the reference is an anchor, not somebody to beat."""
        return self.history(past)

    def opponents(self, past: Sequence[PlayerId]) -> list[tuple[PlayerId, float]]:
        history = [(player, (1 - self.ratio) * weight) for player, weight in self.history(past)]
        return merged([*history, (past[-1], self.ratio)])
