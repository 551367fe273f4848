"""Edits of a written matrix and what is chosen from it: golden edits, the traps, and which way each
price moves.
"""

import numpy as np
import pytest

from equipoise import seeds
from equipoise.environments.assistance import written_game
from equipoise.environments.assistance.payoff_matrix import ACTIONS, CELLS, Cell
from equipoise.environments.assistance.pricing import Pricing
from equipoise.environments.assistance.steering import BY, largest_products, select_outcome
from equipoise.errors import ConfigError
from equipoise.payoffs.welfare import Egalitarian, Welfare


def matrix(*cells):
    """In the order of CELLS: DQ_AQ, DQ_CQ, DQ_DA, VQ_AQ, VQ_CQ, VQ_DA, each (user, llm)."""
    return {name: Cell(*cell) for name, cell in zip(CELLS, cells, strict=True)}


def flat(written):
    return np.array([written[name] for name in CELLS]).ravel()


def dice(seed=0):
    return seeds.generator(seed, "test")


def read(payoff):
    return {name: Cell(cell["user"], cell["LLM"]) for name, cell in payoff.items()}


EVEN = matrix((2.1, 2.1), (2.0, 2.0), (2.2, 2.2), (2.1, 2.1), (2.0, 2.0), (2.2, 2.2))
PENNIES = matrix((1, -1), (-1, 1), (-3, -3), (-1, 1), (1, -1), (-3, -3))
BAD_FOR_BOTH = matrix((-4, -4), (-1, 1), (-2, 1), (0.5, -1), (-3, -3), (-2, -2))


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("steered_llm_minus2", {"llm": -2}),
        ("steered_user_minus0.5", {"user": -0.5}),
        ("steered_none", {}),
    ],
)
def test_released_edits_golden(golden, key, settings):
    pricing = Pricing.build({"kind": "released", **settings})
    for case in golden("gtalign_payoff.json"):
        assert flat(pricing.edit(read(case["payoff"]))) == pytest.approx(
            flat(read(case[key])), rel=0, abs=1e-9
        )


def test_released_products_golden(golden):
    for case in golden("gtalign_payoff.json"):
        written = read(case["payoff"])
        assert sorted(largest_products(written)) == sorted(case["max_product_keys"])
        assert select_outcome(written, "product_released", dice()) in case["max_product_keys"]


def test_a_released_product_takes_two_negatives_and_the_others_do_not():
    assert select_outcome(BAD_FOR_BOTH, "product_released", dice()) == "DQ_AQ"
    for by in BY:
        if by != "product_released":
            assert select_outcome(BAD_FOR_BOTH, by, dice()) != "DQ_AQ", by


@pytest.mark.parametrize("seed", range(10))
def test_a_constant_for_one_side_changes_neither_equilibria_nor_front(seed):
    written = matrix(*np.random.default_rng(seed).uniform(-5, 5, (6, 2)).round(1))
    constant = dict.fromkeys(ACTIONS, 3.0)
    taken = Pricing.build({"kind": "costs", "llm": constant}).edit(written)
    assert flat(taken)[1::2] == pytest.approx(flat(written)[1::2] - 3)
    assert written_game.pareto(taken) == written_game.pareto(written)
    assert written_game.nash(taken) == written_game.nash(written)
    assert written_game.stackelberg_outcome(taken) == written_game.stackelberg_outcome(written)
    by_action = Pricing.build({"kind": "costs", "llm": {"DA": 20.0}}).edit(written)
    assert all(not cell.endswith("DA") for cell in written_game.nash(by_action))


def action(pricing, by="sum", question="VQ", written=EVEN):
    return select_outcome(Pricing.build(pricing).edit(written), by, dice(), question)[3:]


@pytest.mark.parametrize("by", ["welfare", "sum", "product", "egalitarian"])
@pytest.mark.parametrize("question", ["DQ", "VQ"])
def test_each_price_moves_the_choice_its_own_way(by, question):
    assert action("none", by, question) == "DA"
    assert action({"kind": "per_token", "round_trip": 0.0}, by, question) == "CQ"  # the shortest
    assert action({"kind": "subscription", "round_trip": 0.0}, by, question) == "CQ"
    assert action({"kind": "per_token", "price": 0.1}, by, question) == "DA"
    asks = matrix((2.0, 2.0), (3.0, 3.0), (2.5, 2.5), (2.0, 2.0), (3.0, 3.0), (2.5, 2.5))
    assert action("none", by, question, asks) == "CQ"
    assert action("user_effort", by, question, asks) == "DA"
    assert action("latency", by, question, asks) == "DA"  # a round trip takes longer than an answer


