"""Small examples in which an exchanged name, a turned condition or a missing line would be seen."""

import pytest
from pydantic import ValidationError

from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.measured_answers import MeasuredAnswer, right_actions
from equipoise.environments.assistance.measures import _block_part
from equipoise.environments.assistance.moves import MOVES, _bars, _written_cell
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell
from equipoise.environments.assistance.record import ActionShares, WrittenGames
from equipoise.environments.assistance.steering import Steering
from equipoise.environments.assistance.steering_extension import option_steering
from equipoise.environments.assistance.written_game import largest_product, largest_sum, pareto
from equipoise.environments.matrix.game import Matrix
from equipoise.environments.text_games.game import import_library
from equipoise.environments.text_games.game_league import _seatings, _win_rate
from equipoise.errors import ConfigError
from equipoise.payoffs.table import Meeting
from equipoise.types import Prompt, user


def answer(source, readable=1.0, **utilities):
    prompt = Prompt(f"{source}{len(utilities)}", (user("?"),), {}, source)
    return MeasuredAnswer(prompt, parse("?"), 1, {"readable": readable, **utilities})


def test_an_unreadable_output_took_no_right_action_where_one_is_known():
    right, wrong = answer("a", right_action=1.0), answer("a", right_action=0.0)
    assert right_actions([right, wrong]).mean == 0.5
    assert right_actions([right, answer("a", readable=0.0)]).mean == 0.5
    assert right_actions([right, answer("a", readable=0.0, right_action=1.0)]).mean == 0.5
    assert right_actions([right, answer("b", readable=0.0)]).mean == 1.0
    assert right_actions([answer("b")]).mean is None


def test_a_bar_is_named_by_its_action_where_there_is_one():
    shares = {"vague": ActionShares(AQ=0.1, CQ=0.5, DA=0.25, none=0.15, n=8.0)}
    hover = {move.field: _bars(move, shares)["hovertext"] for move in MOVES}
    for move in MOVES:
        share = f"{100 * getattr(shares['vague'], move.field):.1f} %"
        action = "" if move.field == "none" else move.field
        assert hover[move.field] == [
            f"vague<br>{action} {move.title} <b>{share}</b><br>of 8 answers"
        ]


def test_a_cell_is_shown_of_questions_that_were_asked():
    means = {"vague": {cell: Cell(i, -i) for i, cell in enumerate(CELLS)}, "unknown": {}}
    games = WrittenGames(means=means)
    assert _written_cell(games, "vague", "CQ") == Cell(CELLS.index("VQ_CQ"), -CELLS.index("VQ_CQ"))
    assert _written_cell(games, "detailed", "CQ") is None
    assert _written_cell(games, "unknown", "CQ") is None


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e6])
def test_products_and_fronts_do_not_depend_on_the_unit(scale):
    rows = [(1, 5), (2, 2.75), (5, 1), (-3, -3), (0, 4), (3, 2)]
    matrix = {
        name: Cell(user * scale, llm * scale) for name, (user, llm) in zip(CELLS, rows, strict=True)
    }
    assert largest_product(matrix) == CELLS[5]
    assert set(pareto(matrix)) == {CELLS[i] for i in (0, 1, 2, 5)}
    if scale >= 1:
        assert largest_sum(matrix) == CELLS[2], "of equal sums the user's best"


def test_a_block_is_a_part_by_its_own_name():
    part = _block_part(parse("?"), "thinking", "hm")
    assert (part.name, part.text) == ("thinking", "hm")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"column_actions": ["left", "left"]}, "column_actions"),
        ({"row_actions": ["up", "up"]}, "row_actions"),
        ({"payoffs": [[0, 1, 2], [1, 0, 2]]}, "payoffs"),
        ({"column_payoffs": [[0, 1]]}, "column_payoffs"),
    ],
)
def test_a_game_of_ones_own_says_which_part_does_not_fit(wrong, named):
    whole = {
        "name": "custom",
        "payoffs": [[0, 1], [1, 0]],
        "row_actions": ["up", "down"],
        "column_actions": ["left", "right"],
    }
    Matrix(**whole)
    with pytest.raises(ValidationError, match=named):
        Matrix(**{**whole, **wrong})


def test_a_library_that_is_missing_is_named_by_its_game():
    with pytest.raises(ConfigError, match=r"game: 'chess' needs a package .*no_such_library"):
        import_library("no_such_library", "chess")


def test_seatings_and_win_rates_by_hand():
    assert [_seatings(2), _seatings(3), _seatings(4)] == [2, 6, 8]
    results = [
        Meeting("a", "b", 1.0, "p0"),
        Meeting("b", "a", 1.0, "p1"),
        Meeting("a", "b", 0.5, "p2"),
        Meeting("a", "b", None, "p3"),
        Meeting("a", "c", 1.0, "p4"),
    ]
    a, b = _win_rate(results, "a", "b"), _win_rate(results, "b", "a")
    assert (a.mean, a.n, b.mean) == (pytest.approx((1 + 0.5 / 3) / 2), 3, pytest.approx(0.4166667))


def test_steering_by_a_file_is_a_mapping(tmp_path):
    (tmp_path / "s.yaml").write_text("[1, 2]\n")
    with pytest.raises(ConfigError, match="must be a mapping of settings, such as"):
        option_steering(str(tmp_path / "s.yaml"), Steering())
    with pytest.raises(ConfigError, match="must be a mapping of settings, such as"):
        option_steering(5, Steering())
    (tmp_path / "s.yaml").write_text("pricing: subscription\n")
    assert (
        option_steering(str(tmp_path / "s.yaml"), Steering()).pricing
        == Steering.model_validate({"pricing": "subscription"}).pricing
    )
