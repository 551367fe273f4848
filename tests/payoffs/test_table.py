"""The pay-off table: means, clustered errors, and what is missing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import sem

from equipoise.errors import NoSignal
from equipoise.payoffs.table import Meeting, tally

NAMES = ["a", "b", "c"]
results = st.builds(
    Meeting,
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.none() | st.sampled_from([-1.0, 0.0, 0.25, 1.0]),
    st.sampled_from(["", "p", "q", "r"]),
)


def test_means_counts_and_unjudged_by_hand():
    table = tally(
        [
            Meeting("a", "b", 1.0),
            Meeting("b", "a", 0.5),
            Meeting("a", "b", None),
            Meeting("a", "c", -1.0),
        ]
    )
    assert table.players == ["a", "b", "c"]
    assert table.payoff_NN[0, 1] == pytest.approx((1.0 - 0.5) / 2)
    assert table.payoff_NN[1, 0] == pytest.approx(-0.25)
    assert table.payoff_NN[2, 0] == 1.0
    assert np.isnan(table.payoff_NN[1, 2])
    assert table.count_NN.tolist() == [[0, 2, 1], [2, 0, 0], [1, 0, 0]]
    assert table.unjudged_NN.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_a_general_sum_table_keeps_each_direction_apart():
    table = tally(
        [Meeting("a", "b", 5.0), Meeting("b", "a", 3.0), Meeting("a", "a", 1.0)], constant_sum=False
    )
    assert np.array_equal(table.payoff_NN, [[1.0, 5.0], [3.0, np.nan]], equal_nan=True)


def test_against_itself_a_player_of_a_constant_sum_game_gets_nothing():
    table = tally([Meeting("a", "a", 1.0), Meeting("a", "a", 1.0), Meeting("a", "a", None)])
    assert table.payoff_NN.tolist() == [[0.0]]
    assert table.se_NN.tolist() == [[0.0]]
    assert table.count_NN.tolist() == [[2]]


def test_standard_error_without_clusters_is_the_usual_one():
    values = np.random.default_rng(0).normal(size=50)
    table = tally([Meeting("a", "b", v) for v in values], constant_sum=False)
    assert table.se_NN[0, 1] == pytest.approx(sem(values))


def test_standard_error_of_equal_clusters_is_that_of_their_means():
    value_GR = np.random.default_rng(1).normal(size=(20, 4))
    table = tally(
        Meeting("a", "b", v, f"prompt {g}") for g, row in enumerate(value_GR) for v in row
    )
    assert table.se_NN[0, 1] == table.se_NN[1, 0] == pytest.approx(sem(value_GR.mean(1)))
    assert table.clusters_NN.tolist() == [[0, 20], [20, 0]]


def test_standard_error_of_unequal_clusters_by_hand():
    table = tally([Meeting("a", "b", v, c) for v, c in [(1, "p"), (1, "p"), (0, "q"), (0, "r")]])
    assert table.payoff_NN[0, 1] == 0.5
    assert table.se_NN[0, 1] == pytest.approx(np.sqrt(3 / 2 * (1.0**2 + 0.5**2 + 0.5**2) / 4**2))


@pytest.mark.long
def test_clustered_intervals_cover_where_plain_ones_do_not():
    rng = np.random.default_rng(2)
    covered = {True: 0, False: 0}
    for _ in range(200):
        value_GR = rng.normal(size=(40, 1)) + 0.1 * rng.normal(size=(40, 5))
        for clustered in covered:
            table = tally(
                Meeting("a", "b", v, str(g) if clustered else "")
                for g, row in enumerate(value_GR)
                for v in row
            )
            covered[clustered] += abs(table.payoff_NN[0, 1]) < 1.96 * table.se_NN[0, 1]
    assert covered[True] >= 180 > 140 > covered[False]


def test_too_few_clusters_have_no_standard_error():
    table = tally([Meeting("a", "b", 1.0, "p"), Meeting("a", "b", 0.0, "p")])
    assert np.isnan(table.se_NN[0, 1])


def test_effective_size_lies_between_prompts_and_meetings():
    copies = tally(
        Meeting("a", "b", v, str(p)) for p, v in enumerate([1, -1, 1, 1] * 10) for _ in range(8)
    )
    assert copies.effective_NN[0, 1] == pytest.approx(40, rel=0.03)
    single = tally(Meeting("a", "b", v) for v in [1, -1, 1, 1] * 10)
    assert single.effective_NN[0, 1] == pytest.approx(40)
    mixed = tally(Meeting("a", "b", v, str(p)) for p in range(40) for v in [1, -1])
    assert mixed.effective_NN[0, 1] == pytest.approx(40)  # a standard error of 0 promises nothing
    assert single.effective_NN[0, 0] == 0


def test_a_solver_is_told_which_pair_never_met():
    table = tally([Meeting("a", "b", 1.0), Meeting("b", "c", None)])
    with pytest.raises(NoSignal, match=r"'a' and 'c' .*\(0 unjudged; 4 of 9"):
        table.complete()
    assert table.filled(0.0).tolist() == [[0, 1, 0], [-1, 0, 0], [0, 0, 0]]
    assert np.isnan(table.payoff_NN[0, 2])


def test_listed_players_keep_their_order_and_may_never_meet():
    table = tally([Meeting("a", "b", 1.0)], players=["c", "b", "a"])
    assert table.players == ["c", "b", "a"]
    assert table.payoff_NN[2, 1] == 1.0
    assert np.isnan(table.payoff_NN[0, 1])
    with pytest.raises(ValueError, match="'d'"):
        tally([Meeting("a", "d", 1.0)], players=["a"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_not_taken_for_unjudged(value):
    with pytest.raises(ValueError, match="must be finite, or None"):
        tally([Meeting("a", "b", value)])


def test_no_meetings():
    table = tally([], players=["a", "b"])
    assert np.isnan(table.payoff_NN[0, 1])
    assert tally([]).complete().shape == (0, 0)


@pytest.mark.long
@settings(deadline=None)
@given(st.lists(results), st.randoms(use_true_random=False))
def test_the_order_of_meetings_changes_nothing(meetings, random):
    mixed = list(meetings)
    random.shuffle(mixed)
    first, second = tally(meetings, players=NAMES), tally(mixed, players=NAMES)
    for name in ("payoff_NN", "count_NN", "unjudged_NN", "clusters_NN", "se_NN"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), atol=1e-12)


@pytest.mark.long
@settings(deadline=None)
@given(st.lists(results))
def test_a_constant_sum_table_is_antisymmetric(meetings):
    table = tally(meetings, players=NAMES)
    np.testing.assert_array_equal(table.payoff_NN, -table.payoff_NN.T)
    np.testing.assert_array_equal(table.se_NN, table.se_NN.T)
    np.testing.assert_array_equal(table.count_NN, table.count_NN.T)
