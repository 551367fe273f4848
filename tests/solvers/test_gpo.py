"""GPO's idealised algorithm against its closed forms, its bound, and the rate that it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from equipoise.solvers.base import Profile, Solver, span
from equipoise.solvers.dynamics import mirror_descent, multiplicative_weights
from equipoise.solvers.exploitability import nash_conv
from equipoise.solvers.gpo import (
    StepSizes,
    contextual,
    contextual_nash_conv,
    contextual_steps,
    gpo,
    step_sizes,
)
from equipoise.solvers.zero_sum import nash

BIASED = np.array([[0.0, -1, 3], [1, 0, -1], [-3, 1, 0]])


def random_game(seed, rows=10, columns=10):
    return np.random.default_rng(seed).uniform(-1, 1, (rows, columns))


def random_profile(seed, rows, columns):
    dice = np.random.default_rng(seed)
    return Profile(dice.dirichlet(np.full(rows, 2.0)), dice.dirichlet(np.full(columns, 2.0)))


def normal(weight_A):
    return weight_A / weight_A.sum()


@pytest.mark.parametrize("alternate", [False, True])
def test_the_steps_are_the_published_closed_form(alternate):
    payoff_AM, start = random_game(0, 3, 4), random_profile(1, 3, 4)
    beta, eta = 0.7, 2.5
    rows, columns = [start.row_A], [start.column_M]
    for _ in range(6):
        rows.append(normal(rows[-1] * np.exp(payoff_AM @ columns[-1] / beta)))
        met_A = rows[-1] if alternate else rows[-2]
        columns.append(normal(columns[-1] * np.exp(-met_A @ payoff_AM / eta)))
    played = gpo(payoff_AM, rounds=6, step=StepSizes(beta, eta), start=start, alternate=alternate)
    for found, expected in (
        (played.last, (rows[-1], columns[-1])),
        (played.average, (np.mean(rows[:-1], axis=0), np.mean(columns[:-1], axis=0))),
    ):
        np.testing.assert_allclose(found.row_A, expected[0])
        np.testing.assert_allclose(found.column_M, expected[1])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), st.floats(0.2, 5), st.floats(0.2, 5), st.floats(0, 3), st.booleans())
def test_a_step_is_the_best_of_its_proximal_objective(seed, beta, eta, tau, alternate):
    payoff_AM, start = random_game(seed, 3, 4), random_profile(seed, 3, 4)
    step = gpo(
        payoff_AM, rounds=1, step=StepSizes(beta, eta, tau), start=start, alternate=alternate
    ).last
    met_A = step.row_A if alternate else start.row_A
    for side, old, gain, hold in (
        (step.row_A, start.row_A, payoff_AM @ start.column_M, beta),
        (step.column_M, start.column_M, -met_A @ payoff_AM, eta),
    ):

        def objective(policy, old=old, gain=gain, hold=hold):
            entropy = -(policy * np.log(policy)).sum()
            return policy @ gain + tau * entropy - hold * (policy * np.log(policy / old)).sum()

        others = np.random.default_rng(seed + 1).dirichlet(np.ones(len(side)), 20)
        assert (
            objective(side) >= max(objective(0.9 * side + 0.1 * other) for other in others) - 1e-12
        )


def test_without_entropy_it_is_multiplicative_weights_and_with_it_mirror_descent():
    payoff_AM = random_game(2, 5, 5)
    theirs = multiplicative_weights(payoff_AM, steps=50)
    np.testing.assert_allclose(gpo(payoff_AM, rounds=50).average.row_A, theirs.average.row_A)
    regular = mirror_descent(payoff_AM, tau=0.3, eta=0.5, steps=50)
    ours = gpo(payoff_AM, rounds=50, step=StepSizes(2.0, 2.0, 0.3))
    np.testing.assert_allclose(ours.last.column_M, regular.last.column_M)
    np.testing.assert_allclose(ours.average.row_A, regular.average.row_A)


def test_the_entropy_of_the_column_alone():
    """By hand: π ∝ π·exp(u/β) without entropy, μ ∝ (μ^η·exp(−v))^(1/(η + τ)) with it."""
    payoff_AM, (beta, eta, tau) = random_game(4, 3, 5), (2.0, 3.0, 0.7)
    row_A, column_M = np.ones(3) / 3, np.ones(5) / 5
    for _ in range(6):
        row, column = row_A, column_M
        row_A = row * np.exp(payoff_AM @ column / beta)
        row_A = row_A / row_A.sum()
        column_M = (column**eta * np.exp(-(row @ payoff_AM))) ** (1 / (eta + tau))
        column_M = column_M / column_M.sum()
    step = StepSizes(beta, eta, tau)
    ours = gpo(payoff_AM, rounds=6, step=step, entropy_of="column").last
    np.testing.assert_allclose(ours.row_A, row_A)
    np.testing.assert_allclose(ours.column_M, column_M)
    both = gpo(payoff_AM, rounds=6, step=step).last
    assert not np.allclose(both.row_A, row_A)


@pytest.mark.parametrize("rounds", [10, 300])
@pytest.mark.parametrize("shape", [(2, 2), (12, 3)])
def test_the_entropy_of_the_column_alone_keeps_a_smaller_bound(shape, rounds):
    payoff_AM = 7 * random_game(3, *shape) + 100
    beta, eta, tau = step = step_sizes(payoff_AM, rounds, entropy=True)
    average = gpo(payoff_AM, rounds=rounds, step=step, entropy_of="column").average
    log_A, log_M = np.log(shape)
    steps = (beta * log_A + eta * log_M) / rounds
    rest = span(payoff_AM) ** 2 * (1 / beta + 1 / eta) / 8 + tau * log_M
    assert nash_conv(payoff_AM, *average) <= steps + rest


@pytest.mark.parametrize("alternate", [False, True])
@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("rounds", [1, 10, 300])
@pytest.mark.parametrize("shape", [(2, 2), (1, 5), (12, 3), (10, 10)])
def test_the_averages_keep_the_bound(shape, rounds, entropy, alternate):
    payoff_AM = 7 * random_game(3, *shape) + 100
    unit, (log_A, log_M) = span(payoff_AM), np.log(shape)
    beta, eta, tau = step = step_sizes(payoff_AM, rounds, entropy=entropy)
    average = gpo(payoff_AM, rounds=rounds, step=step, alternate=alternate).average
    bias = tau * (log_A + log_M)
    bound = (beta * log_A + eta * log_M) / rounds + unit**2 * (1 / beta + 1 / eta) / 8 + bias
    assert nash_conv(payoff_AM, *average) <= bound + alternate * unit / rounds
    least = unit * np.sqrt(np.log(np.maximum(2, shape)) / (2 * rounds)).sum()
    assert bound - bias <= least * (1 + 1e-9)
    assert bias <= least * (1 + 1e-9)
    assert bool(tau) == entropy


@pytest.mark.long
@pytest.mark.parametrize("side", ["none", "both", "column"])
def test_the_gap_of_the_averages_falls_like_one_over_the_root(side):
    entropy, entropy_of = side != "none", "both" if side == "none" else side
    rounds_R, games = ([2**k for k in range(5, 11)], [random_game(seed) for seed in range(4)])

    def gap(payoff_AM: np.ndarray, rounds: int) -> float:
        step = step_sizes(payoff_AM, rounds, entropy=entropy)
        return nash_conv(
            payoff_AM, *gpo(payoff_AM, rounds=rounds, step=step, entropy_of=entropy_of).average
        )

    gap_GR = [[gap(payoff_AM, t) for t in rounds_R] for payoff_AM in games]
    slope = np.polyfit(np.log(rounds_R), np.log(gap_GR).mean(0), 1)[0]
    assert -0.6 < slope < -0.4


def test_the_last_profile_circles_and_the_average_does_not():
    played = gpo(BIASED, rounds=4000)
    assert nash_conv(BIASED, *played.average) < 0.06 < 0.4 < nash_conv(BIASED, *played.last)


@pytest.mark.long
def test_the_entropy_bonus_of_a_population_spreads_over_equals():
    equals_NN = np.array([[0.0, 0, 1], [0, 0, 1], [-1, -1, 0]])
    mixture_N = Solver.build({"kind": "gpo", "entropy": True, "iterate": "last"}).solve(equals_NN)
    assert mixture_N[0] == pytest.approx(mixture_N[1])
    assert mixture_N[2] < 0.01


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gpo(BIASED, rounds=0), "rounds must be a number above zero"),
        (
            lambda: gpo(BIASED, rounds=1, step=StepSizes(0.0, 1.0)),
            "beta must be a number above zero",
        ),
        (
            lambda: gpo(BIASED, rounds=1, step=StepSizes(1.0, -1.0)),
            "eta must be a number above zero",
        ),
        (
            lambda: gpo(BIASED, rounds=1, step=StepSizes(1.0, 1.0, -0.1)),
            "entropy must be a number above zero",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# -- the game as stated: the defender sees the prompt


def by_linear_programme(payoff_AM):
    """max v with Σ_y π(y|x)·payoff[y, x] ≥ v for every prompt x: the contextual game's value."""
    answers, prompts = payoff_AM.shape
    at_least = np.zeros((prompts, prompts * answers + 1))
    sums = np.zeros((prompts, prompts * answers + 1))
    for x in range(prompts):
        own = slice(x * answers, (x + 1) * answers)
        at_least[x, own], at_least[x, -1], sums[x, own] = -payoff_AM[:, x], 1, 1
    objective = np.append(np.zeros(prompts * answers), -1)
    bounds = [(0, 1)] * (prompts * answers) + [(None, None)]
    return -linprog(objective, at_least, np.zeros(prompts), sums, np.ones(prompts), bounds).fun


