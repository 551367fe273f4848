"""How much of a pay-off is intransitive."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from equipoise.payoffs.cycles import cycle_share, cyclic_triples

ROCK_PAPER_SCISSORS = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])
payoffs = st.integers(1, 7).flatmap(
    lambda n: arrays(float, (n, n), elements=st.floats(-5, 5, allow_subnormal=False)).map(
        lambda a: a - a.T
    )
)


def saturated(n):
    """Everyone beats all that come later by one."""
    return np.sign(np.arange(n)[None, :] - np.arange(n)[:, None]).astype(float)


def test_known_shares():
    rating_N = np.random.default_rng(0).normal(size=6)
    assert cycle_share(rating_N[:, None] - rating_N) == pytest.approx(0, abs=1e-12)
    assert cycle_share(ROCK_PAPER_SCISSORS) == pytest.approx(1)
    assert cycle_share(np.zeros((4, 4))) == 0
    assert cycle_share(np.zeros((1, 1))) == 0


@pytest.mark.parametrize("n", [2, 3, 5, 40])
def test_a_saturated_order_has_the_documented_share_and_no_cyclic_triple(n):
    assert cycle_share(saturated(n)) == pytest.approx((n - 2) / (3 * n))
    assert cyclic_triples(saturated(n)) == 0


def test_noise_has_the_documented_shares():
    rng = np.random.default_rng(1)
    noise = [(a - a.T) for a in rng.normal(size=(300, 8, 8))]
    assert np.mean([cycle_share(a) for a in noise]) == pytest.approx(6 / 8, abs=0.02)
    assert np.mean([cyclic_triples(a) for a in noise]) == pytest.approx(1 / 4, abs=0.02)


def test_cyclic_triples_by_enumeration():
    payoff_NN = np.random.default_rng(2).integers(-1, 2, (7, 7))
    payoff_NN = np.triu(payoff_NN, 1) - np.triu(payoff_NN, 1).T
    found = total = 0
    for i in range(7):
        for j in range(i):
            for k in range(j):
                total += 1
                found += any(
                    payoff_NN[a, b] > 0 and payoff_NN[b, c] > 0 and payoff_NN[c, a] > 0
                    for a, b, c in ((i, j, k), (k, j, i))
                )
    assert 0 < cyclic_triples(payoff_NN) == pytest.approx(found / total)
    assert cyclic_triples(ROCK_PAPER_SCISSORS) == 1
    assert cyclic_triples(saturated(2)) == 0


@pytest.mark.long
@settings(deadline=None)
@given(payoffs)
def test_the_share_is_what_the_best_ratings_leave(payoff_NN):
    n = len(payoff_NN)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    design = np.array([np.eye(n)[i] - np.eye(n)[j] for i, j in pairs]).reshape(-1, n)
    wanted = np.array([payoff_NN[i, j] for i, j in pairs])
    wanted = wanted / max(np.abs(wanted).max(initial=0), 1e-300)
    rating_N, *_ = np.linalg.lstsq(design, wanted, rcond=None)
    left = ((wanted - design @ rating_N) ** 2).sum() / max((wanted**2).sum(), 1e-300)
    assert cycle_share(payoff_NN) == pytest.approx(left, abs=1e-9)


@pytest.mark.long
@settings(deadline=None)
@given(payoffs, st.randoms(use_true_random=False), st.floats(1e-3, 1e3))
def test_the_share_is_a_share_and_ignores_names_and_units(payoff_NN, random, scale):
    order = list(range(len(payoff_NN)))
    random.shuffle(order)
    share = cycle_share(payoff_NN)
    assert 0 <= share <= 1
    assert cycle_share(scale * payoff_NN[np.ix_(order, order)]) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize(
    ("payoff_NN", "message"),
    [
        ([[0, 0.7], [0.3, 0]], "antisymmetric"),
        ([[0, np.nan], [np.nan, 0]], r"payoff_NN\[0, 1\] is nan"),
        (np.zeros((2, 3)), "square"),
        (np.zeros((0, 0)), "at least one"),
    ],
)
@pytest.mark.parametrize("function", [cycle_share, cyclic_triples])
def test_what_is_no_antisymmetric_payoff_is_refused(function, payoff_NN, message):
    with pytest.raises(ValueError, match=message):
        function(payoff_NN)
