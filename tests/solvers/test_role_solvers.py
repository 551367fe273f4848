"""Solvers for any number of roles and any pay-offs, on games whose answer is known and against
OpenSpiel's own.
"""

import numpy as np
import pytest

from equipoise.errors import ConfigError, DataError
from equipoise.solvers.alpha_rank import alpha_rank, alpha_rank_roles
from equipoise.solvers.base import Solver
from equipoise.solvers.exploitability import nash_conv, role_gains, role_values
from equipoise.solvers.projected_replicator import project, projected_replicator
from equipoise.solvers.zero_sum import nash

PENNIES = np.array([[1.0, -1], [-1, 1]])
BIASED = np.array([[0.0, -1, 3], [1, 0, -1], [-3, 1, 0]])  # equilibrium (1, 3, 1)/5


def random_roles(seed, shape):
    dice = np.random.default_rng(seed)
    return [dice.normal(size=shape) for _ in shape]


def both(payoff_AM):
    return [payoff_AM, -payoff_AM]


def open_spiel(module):
    """A module of OpenSpiel's algorithms, or a skip where it is not installed."""
    pytest.importorskip("pyspiel", reason="OpenSpiel is not installed")
    return pytest.importorskip(f"open_spiel.python.{module}")


@pytest.mark.parametrize("shape", [(3, 2), (2, 2, 3)])
def test_projected_replicator_is_open_spiels(shape):
    theirs = open_spiel("algorithms.projected_replicator_dynamics")
    payoffs = random_roles(1, shape)
    expected = theirs.projected_replicator_dynamics(
        payoffs, prd_iterations=300, prd_dt=0.05, prd_gamma=0.02
    )
    played = projected_replicator(payoffs, steps=300, step_size=0.05, least=0.02)
    for ours, reference in zip(played.average, expected, strict=True):
        np.testing.assert_allclose(ours, reference, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.1, 2.0])
def test_alpha_rank_of_a_population_is_open_spiels(alpha):
    theirs = open_spiel("egt.alpharank")
    payoff_NN = np.random.default_rng(2).normal(size=(5, 5))
    *_, expected, _, _ = theirs.compute([payoff_NN], m=20, alpha=alpha)
    ours = alpha_rank(payoff_NN, alpha=alpha, members=20)
    np.testing.assert_allclose(ours, expected, atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 2), (2, 2, 3)])
@pytest.mark.parametrize("alpha", [1.5, None])
def test_alpha_rank_of_roles_is_open_spiels(shape, alpha):
    theirs = open_spiel("egt.alpharank")
    payoffs = random_roles(3, shape)
    limit = {"use_inf_alpha": True, "inf_alpha_eps": 0.05} if alpha is None else {}
    *_, expected, _, _ = theirs.compute(payoffs, m=20, alpha=alpha or 0, **limit)
    ours = alpha_rank_roles(payoffs, alpha=alpha, members=20, epsilon=0.05)
    np.testing.assert_allclose(np.sort(ours.ravel()), np.sort(expected), atol=1e-9)


def test_alpha_rank_by_hand():
    """Of two, the better is left with probability epsilon and comes back with 1 − epsilon."""
    better = np.array([[0.0, 1], [-1, 0]])
    np.testing.assert_allclose(alpha_rank(better, epsilon=0.1), [0.9, 0.1])
    np.testing.assert_allclose(alpha_rank(np.zeros((3, 3))), np.full(3, 1 / 3))
    np.testing.assert_allclose(alpha_rank(BIASED), np.full(3, 1 / 3), atol=1e-6)
    strong = alpha_rank(better, alpha=10, members=35)  # e^−680 to leave
    assert strong[0] == 1
    assert 0 < strong[1] < 1e-290
    with pytest.raises(ValueError, match="smaller alpha"):
        alpha_rank(better.T, alpha=1e6)