def contextual_nash(payoff_AM):
    """(an equilibrium, its value): each prompt has its best answer, and the prompt whose best
    answer pays least is written.
    """
    answers, prompts = payoff_AM.shape
    best_M = payoff_AM.max(0)
    policies = np.eye(answers)[payoff_AM.argmax(0)], np.eye(prompts)[best_M.argmin()]
    return policies, best_M.min()


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (6, 3)])
def test_the_contextual_equilibrium_is_that_of_the_linear_programme(shape):
    payoff_AM = random_game(5, *shape)
    policies, value = contextual_nash(payoff_AM)
    assert value == pytest.approx(by_linear_programme(payoff_AM))
    assert contextual_nash_conv(payoff_AM, *policies) == pytest.approx(0, abs=1e-12)
    assert value >= nash(payoff_AM)[2] - 1e-12  # to see the prompt cannot hurt


@pytest.mark.parametrize("weights", ["played", "uniform"])
@pytest.mark.parametrize("alternate", [False, True])
def test_the_contextual_steps_are_the_published_closed_form(weights, alternate):
    """One policy a prompt, in loops."""
    payoff_AM, (beta, eta) = random_game(6, 3, 4), (0.7, 2.5)
    answer_MA, prompt_M = np.ones((4, 3)) / 3, np.ones(4) / 4
    played = []
    for _ in range(5):
        played.append((answer_MA, prompt_M))
        weight_M = prompt_M if weights == "played" else np.ones(4) / 4
        next_MA = np.array(
            [
                normal(answer_MA[x] * np.exp(prompt_M[x] * payoff_AM[:, x] / (beta * weight_M[x])))
                for x in range(4)
            ]
        )
        met_MA = next_MA if alternate else answer_MA
        paid_M = np.array([met_MA[x] @ payoff_AM[:, x] for x in range(4)])
        answer_MA, prompt_M = next_MA, normal(prompt_M * np.exp(-paid_M / eta))
    step = StepSizes(beta, eta)
    ours = contextual(payoff_AM, rounds=5, weights=weights, step=step, alternate=alternate)
    np.testing.assert_allclose(ours.last.answer_MA, answer_MA)
    np.testing.assert_allclose(ours.last.prompt_M, prompt_M)
    np.testing.assert_allclose(ours.average.answer_MA, np.mean([a for a, _ in played], axis=0))
    np.testing.assert_allclose(ours.average.prompt_M, np.mean([p for _, p in played], axis=0))


