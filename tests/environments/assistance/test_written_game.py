"""What a written matrix says is best: golden fronts, known games, and choices that follow from them
or do not.
"""

import json

import numpy as np
import pytest

from equipoise.environments.assistance import written_game as game
from equipoise.environments.assistance.blocks import parse, write
from equipoise.environments.assistance.payoff_matrix import (
    CELLS,
    Cell,
    MatrixError,
    read_matrix_as_released,
    undominated,
)


def matrix(*cells):
    """In the order of CELLS: DQ_AQ, DQ_CQ, DQ_DA, VQ_AQ, VQ_CQ, VQ_DA, each (user, llm)."""
    return {name: Cell(*cell) for name, cell in zip(CELLS, cells, strict=True)}


# A vague question is less work for the user; it is best met by asking, which a detailed one does
# not need.
USUAL = matrix((1.5, 1.0), (-1.0, 0.5), (3.0, 2.5), (2.0, 1.8), (2.2, 2.2), (0.5, -1.0))
PENNIES = matrix((1, -1), (-1, 1), (-3, -3), (-1, 1), (1, -1), (-3, -3))
BAD_FOR_BOTH = matrix((-4, -4), (-1, 1), (-2, 1), (0.5, -1), (-3, -3), (-2, -2))


def test_golden_fronts(golden):
    for case in golden("gtalign_payoff.json"):
        written = {name: Cell(cell["user"], cell["LLM"]) for name, cell in case["payoff"].items()}
        assert sorted(game.pareto(written)) == sorted(case["pareto"])


def test_the_usual_game():
    told = game.solutions(USUAL)
    assert (
        told["front"]
        == told["sum"]
        == told["product"]
        == told["stackelberg"]
        == told["bargaining"]
        == ("DQ_DA",)
    )
    assert told["nash"] == ("DQ_DA", "VQ_CQ")
    # With both questions about as likely an answer with a follow-up is the model's best, so that it
    # is mixed in.
    assert set(told["nash_mixed"]) == {"DQ_AQ", "DQ_DA", "VQ_AQ", "VQ_CQ", "VQ_DA"}
    given_vague = game.solutions(USUAL, "VQ")
    assert "nash_mixed" not in given_vague
    assert given_vague == dict.fromkeys(given_vague, ("VQ_CQ",))


def test_ties_of_the_sum_go_to_the_user():
    assert (
        game.largest_sum(matrix((0.1, 0.2), (0.2, 0.1), (0.3, 0), (0, 0.3), (0, 0), (0, 0)))
        == "DQ_DA"
    )


def test_two_negatives_make_no_good_product():
    assert (
        game.largest_product(BAD_FOR_BOTH) == "DQ_CQ"
    )  # nothing is good for both, so the largest sum
    assert game.bargaining_outcome(BAD_FOR_BOTH) != "DQ_AQ"


def test_a_game_without_a_pure_equilibrium():
    assert game.nash(PENNIES) == ()
    (only,) = game.mixed_equilibria(PENNIES)
    assert only.row_A == pytest.approx([0.5, 0.5])
    assert only.column_M == pytest.approx([0.5, 0.5, 0])
    assert "nash" not in game.consistency(parse(write("t", PENNIES, "I choose VQ_CQ", "r")))
    assert set(game.solutions(PENNIES)["nash_mixed"]) == {"DQ_AQ", "DQ_CQ", "VQ_AQ", "VQ_CQ"}


def test_leading_can_be_worth_more_than_any_equilibrium():
    # Answering at once would always be best for the model; promising to ask brings the user to ask
    # well.
    chicken = matrix((2, 2), (0, 0), (0, 3), (1, 0), (0, 0), (1, 1))
    assert game.nash(chicken) == ("VQ_DA",)
    assert game.stackelberg_outcome(chicken) == "DQ_AQ"


def test_consistent():
    told = game.consistency(parse(write("t", USUAL, "The best is VQ_CQ.", "Which one?")))
    assert told["nash"]
    assert told[f"sum{game.GIVEN}"]
    assert told[f"bargaining{game.GIVEN}"]
    assert not told["sum"]
    assert not told["front"]
    assert not told["stackelberg"]
    assert set(told) == {
        *game.solutions(USUAL),
        *(f"{n}{game.GIVEN}" for n in game.solutions(USUAL, "VQ")),
    }
    assert game.consistency(parse(write("t", USUAL, "No outcome is named.", "r"))) == {}
    assert game.consistency(parse("<analyze>I choose VQ_CQ</analyze>")) == {}


@pytest.mark.long
@pytest.mark.parametrize("large", [1e300, 1e-300])
def test_any_readable_matrix_has_its_solutions(large):
    rng = np.random.default_rng(0)
    for _ in range(20):
        odd = matrix(*(large * rng.integers(-2, 3, (6, 2)).astype(float)))
        told = game.solutions(odd)
        assert all(set(cells) <= set(CELLS) for cells in told.values())
        assert told["front"]
        assert told["sum"]
        assert told["product"]
        assert told["nash_mixed"]
        assert set(told["nash"]) <= set(told["nash_mixed"])
        assert game.solutions(odd, "DQ")["stackelberg"][0] in game.solutions(odd, "DQ")["nash"]


def test_pay_offs_that_differ_by_the_tolerance_are_equal():
    flat = matrix(*[(1, 1)] * 5, (2, 1))
    assert undominated(flat, tolerance=1.0) == CELLS
    assert undominated(flat, tolerance=0.5) == CELLS[-1:]


def test_a_vast_number_beside_one_with_a_fraction_is_no_matrix_as_released():
    cell = {"LLM": 1, "user": 2}
    written = dict.fromkeys(CELLS, cell)
    assert read_matrix_as_released(json.dumps(written))[CELLS[0]] == Cell(2, 1)
    vast = {**written, CELLS[2]: {"LLM": 0.5, "user": 10**400}}
    with pytest.raises(MatrixError, match="a vast number beside one with a fraction"):
        read_matrix_as_released(json.dumps(vast))
