"""Nash averaging on populations whose equilibria are known, and against another optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from equipoise.errors import ConfigError
from equipoise.ratings.base import Outcome, Ratings
from equipoise.ratings.nash_average import NashAverage, max_entropy_nash

CYCLE = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])
RPS = [
    Outcome("rock", "scissors", 1, 9),
    Outcome("scissors", "paper", 1, 9),
    Outcome("paper", "rock", 1, 9),
]


def antisymmetric(rng, players, whole=False):
    upper = np.triu(
        rng.integers(-2, 3, (players, players)) / 2
        if whole
        else rng.normal(size=(players, players)),
        1,
    )
    return upper - upper.T


@pytest.mark.parametrize(
    ("payoff_NN", "expected_N"),
    [
        (np.zeros((1, 1)), [1]),
        (np.zeros((4, 4)), [0.25] * 4),
        (CYCLE, [1 / 3] * 3),
        (np.array([[0.0, 0.2], [-0.2, 0.0]]), [1, 0]),
        (CYCLE[np.ix_([0, 0, 1, 2], [0, 0, 1, 2])], [1 / 6, 1 / 6, 1 / 3, 1 / 3]),
        (np.block([[CYCLE, np.ones((3, 1))], [-np.ones((1, 3)), 0.0]]), [1 / 3, 1 / 3, 1 / 3, 0]),
        # b and c tie a, and c beats b: b may be met by nobody, a and c in any shares
        (np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]]), [0.5, 0, 0.5]),
    ],
)
def test_known_equilibria(payoff_NN, expected_N):
    assert max_entropy_nash(payoff_NN) == pytest.approx(np.array(expected_N, float), abs=1e-6)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("players", [2, 4, 7, 12])
def test_nobody_gains_and_nobody_outside_the_mixture_earns(players, whole):
    for seed in range(10):
        payoff_NN = antisymmetric(np.random.default_rng(seed), players, whole)
        mixture_N = max_entropy_nash(payoff_NN)
        assert mixture_N.min() >= 0
        assert mixture_N.sum() == pytest.approx(1)
        assert (payoff_NN @ mixture_N).max() < 1e-6
        assert np.abs((payoff_NN @ mixture_N)[mixture_N > 1e-4]).max() < 1e-6


@pytest.mark.long
def test_entropy_is_as_large_as_another_optimiser_finds():
    found = 0
    for seed in range(12):
        payoff_NN = antisymmetric(np.random.default_rng(seed), 6, whole=True)
        mixture_N = max_entropy_nash(payoff_NN)
        other = minimize(
            lambda p: float(np.sum(p * np.log(np.maximum(p, 1e-12)))),
            np.full(6, 1 / 6),
            bounds=[(0, 1)] * 6,
            constraints=[
                {"type": "eq", "fun": lambda p: p.sum() - 1},
                {"type": "ineq", "fun": lambda p, a=payoff_NN: -a @ p},
            ],
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if other.success:
            found += 1
            assert mixture_N == pytest.approx(other.x, abs=1e-3)
    assert found >= 8


@pytest.mark.long
def test_a_copy_of_a_player_changes_nobodys_rating():
    # mean win rates would put whoever beats the copied one first
    played = [
        *RPS,
        Outcome("weak", "rock", 0, 6),
        Outcome("weak", "scissors", 0, 6),
        Outcome("weak", "paper", 1, 6),
    ]
    copied = played + [
        Outcome(
            *("copy" if name == "weak" else name for name in (o.first, o.second)), o.value, o.weight
        )
        for o in played
        if "weak" in (o.first, o.second)
    ]
    copied.append(Outcome("copy", "weak", 0.5, 6))
    alone, together = (
        {r.name: r.value for r in NashAverage(resamples=40).rate(games)}
        for games in (played, copied)
    )
    assert {name: together[name] for name in alone} == pytest.approx(alone, abs=1e-6)
    assert together["copy"] == pytest.approx(alone["weak"], abs=1e-6)
    assert alone["rock"] == pytest.approx(0, abs=1e-9)
    assert alone["weak"] < 0


def test_a_best_player_makes_it_the_result_against_that_one():
    played = [
        Outcome("a", "b", 1, 6),
        Outcome("b", "a", 1, 4),
        Outcome("a", "c", 1, 9),
        Outcome("c", "a", 1, 1),
    ]
    rated = {r.name: r for r in NashAverage(resamples=40).rate([*played, Outcome("c", "b", 1, 10)])}
    assert [rated[name].value for name in "abc"] == pytest.approx([0, -0.2, -0.8])
    assert rated["b"].low < -0.2 < rated["b"].high


def test_a_spotless_record_still_has_an_interval():
    _, loser = NashAverage(resamples=40).rate([Outcome("a", "b", 1, 5)])
    assert loser.value == -1 < loser.high
    _, certain = NashAverage(prior=0, resamples=40).rate([Outcome("a", "b", 1, 5)])
    assert certain.low == certain.high == -1


def test_a_pair_that_never_met_is_not_taken_for_a_tie():
    with pytest.raises(ConfigError, match=r"'a' and 'c' never met, .*round_robin"):
        Ratings.build("nash_average").rate([Outcome("a", "b", 1), Outcome("b", "c", 1)])


@pytest.mark.long
def test_a_tie_is_a_game_that_nobody_won():
    """Two won, one lost and three tied: a pay-off of a sixth."""
    played = [Outcome("a", "b", value) for value in (1, 1, 0, 0.5, 0.5, 0.5)]
    rated = {r.name: r.value for r in Ratings.build("nash_average").rate(played)}
    assert rated == pytest.approx({"a": 0.0, "b": -1 / 6})


@pytest.mark.long
def test_an_interval_holds_the_value_whatever_the_prior_draws():
    played = [Outcome("a", "b", 1.0)] * 10
    nash = Ratings.build({"kind": "nash_average", "prior": 1000.0})
    worst = nash.rate(played)[-1]
    assert (worst.name, worst.value, worst.low) == ("b", -1.0, -1.0)
    assert -1 < worst.high <= 0
