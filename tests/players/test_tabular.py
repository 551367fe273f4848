import json

import numpy as np
import pytest

from equipoise import seeds
from equipoise.errors import ConfigError, ModelError
from equipoise.models.resources import Resources
from equipoise.players.base import Distribution, Player, Scorer
from equipoise.players.tabular import Tabular, read_policy, write_policy
from equipoise.types import View

MOVES = ("rock", "paper", "scissors")


def open_(player, weights=None):
    return player.open(weights, Resources())


def test_an_actor_is_a_scorer_and_a_distribution():
    actor = open_(Tabular())
    assert isinstance(actor, Scorer)
    assert isinstance(actor, Distribution)


@pytest.mark.parametrize(
    ("player", "expected"),
    [
        (Tabular(), [1 / 3, 1 / 3, 1 / 3]),
        (Tabular(logits=(0.0, float(np.log(2)), 0.0)), [0.25, 0.5, 0.25]),
        (Tabular(probabilities=(0.2, 0.0, 0.8)), [0.2, 0.0, 0.8]),
    ],
)
def test_moves_come_with_their_probabilities(player, expected):
    actor = open_(player)
    np.testing.assert_allclose(actor.probabilities(MOVES), expected)
    dice = [seeds.child(0, i) for i in range(4000)]
    moves = actor.act([View(actions=MOVES)] * len(dice), dice)
    counts_A = np.array([sum(move.text == name for move in moves) for name in MOVES])
    np.testing.assert_allclose(counts_A / len(dice), expected, atol=0.03)
    assert all(counts_A[i] == 0 for i in range(3) if expected[i] == 0)
    for move in moves[:50]:
        (choice,) = move.token_ids
        assert MOVES[choice] == move.text
        assert move.logprobs[0] == pytest.approx(np.log(expected[choice]))


def test_a_move_is_the_inverse_distribution_at_the_rows_own_number():
    actor = open_(Tabular(probabilities=(0.2, 0.5, 0.3)))
    dice = list(range(100))
    moves = actor.act([View(actions=MOVES)] * 100, dice)
    for move, u in zip(moves, seeds.uniform(np.array(dice), 0), strict=True):
        assert move.text == MOVES[0 if u < 0.2 else 1 if u < 0.7 else 2]


def test_a_move_does_not_depend_on_its_neighbours():
    actor = open_(Tabular(logits=(1.0, 0.0, -1.0)))
    views, dice = [View(actions=MOVES)] * 20, list(range(20))
    assert [
        actor.act([view], [seed])[0] for view, seed in zip(views, dice, strict=True)
    ] == actor.act(views, dice)


def test_log_probabilities_of_texts():
    actor = open_(Tabular(probabilities=(0.25, 0.5, 0.25), actions=MOVES))
    assert actor.logprobs([(), ()], ["paper", "rock"]) == [
        (pytest.approx(np.log(0.5)), 1),
        (pytest.approx(np.log(0.25)), 1),
    ]
    with pytest.raises(ConfigError, match="how likely 'lizard' is"):
        actor.logprobs([()], ["lizard"])
    assert (
        actor.encoding
        == open_(Tabular(actions=MOVES)).encoding
        != open_(Tabular(actions=MOVES[::-1])).encoding
    )


def test_weights_are_read_back_exactly(tmp_path):
    logits_A = np.array([0.1, -1e-17, 300.0])
    write_policy(tmp_path, logits_A)
    assert np.array_equal(read_policy(tmp_path), logits_A)
    expected_A = np.exp(logits_A - 300)
    np.testing.assert_allclose(
        open_(Tabular(logits=(5.0, 0.0, 0.0)), tmp_path).probabilities(MOVES), expected_A
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no tabular policy"),
        ("{", "no tabular policy"),
        ("{}", "no tabular policy"),
        (json.dumps({"logits": [1, None]}), "finite numbers"),
        (json.dumps({"logits": []}), "finite numbers"),
        (json.dumps({"logits": [1, 2]}), " 2 moves.* 3"),
    ],
)
def test_wrong_weights_are_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "policy.json").write_text(text)
    with pytest.raises(ModelError, match=message):
        open_(Tabular(), tmp_path).probabilities(MOVES)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"logits": [0], "probabilities": [1]}, "not both"),
        ({"logits": [0, float("inf")]}, "finite number"),
        ({"probabilities": [0.5, 0.4]}, "add up to 1, not 0.9"),
        ({"probabilities": [1.5, -0.5]}, "must not be negative"),
        ({"logit": [0]}, "did you mean 'logits'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Player.build({"kind": "tabular", **settings})


def test_games_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match=r" 2 moves.* 3"):
        open_(Tabular(logits=(0.0, 0.0))).act([View(actions=MOVES)], [0])
    with pytest.raises(ConfigError, match="needs a finite game"):
        open_(Tabular()).act([View()], [0])
