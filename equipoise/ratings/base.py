"""Ratings: one number for each player, with an interval, from the outcomes of matches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.component import Component


@dataclass(frozen=True, slots=True)
class Outcome:
    """`first` met `second`: `value` is 1 when first won, 0 when second won, ½ for a judged tie.

    `weight` is how many such matches it stands for.
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
    """Two players met and judges scored both answers: judge's name -> (score of the first's, score
    of the second's).
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

    @abstractmethod
    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        """Ratings of every player that appears in `outcomes`, highest first."""

    def initial_ratings(self, names: Sequence[str]) -> dict[str, float]:
        """The ratings of `names` before the first generation; {} where all start alike."""
        return {}

    def training_ratings(
        self, names: Sequence[str], generations: Sequence[Sequence[Duel]], seed: int = 0
    ) -> list[Rating]:
        """Ratings of `names` after the last of `generations` of duels, highest first; all of them
        start equal.

        Here: of the last generation's duels alone, since players change between generations; the
        mean of its scores decides a duel. A player without a duel is not listed.
        """
        last = generations[-1] if generations else ()
        judged = [duel for duel in last if duel.scores]
        return self.rate([Outcome(duel.first, duel.second, decided(duel)) for duel in judged], seed)


def ranked(
    names: Sequence[str], value_N: np.ndarray, low_N: np.ndarray, high_N: np.ndarray
) -> list[Rating]:
    """The ratings of `names`, highest first; equal ones in the order of their names."""
    ratings = [
        Rating(name, float(value), float(low), float(high))
        for name, value, low, high in zip(names, value_N, low_N, high_N, strict=True)
    ]
    return sorted(ratings, key=lambda rating: -rating.value)


def decided(duel: Duel) -> float:
    """1 where the first player's mean score is higher, 0 where the second's is, ½ where they are
    equal.
    """
    first, second = (fsum(side) for side in zip(*duel.scores.values(), strict=True))
    return (1 + (first > second) - (first < second)) / 2
