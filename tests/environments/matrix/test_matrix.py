import numpy as np
import pytest

from equipoise.environments.matrix.game import Matrix
from equipoise.games.base import Ask, Game
from equipoise.types import Prompt, View, user

RANGE = [str(n) for n in range(14)]
RPS = ["rock", "paper", "scissors"]


@pytest.mark.parametrize(
    ("settings", "moves", "payoffs"),
    [
        ({}, ("paper", "rock"), (1, -1)),
        ({}, ("rock", "rock"), (0, 0)),
        ({"name": "biased_rock_paper_scissors"}, ("rock", "scissors"), (1, -1)),
        ({"name": "biased_rock_paper_scissors"}, ("scissors", "paper"), (0.1, -0.1)),
        ({"name": "prisoners_dilemma"}, ("defect", "cooperate"), (5, 0)),
        ({"name": "prisoners_dilemma"}, ("defect", "defect"), (1, 1)),
        ({"name": "stag_hunt"}, ("stag", "hare"), (0, 3)),
        ({"name": "chicken"}, ("straight", "straight"), (-10, -10)),
        ({"name": "cyclic", "size": 7}, ("2", "1"), (1, -1)),
        ({"name": "cyclic", "size": 7}, ("5", "1"), (-1, 1)),
    ],
)
def test_outcomes(settings, moves, payoffs):
    game = Matrix(**settings)
    assert game.outcome(dict(zip(("row", "column"), moves, strict=True))) == dict(
        zip(("row", "column"), payoffs, strict=True)
    )


def test_both_are_asked_at_once_and_told_their_moves():
    prompt = Prompt("p", (user("play"),))
    referee = Matrix().referee(prompt)
    asks = next(referee)
    assert asks == [Ask(seat, View(prompt.messages, tuple(RPS))) for seat in ("row", "column")]
    with pytest.raises(StopIteration):
        referee.send([])


def test_biased_equilibrium_leaves_nobody_a_better_move():
    payoff_AM = Matrix(name="biased_rock_paper_scissors").payoff_AM()
    np.testing.assert_allclose(payoff_AM @ np.array([1, 10, 5]) / 16, 0, atol=1e-15)


@pytest.mark.parametrize("settings", [{"size": 3}, {"size": 9}, {"size": 9, "seed": 4}, {}])
def test_cycles_are_zero_sum_and_every_move_beats_as_many_as_beat_it(settings):
    game = Matrix(name="cyclic", **settings)
    payoff_AM = game.payoff_AM()
    size = settings.get("size", 5)
    assert payoff_AM.shape == (size, size) == (len(game.actions),) * 2
    assert np.array_equal(payoff_AM, -payoff_AM.T)
    assert ((payoff_AM > 0).sum(1) == (size - 1) // 2).all()
    assert np.abs(payoff_AM).max() <= 1
    assert (np.abs(payoff_AM[~np.eye(size, dtype=bool)]) == 1).all() == ("seed" not in settings)


def test_random_stakes_come_from_the_seed():
    one, same, other = (Matrix(name="cyclic", size=5, seed=seed).payoff_AM() for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_custom_games():
    duel = Matrix(
        name="custom",
        payoffs=[[1, 2, 3], [4, 5, 6]],
        row_actions=["up", "down"],
        column_actions=["l", "m", "r"],
    )
    assert duel.payoff_AM().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert duel.outcome({"row": "down", "column": "r"}) == {"row": 6, "column": -6}
    assert [ask.view.actions for ask in next(duel.referee(Prompt("p", ())))] == [
        ("up", "down"),
        ("l", "m", "r"),
    ]
    both = Matrix(
        name="custom",
        payoffs=[[1, 0], [0, 1]],
        column_payoffs=[[2, 0], [0, 3]],
        row_actions=["a", "b"],
    )
    assert both.outcome({"row": "b", "column": "b"}) == {"row": 1, "column": 3}


def test_a_move_is_read_whatever_its_case_and_blanks():
    assert Matrix().outcome({"row": " Rock\n", "column": "SCISSORS"}) == {"row": 1, "column": -1}


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ({"row": "lizard", "column": "rock"}, "row: 'lizard'.*rock, paper, scissors"),
        ({"row": "rock", "column": ""}, "column: ''"),
        ({"row": "rock"}, "column made no move"),
    ],
)
def test_illegal_moves_are_named(moves, message):
    with pytest.raises(ValueError, match=message):
        Matrix().outcome(moves)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "rochambeau"}, "rock_paper_scissors"),
        ({"name": "cyclic", "size": 4}, "size must be odd"),
        ({"name": "cyclic", "size": 1}, "greater than or equal to 3"),
        ({"size": 5}, "size .*name: rock_paper_scissors"),
        ({"seed": 0}, "seed .*name: rock_paper_scissors, only by cyclic"),
        (
            {"name": "custom", "payoffs": [[0]], "column_payoffs": [], "row_actions": ["a"]},
            "column_payoffs has 0 rows for 1",
        ),
        (
            {"name": "custom", "payoffs": [[0]], "row_actions": ["a"], "column_actions": []},
            "column_actions must be .* at least one",
        ),
        ({"payoffs": [[0]]}, "payoffs .*name: rock_paper_scissors.*custom"),
        ({"name": "custom"}, "needs payoffs"),
        ({"name": "custom", "payoffs": [[0]]}, "needs payoffs .* and row_actions"),
        (
            {"name": "custom", "payoffs": [[0, 1], [1]], "row_actions": ["a", "b"]},
            "payoffs, row 2: 1 numbers for .* 2",
        ),
        (
            {"name": "custom", "payoffs": [[0, 1]], "row_actions": ["a", "b"]},
            "payoffs has 1 rows for 2",
        ),
        (
            {"name": "custom", "payoffs": [[0, 1], [1, 0]], "row_actions": ["a", "A "]},
            "different names",
        ),
        ({"name": "custom", "payoffs": [[float("nan")]], "row_actions": ["a"]}, "finite"),
        (
            {"name": "custom", "payoffs": [[0]], "column_payoffs": [[0, 1]], "row_actions": ["a"]},
            "column_payoffs, row 1: 2 numbers",
        ),
        ({"name": "custom", "payoff": [[0]]}, "did you mean 'payoffs'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Game.build({"kind": "matrix", **settings})


def test_settings_survive_a_round_trip():
    for game in (
        Matrix(),
        Matrix(name="cyclic", seed=3),
        Matrix(name="custom", payoffs=((0.0, 1.0),), row_actions=("a",), column_actions=("b", "c")),
    ):
        assert Game.build(game.settings()) == game


def test_a_row_that_sees_columns_move_has_plans():
    settings = {"name": "custom", "payoffs": [[1, 2], [3, 4], [5, 6]], "row_actions": list("abc")}
    game = Matrix(**settings, column_actions=["x", "y"], row_sees=True)
    rules = game.bimatrix()
    assert rules.first_sees
    assert not Matrix(**settings, column_actions=["x", "y"]).rules.first_sees
    assert len(rules.actions[0]) == 9
    assert rules.actions[0][1] == "a to x; b to y"
    assert rules.first_AM[1].tolist() == [1, 4]
    assert rules.second_AM[1].tolist() == [-1, -4]
    assert game.outcome({"row": "c to x; a to y", "column": "y"}) == {"row": 2, "column": -2}
    with pytest.raises(ValueError, match="only by custom"):
        Matrix(row_sees=True)
    with pytest.raises(ValueError, match="4782969 plans, more than 4096"):
        Matrix(**settings | {"payoffs": [[0] * 14] * 3}, column_actions=RANGE, row_sees=True)
