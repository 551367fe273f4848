"""Ratings: one number for each player, with an interval, from the outcomes of matches."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.component import Component
from equipoise.errors import DataError
from equipoise.payoffs.table import PayoffTable


@dataclass(frozen=True, slots=True)
class Outcome:
    """`first` met `second` `weight` times: `value` 1 first won, 0 second, ½ a judged tie."""

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
    """A meeting of two players on a prompt: judge's name -> (score of the first's answer, of the
    second's).
    """

    first: str
    second: str
    scores: Mapping[str, tuple[float, float]]
    prompt: str = ""


class Ratings(Component):
    """Turns outcomes into ratings, best first."""

    KINDS: ClassVar = {
        "elo": "equipoise.ratings.elo:Elo",
        "bradley_terry": "equipoise.ratings.bradley_terry:BradleyTerry",
        "openskill": "equipoise.ratings.openskill:OpenSkill",
        "nash_average": "equipoise.ratings.nash_average:NashAverage",
        "reputation": "equipoise.ratings.reputation:Reputation",
    }

    by_outcomes: ClassVar[bool] = True
    """False if who won does not rate the players: it needs the grades that they gave each other."""

    def fault(self, names: Sequence[str]) -> str:
        """The reason why its settings do not fit players of these names; "" where they do."""
        return ""

    @abstractmethod
    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        """Ratings of all players, highest first. Raises DataError for an impossible outcome."""

    def initial_ratings(self, names: Sequence[str]) -> dict[str, float]:
        """The ratings of `names` before the first generation; {} where all start alike."""
        return {}

    def training_ratings(
        self, names: Sequence[str], generations: Sequence[Sequence[Duel]], seed: int = 0
    ) -> list[Rating]:
        """Ratings of `names` after the last of `generations` of duels, highest first.

        All start equal. Here: of the last generation's duels alone, decided by mean score, since
        players change between generations. A player without a duel is not listed.
        """
        last = generations[-1] if generations else ()
        judged = [duel for duel in last if duel.scores]
        return self.rate(
            [Outcome(duel.first, duel.second, duel_result(duel)) for duel in judged], seed
        )


def rank_players(
    names: Sequence[str], value_N: np.ndarray, low_N: np.ndarray, high_N: np.ndarray
) -> list[Rating]:
    """The ratings of `names`, highest first; equal ones in the order of their names.

    >>> one_N = np.ones(2)
    >>> [rating.name for rating in rank_players(["a", "b"], np.array([1.0, 2.0]), one_N, one_N)]
    ['b', 'a']
    """
    ratings = [
        Rating(name, float(value), float(low), float(high))
        for name, value, low, high in zip(names, value_N, low_N, high_N, strict=True)
    ]
    return sorted(ratings, key=lambda rating: -rating.value)


def duel_result(duel: Duel) -> float:
    """1 where the first player's mean score is higher, 0 the second's, ½ where they are equal.

    >>> duel_result(Duel("a", "b", {"judge": (7, 5), "other": (4, 5)}))
    1.0
    """
    first, second = (fsum(side) for side in zip(*duel.scores.values(), strict=True))
    return (1 + (first > second) - (first < second)) / 2


@dataclass(frozen=True, eq=False)
class Counts:
    """The number of each outcome: costs grow with the players, not the matches. `names` are sorted.

    win_NN[i, j]: i beat j. tie_NN[i, j] = tie_NN[j, i]: a tie of the two, counted in each cell.
    """

    names: list[str]
    win_NN: np.ndarray
    tie_NN: np.ndarray

    @property
    def games_N(self) -> np.ndarray:
        """Each player's total weight of games."""
        return (self.win_NN + self.win_NN.T + self.tie_NN).sum(axis=1)


def count_outcomes(outcomes: Sequence[Outcome]) -> Counts:
    """The pair counts of `outcomes`, without a player's matches against itself.

    Raises DataError for a value other than 0, ½ and 1, or a weight that is negative or not finite.

    >>> count_outcomes([Outcome("a", "b", 1.0), Outcome("b", "a", 0.0)]).win_NN
    array([[0., 2.],
           [0., 0.]])
    """
    weight_of: dict[tuple[str, str, float], float] = {}
    for outcome in outcomes:
        if not (outcome.weight >= 0 and isfinite(outcome.weight)):
            raise DataError(
                f"outcome of '{outcome.first}' and '{outcome.second}': "
                f"weight {outcome.weight} is not ≥ 0"
            )
        key = (outcome.first, outcome.second, outcome.value)
        weight_of[key] = weight_of.get(key, 0.0) + outcome.weight
    names = sorted({name for first, second, _ in weight_of for name in (first, second)})
    index = {name: i for i, name in enumerate(names)}
    win_NN, tie_NN = np.zeros((2, len(names), len(names)))
    for (first, second, value), weight in weight_of.items():
        i = index[first]
        j = index[second]
        if value not in (0.0, 0.5, 1.0):
            raise DataError(
                f"outcome of '{first}' and '{second}' is {value}; "
                "it must be 1 (won), 0 (lost) or 0.5 (tie)"
            )
        if i == j:
            continue
        if value == 0.5:
            tie_NN[i, j] += weight
            tie_NN[j, i] += weight
        else:
            win_NN[(i, j) if value == 1.0 else (j, i)] += weight
    return Counts(names, win_NN, tie_NN)