@pytest.mark.parametrize("rounds", [1, 10, 300])
@pytest.mark.parametrize("shape", [(2, 2), (1, 5), (12, 3)])
def test_the_contextual_averages_keep_their_bounds(shape, rounds):
    payoff_AM = 7 * random_game(3, *shape) + 100
    unit, log_A, log_M = span(payoff_AM), *np.log(shape)
    for weights in ("played", "uniform"):
        beta, eta, _ = contextual_steps(payoff_AM, rounds, weights)
        adversarys = eta * log_M / rounds + unit**2 / (8 * eta)
        defenders = beta * log_A / rounds + unit**2 * shape[1] / (8 * beta)
        if weights == "played":
            defenders = beta * log_A * (1 + np.log(rounds)) / rounds + unit / rounds
        average = contextual(payoff_AM, rounds=rounds, weights=weights).average
        assert -1e-9 <= contextual_nash_conv(payoff_AM, *average) <= defenders + adversarys


def test_the_last_contextual_policies_converge_where_those_of_the_substitute_circle():
    payoff_AM = random_game(7, 4, 4)
    for weights in ("played", "uniform"):
        played = contextual(payoff_AM, rounds=1000, weights=weights)
        last, average = (contextual_nash_conv(payoff_AM, *each) for each in played)
        assert last < average / 10
    last, average = (nash_conv(payoff_AM, *each) for each in gpo(payoff_AM, rounds=1000))
    assert last > 2 * average


def test_prompts_and_answers_are_not_exchanged():
    payoff_AM = np.outer([1.0, 0.0, 0.0], np.ones(3))  # one answer is good for every prompt
    ours, exchanged = (contextual(matrix, rounds=200) for matrix in (payoff_AM, payoff_AM.T))
    assert contextual_nash_conv(payoff_AM, *ours.last) < 0.05
    assert contextual_nash_conv(payoff_AM, *exchanged.last) > 0.5
    assert (contextual_nash(payoff_AM)[1], contextual_nash(payoff_AM.T)[1]) == (1, 0)
    with pytest.raises(ValueError, match=r"a row for each prompt.*\(4, 2\)"):
        contextual_nash_conv(random_game(8, 2, 4), np.ones((2, 4)) / 4, np.ones(4) / 4)
    columns_sum_to_one = ours.last.answer_MA * [[2.0], [0.5], [0.5]]
    with pytest.raises(ValueError, match=r"answer_MA\[0\] must be non-negative and sum to one"):
        contextual_nash_conv(payoff_AM, columns_sum_to_one, np.ones(3) / 3)