def test_who_pays():
    for kind, payer, other in [("per_token", "user", "llm"), ("subscription", "llm", "user")]:
        pricing = Pricing.build(
            {"kind": kind, "price": 10.0, "tokens": {"DA": 500}, "round_trip": 0.25}
        )
        costs = {name: pricing.cost(name)._asdict() for name in ACTIONS}
        assert {name: cost[payer] for name, cost in costs.items()} == pytest.approx(
            {"AQ": 3.5, "CQ": 0.4 + 0.25 * (payer == "user"), "DA": 5.0}
        )
        assert costs["CQ"][other] == pytest.approx(0.25 * (other == "user"))
        assert costs["DA"][other] == costs["AQ"][other] == 0
    # The assistant's own best reply moves only with what the assistant itself pays.
    assert action({"kind": "subscription"}, "nash") == "CQ"
    assert action({"kind": "per_token"}, "nash") == "DA"


def test_waiting_costs_over_the_budget_only():
    pricing = Pricing.build(
        {"kind": "latency", "budget": 6, "price": 0.5, "speed": 50, "reply": 10}
    )
    assert [pricing.cost(name).user for name in ("DA", "AQ")] == pytest.approx([0, 0.5 * 1])
    assert pricing.cost("CQ").user == pytest.approx(0.5 * (0.8 + 10 + 6 - 6))
    assert all(pricing.cost(name).llm == 0 for name in ACTIONS)


@pytest.mark.parametrize("kind", sorted(Pricing.KINDS))
def test_every_pricing_edits_to_one_decimal_by_action_alone(kind):
    pricing = Pricing.build({"kind": kind, "llm": -2} if kind == "released" else kind)
    edited = pricing.edit(EVEN)
    assert list(edited) == list(CELLS)
    for name, cell in edited.items():
        assert cell == tuple(
            round(value - cost, 1)
            for value, cost in zip(EVEN[name], pricing.cost(name[3:]), strict=True)
        )
    assert Pricing.build(pricing.settings()) == pricing
    zero = pricing.edit(matrix(*[(-0.04, -0.04)] * 6))
    assert "-0.0" not in str(zero) or kind == "none"


def test_selections_of_one_game():
    written = matrix((1.5, 1.0), (-1.0, 0.5), (3.0, 2.5), (2.0, 1.8), (2.2, 2.2), (0.5, -1.0))
    for by in (*BY, *Welfare.KINDS, Egalitarian()):
        assert select_outcome(written, by, dice()) == "DQ_DA", by
        assert select_outcome(written, by, dice(), "VQ") == "VQ_CQ", by


def test_dice_are_cast_for_ties_and_mixtures_alone():
    tied = matrix((1, 1), (1, 1), (0, 0), (0, 0), (0, 0), (0, 0))
    assert {select_outcome(tied, "product_released", dice(n)) for n in range(20)} == {
        "DQ_AQ",
        "DQ_CQ",
    }
    assert select_outcome(PENNIES, "nash", dice(1)) == select_outcome(PENNIES, "nash", dice(1))
    assert {select_outcome(PENNIES, "nash", dice(n)) for n in range(40)} == {
        "DQ_AQ",
        "DQ_CQ",
        "VQ_AQ",
        "VQ_CQ",
    }


def test_faults():
    with pytest.raises(ConfigError, match="did you mean 'stackelberg'"):
        select_outcome(EVEN, "stackelburg", dice())
    with pytest.raises(ConfigError, match="question"):
        select_outcome(EVEN, "sum", dice(), "XQ")
    with pytest.raises(ValueError, match="unknown key 'prize'"):
        Pricing.build({"kind": "per_token", "prize": 1})
    with pytest.raises(ValueError):
        Pricing.build({"kind": "costs", "user": {"DA": float("nan")}})
