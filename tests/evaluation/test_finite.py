"""How exploitable tabular players are, by hand in rock, paper, scissors."""

import numpy as np
import pytest

from equipoise.environments.matrix.game import Matrix
from equipoise.errors import ConfigError
from equipoise.evaluation.exact import Finite
from equipoise.types import PlayerId

ROCK, PAPER, EVEN = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]


class Table:
    """An arena of players whose policies are given, oldest first."""

    def __init__(self, game, **policies):
        self.game, self.policies = game, policies

    def learners(self, t):
        return [PlayerId(name, t) for name in self.policies]

    def past(self, player):
        return [PlayerId(player.name, g) for g in range(player.generation, -1, -1)]

    def probabilities(self, player, actions):
        return np.array(self.policies[player.name][player.generation])


def test_averages_and_last_iterates_by_hand():
    """The average of `turns` is (4, 4, 1)/9, against which paper gains a third."""
    arena = Table(Matrix(), stays=[ROCK] * 3, turns=[ROCK, PAPER, EVEN])
    measured = Finite().measure(arena, 2)
    assert measured.averages["turns@2"] == pytest.approx([4 / 9, 4 / 9, 1 / 9])
    assert measured.policies["turns@2"] == pytest.approx(EVEN)
    assert measured.gap == pytest.approx({"stays@2": 1.0, "turns@2": 1 / 3})
    assert measured.last_gap == pytest.approx({"stays@2": 1.0, "turns@2": 0.0})
    # The most exploitable learner's counts.
    assert (measured.exploitability, measured.last_exploitability) == (1.0, 1.0)


def test_exploitability_is_of_the_averages():
    measured = Finite().measure(Table(Matrix(), turns=[ROCK, PAPER, EVEN]), 2)
    assert measured.exploitability == pytest.approx(1 / 3)
    assert measured.last_exploitability == pytest.approx(0)


def test_seats_of_different_moves_are_refused():
    game = Matrix(
        name="custom",
        payoffs=((1.0, 0.0, 0.5),),
        row_actions=("a",),
        column_actions=("x", "y", "z"),
    )
    with pytest.raises(ConfigError, match="both seats have the same moves"):
        Finite().measure(Table(game, one=[[1.0]]), 0)
