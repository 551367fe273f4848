"""What a rating is: one number a player, with an interval, from who beat whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from equipoise.component import Component


@dataclass(frozen=True, slots=True)
class Outcome:
    """`first` met `second`; `value` is 1 when first won, 0 when second won, ½ for a judged tie; `weight` counts it."""

    first: str
    second: str
    value: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Rating:
    """A player's rating with its 95 % interval, in the rating's own units."""

    name: str
    value: float
    low: float
    high: float


class Ratings(Component):
    """Turns outcomes into ratings, best first."""

    KINDS: ClassVar = {
        "elo": "equipoise.ratings.elo:Elo",
        "bradley_terry": "equipoise.ratings.bradley_terry:BradleyTerry",
    }

    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        """Ratings of every player that appears in `outcomes`, highest first."""
        raise TypeError(f"{type(self).__name__} must define rate()")
