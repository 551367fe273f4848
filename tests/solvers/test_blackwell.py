"""Many criteria at once: the adversary's closed form, its limits, and mirror ascent beside a convex
solver.
"""

import numpy as np
import pytest
from scipy.optimize import minimize

from equipoise.solvers.blackwell import (
    adversaries,
    blackwell_winner,
    criterion_gains,
    prosper,
    secured,
)
from equipoise.solvers.zero_sum import nash


def wins(seed, criteria=3, actions=4):
    """Criteria of a game of preferences, none like another: P(a ≻ b) = 1 − P(b ≻ a)."""
    dice = np.random.default_rng(seed)
    upper_CAA = np.triu(dice.uniform(-1, 1, (criteria, actions, actions)), 1)
    return (1 + upper_CAA - upper_CAA.swapaxes(1, 2)) / 2


def mixture(seed, size=4):
    return np.random.default_rng(seed).dirichlet(np.ones(size))


def by_convex_solver(win_CAA, reference_A, beta):
    """max v with v ≤ V_c(π) for every criterion, by SLSQP."""
    actions = len(reference_A)

    def left(x):
        kept_CM = np.einsum("a,cam->cm", x[:-1], win_CAA)
        weight_CM = reference_A * np.exp(-kept_CM / beta)
        return -beta * np.log(weight_CM.sum(axis=1)) - x[-1]

    best = minimize(
        lambda x: -x[-1],
        np.r_[np.full(actions, 1 / actions), 0.0],
        bounds=[(0, 1)] * actions + [(-1, 1)],
        constraints=[
            {"type": "ineq", "fun": left},
            {"type": "eq", "fun": lambda x: x[:-1].sum() - 1},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert best.success
    return best.x[:-1], best.x[-1]


@pytest.mark.parametrize("seed", range(4))
def test_the_adversary_in_closed_form_is_what_a_convex_solver_finds(seed):
    win_CAA, policy_A, reference_A = wins(seed), mixture(seed + 10), mixture(seed + 20)
    beta = 0.2
    replies = adversaries(win_CAA, policy_A, reference_A, beta)
    for criterion, win_AA in enumerate(win_CAA):
        kept_A = policy_A @ win_AA

        def paid(x, kept_A=kept_A):
            x = np.maximum(x, 1e-12)
            return x @ kept_A + beta * (x * np.log(x / reference_A)).sum()

        best = minimize(
            paid,
            reference_A,
            bounds=[(0, 1)] * 4,
            constraints=[{"type": "eq", "fun": lambda x: x.sum() - 1}],
            options={"ftol": 1e-12},
        )
        np.testing.assert_allclose(replies.policy_CM[criterion], best.x, atol=1e-4)
        assert replies.value_C[criterion] == pytest.approx(best.fun, abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_mirror_ascent_secures_what_a_convex_solver_does(seed, beta):
    win_CAA, reference_A = wins(seed), mixture(seed)
    _, most = by_convex_solver(win_CAA, reference_A, beta)
    steps = 1000
    found = prosper(win_CAA, reference_A, beta=beta, steps=steps)
    reached = secured(win_CAA, found.average_A, reference_A, beta)
    assert reached <= most + 1e-6
    assert reached >= most - np.sqrt(np.log(4) / (2 * steps))
    assert reached == pytest.approx(most, abs=0.01)


def test_the_bound_shrinks_with_the_root_of_the_steps():
    win_CAA, reference_A = wins(5), mixture(5)
    _, most = by_convex_solver(win_CAA, reference_A, 0.1)
    short = []
    for steps in (10, 40, 160, 640):
        found = prosper(win_CAA, reference_A, beta=0.1, steps=steps)
        gap = most - secured(win_CAA, found.average_A, reference_A, 0.1)
        assert gap <= np.sqrt(np.log(4) / (2 * steps))
        short.append(gap)
    assert short[-1] < short[0] / 4


def test_between_the_worst_reply_and_the_mean_of_the_reference():
    win_CAA, policy_A, reference_A = wins(1), mixture(2), mixture(3)
    kept_CM = np.einsum("a,cam->cm", policy_A, win_CAA)
    tiny = adversaries(win_CAA, policy_A, reference_A, 1e-4).value_C
    np.testing.assert_allclose(tiny, kept_CM.min(axis=1), atol=2e-3)
    huge = adversaries(win_CAA, policy_A, reference_A, 1e4).value_C
    np.testing.assert_allclose(huge, kept_CM @ reference_A, atol=1e-4)
    for beta in (0.1, 1.0):  # Hoeffding: probabilities lie in an interval of length 1
        value_C = adversaries(win_CAA, policy_A, reference_A, beta).value_C
        lost_C = kept_CM @ reference_A - value_C
        assert (lost_C >= 0).all() and (lost_C <= 1 / (8 * beta)).all()


def test_the_gains_are_the_gradient_of_what_is_secured():
    win_CAA, policy_A, reference_A = wins(7), mixture(8), mixture(9)
    gain_A = criterion_gains(win_CAA, policy_A, reference_A, 0.1)
    direction_A = np.array([1.0, -0.5, 0.25, -0.75])
    step = 1e-6
    before, after = (
        secured(win_CAA, policy_A + sign * step * direction_A, reference_A, 0.1) for sign in (-1, 1)
    )
    assert (after - before) / (2 * step) == pytest.approx(gain_A @ direction_A, abs=1e-5)


def test_with_one_criterion_and_no_pull_it_is_the_von_neumann_winner():
    win_CAA = wins(3, criteria=1)
    policy_A, value = blackwell_winner(win_CAA)
    row_A, _, zero = nash(2 * win_CAA[0] - 1)
    assert value == pytest.approx(0.5) and zero == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(policy_A, row_A, atol=1e-6)
    near = prosper(win_CAA, np.full(4, 0.25), beta=0.01, steps=1500)
    assert (near.average_A @ win_CAA[0]).min() == pytest.approx(0.5, abs=0.04)


def test_criteria_that_oppose_each_other_leave_less_than_half():
    better = np.array([[0.5, 0.9], [0.1, 0.5]])
    policy_A, value = blackwell_winner(np.array([better, better.T]))
    assert value == pytest.approx(0.3)
    np.testing.assert_allclose(policy_A, [0.5, 0.5])


@pytest.mark.long
def test_it_secures_more_than_a_weighted_sum_the_least_or_the_product():
    beta = 0.05
    shortfalls = []
    for seed in range(20):
        win_CAA, reference_A = wins(seed), np.full(4, 0.25)
        own = prosper(win_CAA, reference_A, beta=beta, steps=1000).average_A
        mixed_A, _, _ = nash(2 * win_CAA.mean(axis=0) - 1)
        least_A = np.eye(4)[(win_CAA @ reference_A).min(axis=0).argmax()]
        product_A = np.eye(4)[(win_CAA @ reference_A).prod(axis=0).argmax()]
        most = secured(win_CAA, own, reference_A, beta)
        shortfalls.append(
            [most - secured(win_CAA, p, reference_A, beta) for p in (mixed_A, least_A, product_A)]
        )
    assert np.min(shortfalls) > -0.01
    assert np.mean(shortfalls, axis=0).min() > 0.01


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"win_CAM": np.ones((2, 2))}, "three axes"),
        ({"win_CAM": np.full((1, 4, 4), 1.5)}, "probabilities"),
        ({"policy_A": np.ones(4)}, "policy_A must be non-negative"),
        ({"beta": 0.0}, "beta must be a number above zero"),
    ],
)
def test_what_is_no_game_of_criteria_is_refused(change, wrong):
    given = {"win_CAM": wins(0), "policy_A": mixture(0), "reference_M": mixture(1), "beta": 0.1}
    with pytest.raises(ValueError, match=wrong):
        adversaries(**{**given, **change})
