"""What a rating is: one number a player, with an interval, from who beat whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import ClassVar, NamedTuple

from equipoise.component import Component


@dataclass(frozen=True, slots=True)
class Outcome:
    """`first` met `second`; `value` is 1 when first won, 0 when second won, ½ for a
    judged tie; `weight` counts it.
    """

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


class Duel(NamedTuple):
    """Two players met and judges scored both answers: judge's name -> (score of
    first's, score of second's).
    """

    first: str
    second: str
    scores: Mapping[str, tuple[float, float]]


class Ratings(Component):
    """Turns outcomes into ratings, best first."""

    KINDS: ClassVar = {
        "elo": "equipoise.ratings.elo:Elo",
        "bradley_terry": "equipoise.ratings.bradley_terry:BradleyTerry",
        "openskill": "equipoise.ratings.openskill:OpenSkill",
        "nash_average": "equipoise.ratings.nash_average:NashAverage",
        "reputation": "equipoise.ratings.reputation:Reputation",
    }

    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        """Ratings of every player that appears in `outcomes`, highest first."""
        raise TypeError(f"{type(self).__name__} must define rate()")

    def standing(
        self, names: Sequence[str], generations: Sequence[Sequence[Duel]], seed: int = 0
    ) -> list[Rating]:
        """Ratings of `names` after the last of `generations` of duels, highest first;
        all of them start equal.

        Here: of the last generation's duels alone, since players change between
        generations; who wins a duel is decided by the mean of its scores. A player that
        met nobody is not listed.
        """
        last = generations[-1] if generations else ()
        return self.rate(
            [Outcome(d.first, d.second, decided(d)) for d in last if d.scores], seed
        )


def decided(duel: Duel) -> float:
    """1 where the first player's mean score is higher, 0 where the second's is, ½ where
    they are equal.
    """
    first, second = (fsum(side) for side in zip(*duel.scores.values(), strict=True))
    return (1 + (first > second) - (first < second)) / 2
