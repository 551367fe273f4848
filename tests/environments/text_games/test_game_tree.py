"""A game written down: values, mixtures and NashConv against OpenSpiel's own."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.environments.text_games.game_tree import GameTree
from equipoise.environments.text_games.nash_conv import NashConvBenchmark
from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.errors import ConfigError, DataError

pyspiel = pytest.importorskip("pyspiel")
KUHN = GameTree.of(OpenSpiel(), 1000)


def random_policies(tree: GameTree, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    size = len(tree.state_F)
    return [tree.normalise(rng.random(size) ** 2) for _ in range(count)]


def as_library(tree: GameTree, policy_F: np.ndarray):
    """The policy as OpenSpiel's own class for Python."""
    from open_spiel.python.policy import TabularPolicy

    table = TabularPolicy(tree.game.spiel)
    for state in tree.states:
        row = table.policy_for_key(state.key)
        row[:] = 0
        for place, move in enumerate(state.moves):
            row[move] = policy_F[state.first + place]
    return table


@pytest.mark.parametrize(
    ("name", "states", "ends", "uniform"),
    [
        ("kuhn_poker", 12, 30, 11 / 12),
        ("matrix_rps", 2, 9, 0),
        ("matrix_pd", 2, 4, 3),  # by defecting each gets 11/2 instead of 16/4
    ],
)
def test_small_games_are_written_down_whole(name, states, ends, uniform):
    tree = GameTree.of(OpenSpiel(name=name), 1000)
    assert len(tree.states) == states
    assert len(tree.chance_Z) == ends
    assert tree.chance_Z.sum() > 0
    uniform_F = tree.uniform()
    assert tree.nash_conv([uniform_F, uniform_F]) == pytest.approx(uniform)


def test_values_and_nash_conv_are_the_librarys():
    from open_spiel.python.algorithms.expected_game_score import policy_value
    from open_spiel.python.algorithms.exploitability import nash_conv

    first_F, second_F = random_policies(KUHN, 2)
    libraries = [as_library(KUHN, policy_F) for policy_F in (first_F, second_F)]
    start = KUHN.game.spiel.new_initial_state()
    own = KUHN.values([first_F, second_F])
    assert own == pytest.approx(policy_value(start, libraries))
    swapped = KUHN.values([second_F, first_F])
    table_NN = KUHN.payoffs([first_F, second_F])
    assert table_NN[0, 1] == pytest.approx((own[0] + swapped[1]) / 2)
    assert table_NN == pytest.approx(-table_NN.T)
    assert KUHN.nash_conv([first_F, first_F]) == pytest.approx(
        nash_conv(KUHN.game.spiel, libraries[0])
    )


def test_a_mixture_plays_as_one_of_its_members_drawn_beforehand():
    policies = random_policies(KUHN, 3)
    weight_N = np.array([0.5, 0.3, 0.2])
    mixed_F = KUHN.mixture(np.stack(policies), weight_N)
    for other_F in random_policies(KUHN, 6)[3:]:
        means = sum(
            weight * KUHN.values([policy_F, other_F])
            for weight, policy_F in zip(weight_N, policies, strict=True)
        )
        assert KUHN.values([mixed_F, other_F]) == pytest.approx(means)
        plain_F = weight_N @ np.stack(policies)
        assert KUHN.values([plain_F, other_F]) != pytest.approx(means)


def test_a_mixture_is_the_librarys():
    from open_spiel.python.algorithms.policy_aggregator import PolicyAggregator

    policies = random_policies(KUHN, 3)
    weight_N = np.array([0.5, 0.3, 0.2])
    mixed_F = KUHN.mixture(np.stack(policies), weight_N)
    library = PolicyAggregator(KUHN.game.spiel).aggregate(
        [0, 1], [[as_library(KUHN, policy_F) for policy_F in policies]] * 2, [weight_N.tolist()] * 2
    )
    for state in KUHN.states:
        expected = library.policy[state.player][state.key]
        for place, move in enumerate(state.moves):
            assert mixed_F[state.first + place] == pytest.approx(expected[move])


def test_a_mixture_of_pure_policies_that_never_get_to_a_state_is_their_mean():
    passes_F = np.tile([1.0, 0.0], 12)
    mixed_F = KUHN.mixture(np.stack([passes_F, passes_F]), np.array([0.5, 0.5]))
    assert mixed_F == pytest.approx(passes_F)


def test_three_players_are_measured():
    tree = GameTree.of(OpenSpiel(players=3), 10_000)
    uniform_F = tree.uniform()
    spiel = tree.game.spiel
    expected = pyspiel.nash_conv(spiel, pyspiel.UniformRandomPolicy(spiel), True)
    assert tree.nash_conv([uniform_F] * 3) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("leduc_poker", "more than 500 positions"),
        ("liars_dice_ir", "forget|more than|what its players know"),
    ],
)
def test_games_that_cannot_be_written_down_are_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        GameTree.of(OpenSpiel(name=name), 500)


def test_a_game_that_does_not_say_what_players_know_is_refused():
    """And one that is too large, before it is written down."""
    with pytest.raises(ConfigError, match=r"^pig: OpenSpiel does not say what its players know"):
        GameTree.of(OpenSpiel(name="pig"), 1000)
    with pytest.raises(ConfigError):
        GameTree.of(OpenSpiel(), 10)


def test_a_set_of_exact_gains_needs_a_game_of_open_spiel():
    benchmark = NashConvBenchmark.model_validate({"game": {"kind": "answers", "samples": 2}})
    with pytest.raises(DataError, match="'nash_conv' needs a game of open_spiel, not 'answers'"):
        benchmark.items()
