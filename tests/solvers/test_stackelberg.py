"""Commitment: known games, ties, and what theory says of its worth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from equipoise.solvers.bimatrix import pure_commitment
from equipoise.solvers.zero_sum import nash

# Conitzer and Sandholm's first example: alone (1, 0) is an equilibrium worth 2; committing to the
# other row gives 3.
GAME = np.array([[2.0, 4], [1, 3]]), np.array([[1.0, 0], [0, 2]])
games = st.tuples(st.integers(1, 3), st.integers(1, 3)).flatmap(
    lambda shape: st.tuples(*[arrays(float, shape, elements=st.integers(-4, 4).map(float))] * 2)
)


def test_a_known_game():
    told = pure_commitment(*GAME)
    assert (told.leader_A.tolist(), told.reply, told.leader_value, told.follower_value) == (
        [0, 1],
        1,
        3,
        2,
    )


def test_ties_are_broken_for_or_against_the_leader():
    leader_AM, follower_AM = np.array([[5.0, 0], [2, 2]]), np.array([[1.0, 1], [1, 1]])
    assert pure_commitment(leader_AM, follower_AM, "strong").leader_value == 5
    weak = pure_commitment(leader_AM, follower_AM, "weak")
    assert (weak.leader_A.tolist(), weak.leader_value) == ([0, 1], 2)
    kind = pure_commitment(np.array([[1.0], [1.0]]), np.array([[0.0], [3.0]]))
    assert kind.follower_value == 3


@settings(max_examples=30, deadline=None)
@given(games)
def test_commitment_is_worth_what_theory_says(game):
    """At most what a follower that breaks ties for the leader leaves, at least each row's worst."""
    strong, weak = pure_commitment(*game), pure_commitment(*game, "weak")
    leader_AM, follower_AM = game
    best = follower_AM[strong.leader_A.argmax()]
    assert weak.leader_value <= strong.leader_value
    assert best[strong.reply] == best.max()
    assert weak.leader_value >= leader_AM.min(axis=1).max()


def test_in_a_zero_sum_game_moving_first_is_worth_the_least_of_the_best_row():
    payoff_AM = np.random.default_rng(3).normal(size=(3, 4))
    told = pure_commitment(payoff_AM, -payoff_AM)
    assert told.leader_value == payoff_AM.min(axis=1).max() <= nash(payoff_AM)[2]


def test_faults():
    with pytest.raises(ValueError, match="strong or weak"):
        pure_commitment(*GAME, "none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shape"):
        pure_commitment(np.zeros((2, 2)), np.zeros((2, 3)))
