"""Whom a preference loss takes its residual against.

Nobody, the reference, the current policy, the own past, or other players.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field, model_validator

from equipoise.errors import ConfigError
from equipoise.losses.base import PreferenceLoss
from equipoise.types import PlayerId

REMEDY = {"peers": "let a second player learn", "outsiders": "add a player with learns: false"}


def merged(shares: Sequence[tuple[PlayerId, float]]) -> list[tuple[PlayerId, float]]:
    """Each opponent once, with its weights added up: at first π_t is π_0, too.

    Those without a weight are left out.
    """
    total: dict[PlayerId, float] = {}
    for player, weight in shares:
        total[player] = total.get(player, 0.0) + weight
    return [(player, weight) for player, weight in total.items() if weight > 0]


def scaled(shares: Iterable[tuple[PlayerId, float]]) -> list[tuple[PlayerId, float]]:
    """The shares that are not 0, scaled to add up to one.

    Raises ConfigError when all of them are 0.
    """
    present = [(player, weight) for player, weight in shares if weight > 0]
    total = sum(weight for _, weight in present)
    if not present:
        raise ConfigError("loss.weights: those of the players that are there are all 0")
    return [(player, weight / total) for player, weight in present]


class AgainstNobody(PreferenceLoss):
    """Opponents: none."""

    def opponents(
        self,
        past: Sequence[PlayerId],
        peers: Sequence[PlayerId] = (),
        outsiders: Sequence[PlayerId] = (),
    ) -> list[tuple[PlayerId, float]]:
        return []


class AgainstReference(PreferenceLoss):
    """Opponents: π_ref with weight 1."""

    reference: Literal["initial", "previous"] = Field(
        "initial",
        description="the start π_0, or (the iterative form) the policy π_t that sampled the pairs",
    )

    def opponents(
        self,
        past: Sequence[PlayerId],
        peers: Sequence[PlayerId] = (),
        outsiders: Sequence[PlayerId] = (),
    ) -> list[tuple[PlayerId, float]]:
        return [(past[-1] if self.reference == "initial" else past[0], 1.0)]


class AgainstCurrent(PreferenceLoss):
    """Opponents: π_t, the policy that sampled the pairs, with weight 1."""

    def opponents(
        self,
        past: Sequence[PlayerId],
        peers: Sequence[PlayerId] = (),
        outsiders: Sequence[PlayerId] = (),
    ) -> list[tuple[PlayerId, float]]:
        return [(past[0], 1.0)]


class AgainstLeague(PreferenceLoss):
    """Opponents: the learner's own past, the other learners, or the players that do not learn; and
    the reference π_0.

    `history`: π_t, π_{t−1}, … (time-dependent MNPO). `peers`: the other learners as they are now
    (heterogeneous). `outsiders`: frozen players (external opponents). (arXiv 2509.23102, §3.2 and
    §3.3)
    """

    against: Literal["history", "peers", "outsiders"] = Field(
        "history",
        description="who the opponents are: the own past, the other learners, or the "
        "frozen players",
    )
    weights: tuple[float, ...] | dict[str, float] | None = Field(
        default_factory=lambda data: (0.5, 0.5) if data.get("against") == "history" else None,
        description="λ. Of the history: a list for π_t, π_{t−1}, …, newest first; how "
        "many says how far back the opponents go. Of others: by player name; null: "
        "all alike. Scaled to add up to one over those that exist",
    )
    ratio: float = Field(0.0, ge=0, le=1, description="the reference's share among the opponents")

    @model_validator(mode="after")
    def _weights_fit(self) -> AgainstLeague:
        if self.against == "history" and not isinstance(self.weights, tuple):
            raise ValueError("weights: the history wants a list, newest generation first")
        if self.against != "history" and isinstance(self.weights, tuple):
            raise ValueError(
                f"weights: against {self.against} they go by player name, as in "
                f"{{alice: 0.7, bob: 0.3}}"
            )
        weights = self.weights
        if weights is None:
            return self
        given = list(weights.values() if isinstance(weights, dict) else weights)
        if not given:
            raise ValueError("weights: give at least 1 item")
        if self.against == "history" and given[0] == 0:
            raise ValueError("weights: the first (of π_t, which is never absent) must be positive")
        if min(given) < 0 or not 0 < sum(given) < float("inf"):
            raise ValueError("weights must be finite and not negative, one of them positive")
        return self

    def scored_against(
        self,
        past: Sequence[PlayerId],
        peers: Sequence[PlayerId] = (),
        outsiders: Sequence[PlayerId] = (),
    ) -> list[tuple[PlayerId, float]]:
        """The opponents without the reference, which is an anchor and no opponent to beat."""
        if isinstance(self.weights, tuple):
            return scaled(zip(past, self.weights, strict=False))
        others = list(peers if self.against == "peers" else outsiders)
        if not others:
            raise ConfigError(
                f"loss.against: there are no {self.against} in this run; {REMEDY[self.against]}"
            )
        return scaled((player, self._share(player, others)) for player in others)

    @property
    def memory(self) -> int:
        """How many newest generations are needed.

        Two against peers, since some of them learn before others do.
        """
        if self.against == "history":
            return super().memory
        return 2 if self.against == "peers" else 0

    def _share(self, player: PlayerId, others: Sequence[PlayerId]) -> float:
        if not isinstance(self.weights, dict):
            return 1.0
        if player.name not in self.weights:
            names = ", ".join(other.name for other in others)
            raise ConfigError(
                f"loss.weights: none for player '{player.name}'; give one for each of {names}"
            )
        return self.weights[player.name]

    def opponents(
        self,
        past: Sequence[PlayerId],
        peers: Sequence[PlayerId] = (),
        outsiders: Sequence[PlayerId] = (),
    ) -> list[tuple[PlayerId, float]]:
        others = self.scored_against(past, peers, outsiders)
        shares = [(player, (1 - self.ratio) * weight) for player, weight in others]
        return merged([*shares, (past[-1], self.ratio)])
