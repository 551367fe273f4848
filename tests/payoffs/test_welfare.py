"""Welfare of two sides: known values, limits, negatives, and the components."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.component import Settings
from equipoise.payoffs.welfare import (
    Welfare,
    ces,
    cobb_douglas,
    egalitarian,
    llm_only,
    nash_bargaining,
    user_only,
    utilitarian,
)

positive = st.floats(1e-3, 1e3)
weights = st.floats(0.05, 0.95)


def test_known_values():
    assert cobb_douglas(4.0, 9.0) == pytest.approx(6)
    assert cobb_douglas(16.0, 1.0, 0.75) == pytest.approx(8)
    assert utilitarian(1.0, 3.0, 0.25) == pytest.approx(2.5)
    assert egalitarian(2.0, -1.0) == -1
    assert ces(1.0, 3.0, -1) == pytest.approx(1.5)  # the harmonic mean
    assert (user_only(1.0, 2.0), llm_only(1.0, 2.0)) == (1, 2)
    assert nash_bargaining(3.0, 4.0) == 12
    assert nash_bargaining(3.0, 4.0, (1.0, 2.0)) == 4


def test_two_negatives_are_worth_nothing():
    assert cobb_douglas(-2.0, -3.0) == nash_bargaining(-2.0, -3.0) == ces(-2.0, -3.0, -1) == 0
    assert nash_bargaining(-2.0, -3.0, (-4.0, -4.0)) == 2


def test_a_side_with_nothing():
    assert [ces(0.0, 5.0, rho) for rho in (-np.inf, -3, -1, 0)] == [0, 0, 0, 0]
    assert ces(0.0, 4.0, 0.5) == pytest.approx(1)
    assert ces(0.0, 5.0, -1, weight=0) == cobb_douglas(0.0, 5.0, weight=0) == 5
    assert ces(0.0, 0.0, 0.5) == 0


@given(positive, positive, weights)
def test_limits_of_ces(user, llm, weight):
    assert ces(user, llm, 1, weight) == pytest.approx(utilitarian(user, llm, weight))
    assert ces(user, llm, 0, weight) == pytest.approx(cobb_douglas(user, llm, weight))
    for rho in (1e-9, -1e-9):
        assert ces(user, llm, rho, weight) == pytest.approx(
            cobb_douglas(user, llm, weight), rel=1e-6
        )
    assert ces(user, llm, -np.inf, weight) == min(user, llm)
    assert ces(user, llm, -1e5, weight) == pytest.approx(min(user, llm), rel=1e-4)


@given(positive, positive, weights, st.floats(-50, 1).filter(lambda rho: abs(rho) > 0.01))
def test_ces_is_its_formula(user, llm, weight, rho):
    direct = np.exp(
        np.logaddexp(np.log(weight) + rho * np.log(user), np.log1p(-weight) + rho * np.log(llm))
        / rho
    )
    assert ces(user, llm, rho, weight) == pytest.approx(direct, rel=1e-9)


@pytest.mark.parametrize("kind", sorted(Welfare.KINDS))
def test_every_component_is_monotone_broadcasts_and_keeps_what_is_missing(kind):
    welfare = Welfare.build(kind)
    user_G, llm_G = np.meshgrid(np.linspace(-2, 3, 11), np.linspace(-2, 3, 11), indexing="ij")
    value_G = welfare.value(user_G, llm_G)
    assert value_G.shape == (11, 11)
    assert (np.diff(value_G, axis=0) >= -1e-12).all()
    assert (np.diff(value_G, axis=1) >= -1e-12).all()
    assert welfare.value(1.0, np.ones((2, 3))).shape == (2, 3)
    assert float(welfare.value(0.5, 2.0)) == pytest.approx(
        float(welfare.value(np.array([0.5]), np.array([2.0]))[0])
    )
    assert np.isnan(welfare.value(np.nan, np.nan))
    assert welfare.signed == bool(welfare.value(-1.0, -1.0) < 0)


def test_settings_and_their_faults():
    class Judged(Settings):
        welfare: Welfare

    judged = Judged.model_validate({"welfare": {"kind": "cobb_douglas", "weight": 0.25}})
    assert judged.welfare.value(16.0, 81.0) == pytest.approx(54)
    assert judged.model_dump()["welfare"] == {"kind": "cobb_douglas", "weight": 0.25}
    with pytest.raises(ValueError, match="did you mean 'cobb_douglas'"):
        Judged.model_validate({"welfare": "cob_douglas"})
    with pytest.raises(ValueError, match="weight"):
        cobb_douglas(1.0, 1.0, 1.5)
    with pytest.raises(ValueError, match="rho"):
        ces(1.0, 1.0, float("nan"))


def test_a_component_uses_its_own_settings():
    settings = {"weight": 0.75}
    for kind, expected in (
        ("utilitarian", 0.75 * 4 + 0.25),
        ("cobb_douglas", 4**0.75),
        ("ces", 1 / (0.75 / 4 + 0.25)),
    ):
        welfare = Welfare.build({"kind": kind, **settings})
        assert welfare.value(4.0, 1.0) == pytest.approx(expected), kind
    bargain = Welfare.build({"kind": "nash_bargaining", "disagreement": (1.0, 0.5)})
    assert bargain.value(4.0, 1.0) == pytest.approx(3 * 0.5)