def by_results(counts: Counts) -> tuple[Counts, np.ndarray]:
    """The same counts with the players in an order of their results, whatever their names.

    Draws by place in that order do not move when players are renamed. Beside it stands `class_N`:
    players of one class did alike against players of the same classes, as far as counts tell, so
    that one rating is right for all of them. Source: Weisfeiler and Leman 1968, with
    individualisation of one player of a class at a time.

    >>> renamed, class_N = by_results(count_outcomes([Outcome("z", "a", 1.0)]))
    >>> renamed.names, by_results(count_outcomes([Outcome("a", "z", 1.0)]))[0].names, class_N
    (['a', 'z'], ['z', 'a'], array([0, 1]))
    """
    class_N = _refined(counts, np.zeros(len(counts.names), int))
    place_N = class_N
    while place_N.size and place_N.max() + 1 < place_N.size:
        size_C = np.bincount(place_N)
        chosen = int(np.flatnonzero(place_N == np.flatnonzero(size_C > 1)[0])[0])
        apart_N = 2 * place_N
        apart_N[chosen] -= 1
        place_N = _refined(counts, apart_N)
    order_N = np.argsort(place_N)
    block = np.ix_(order_N, order_N)
    names = [counts.names[i] for i in order_N]
    return Counts(names, counts.win_NN[block], counts.tie_NN[block]), class_N[order_N]


def _refined(counts: Counts, class_N: np.ndarray) -> np.ndarray:
    """Classes from 0 on, split until players of a class have alike results against each class."""
    players = len(class_N)
    results_NN3 = np.stack([counts.win_NN, counts.win_NN.T, counts.tie_NN], axis=2).round(9)
    kinds, kind_M = np.unique(results_NN3.reshape(-1, 3), axis=0, return_inverse=True)
    kind_NN = kind_M.reshape(players, players)
    classes = 0
    while True:
        against_NN = np.sort(class_N * len(kinds) + kind_NN, axis=1)
        signature_NS = np.column_stack([class_N, against_NN])
        unique, class_N = np.unique(signature_NS, axis=0, return_inverse=True)
        class_N = class_N.reshape(players)
        if len(unique) == classes:
            return class_N
        classes = len(unique)


def mean_of_classes(value_N: np.ndarray, class_N: np.ndarray) -> np.ndarray:
    """Each player's value replaced by the mean of its class.

    >>> mean_of_classes(np.array([1.0, 2.0, 6.0]), np.array([0, 1, 1]))
    array([1., 4., 4.])
    """
    mean_C = np.bincount(class_N, value_N) / np.bincount(class_N)
    return mean_C[class_N]


def outcome_cells(counts: Counts) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The C different outcomes (first_C, second_C, weight_C, tie_C): first beat, or tied, second.

    >>> first_C, second_C, weight_C, tie_C = outcome_cells(count_outcomes([Outcome("a", "b", 0.5)]))
    >>> weight_C, tie_C
    (array([1.]), array([ True]))
    """
    win_C2 = np.argwhere(counts.win_NN)
    tie_C2 = np.argwhere(np.triu(counts.tie_NN))
    weight_C = np.concatenate([counts.win_NN[tuple(win_C2.T)], counts.tie_NN[tuple(tie_C2.T)]])
    first_C, second_C = np.concatenate([win_C2, tie_C2]).T
    return first_C, second_C, weight_C, np.arange(len(weight_C)) >= len(win_C2)


def table_outcomes(table: PayoffTable) -> list[Outcome]:
    """A win and a loss for each pair that met, such that ratings' intervals are as wide as the
    table's.

    weight of i beating j = effective[i, j] · (1 + payoff[i, j])/2, where `effective` counts
    independent meetings. A tie is half of each. `table`: constant-sum, pay-offs P(i beats j) − P(j
    beats i).

    >>> from equipoise.payoffs.table import cross_play
    >>> scores = {"a": {"p1": [3], "p2": [1]}, "b": {"p1": [2], "p2": [2]}}
    >>> [outcome.weight for outcome in table_outcomes(cross_play(scores))]
    [1.0, 1.0]
    """
    weighted = []
    effective_NN = table.effective_NN
    for i, first in enumerate(table.players):
        for j, second in enumerate(table.players[:i]):
            if table.count_NN[i, j]:
                won = (1 + table.payoff_NN[i, j]) / 2
                lost = (1 - table.payoff_NN[i, j]) / 2
                weight = effective_NN[i, j]
                weighted.append(Outcome(first, second, 1.0, float(weight * won)))
                weighted.append(Outcome(first, second, 0.0, float(weight * lost)))
    return weighted