@pytest.mark.long
def test_a_game_of_three_roles_is_solved():
    """Each of three gains by saying what the next one says: all alike is an equilibrium, and from a
    start that leans there the dynamic finds it.
    """
    payoffs = [np.zeros((2, 2, 2)) for _ in range(3)]
    for profile in np.ndindex(2, 2, 2):
        for role in range(3):
            payoffs[role][profile] = float(profile[role] == profile[(role + 1) % 3])
    lean = [np.array([0.6, 0.4])] * 3
    played = projected_replicator(payoffs, steps=4000, step_size=0.02, least=1e-9, start=lean)
    np.testing.assert_allclose([m[0] for m in played.last], 1, atol=1e-6)
    assert role_gains(payoffs, played.last).sum() < 1e-6
    np.testing.assert_allclose(role_gains(payoffs, [np.full(2, 0.5)] * 3), 0)
    np.testing.assert_allclose(role_values(payoffs, played.last), 1, atol=1e-6)


def test_gains_of_two_roles_add_up_to_nash_conv():
    payoff_AM = np.random.default_rng(4).normal(size=(4, 3))
    dice = np.random.default_rng(5)
    mixtures = [dice.dirichlet(np.ones(4)), dice.dirichlet(np.ones(3))]
    gains = role_gains(both(payoff_AM), mixtures)
    assert gains.sum() == pytest.approx(nash_conv(payoff_AM, *mixtures))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["zero_sum", "projected_replicator"])
def test_two_roles_of_a_zero_sum_game_are_solved(kind):
    payoff_AM = np.random.default_rng(6).normal(size=(4, 3))
    mixtures = Solver.build(kind).solve_roles(both(payoff_AM))
    gap = role_gains(both(payoff_AM), mixtures).sum()
    assert gap < (1e-9 if kind == "zero_sum" else 0.05)
    value = role_values(both(payoff_AM), mixtures)[0]
    assert value == pytest.approx(nash(payoff_AM)[2], abs=0.05)


def test_alpha_rank_gives_each_role_its_share():
    row_A, column_M = Solver.build("alpha_rank").solve_roles(both(PENNIES))
    np.testing.assert_allclose(row_A, [0.5, 0.5])
    np.testing.assert_allclose(column_M, [0.5, 0.5])
    dilemma = np.array([[3.0, 0], [5, 1]])
    shares = Solver.build("alpha_rank").solve_roles([dilemma, dilemma.T])
    np.testing.assert_allclose(shares, [[0, 1], [0, 1]], atol=1e-5)


def test_the_nearest_distribution_with_a_least_share():
    np.testing.assert_allclose(project(np.array([0.4, 0.7, 0.6]), 0.2), [0.2, 0.45, 0.35])
    np.testing.assert_allclose(project(np.array([2.0, 0, 0]), 0.1), [0.8, 0.1, 0.1])
    np.testing.assert_allclose(project(np.array([9.0, 1]), 0.5), [0.5, 0.5])
    with pytest.raises(ValueError, match="2 choices cannot each have a share"):
        project(np.array([1.0, 0]), 0.6)


def test_what_is_no_game_of_roles_is_refused():
    with pytest.raises(ConfigError, match=r"'mirror' solves a population.*choose"):
        Solver.build("mirror").solve_roles(both(PENNIES))
    with pytest.raises(ConfigError, match=r"two roles whose pay-offs.*alpha_rank"):
        Solver.build("zero_sum").solve_roles([PENNIES, PENNIES])
    with pytest.raises(ValueError, match="2 tensors of one shape"):
        role_values([PENNIES, np.zeros((2, 3))], [np.full(2, 0.5)] * 2)
    with pytest.raises(DataError, match=r"payoffs\[1\]\[0, 1\] is nan"):
        role_values([PENNIES, np.array([[0, np.nan], [0, 0]])], [np.full(2, 0.5)] * 2)
    with pytest.raises(ValueError, match=r"mixtures must be 2"):
        role_values(both(PENNIES), [np.full(2, 0.5)])
