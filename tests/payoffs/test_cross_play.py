"""From scores to preference pay-offs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.payoffs.table import Meeting, cross_play, cross_play_by_prompt, preference, tally

score = st.none() | st.sampled_from([-2.0, 0.0, 1.0, 3.5])
answers = st.dictionaries(st.sampled_from(["p", "q", "r"]), st.lists(score, max_size=4), max_size=3)
leagues = st.dictionaries(st.sampled_from(["a", "b", "c"]), answers, max_size=3)


def meetings(scores):
    """All answer pairs, one by one: the slow definition that cross_play is held against."""
    players = list(scores)
    for i, first in enumerate(players):
        for second in players[:i]:
            for prompt in scores[first]:
                for a in scores[first][prompt]:
                    for b in scores[second].get(prompt, ()):
                        yield Meeting(first, second, preference(a, b), prompt)


def test_meeting():
    assert (preference(2, 1), preference(1, 1), preference(-3, 1)) == (1.0, 0.0, -1.0)
    assert preference(None, 1) is None
    assert preference(1, None) is None
    assert preference(None, None) is None
    with pytest.raises(ValueError, match="must be finite"):
        preference(float("nan"), None)


def test_cross_play_by_hand():
    table = cross_play(
        {"a": {"p": [1, 3], "q": [0, None], "r": [9]}, "b": {"p": [2, 2], "q": [0, -1]}}
    )
    # p: 1<2 twice, 3>2 twice -> 0. q: a tie and a win of the judged answer -> 1/2. r: b did not
    # answer.
    assert table.payoff_NN.tolist() == [[0.0, 0.25], [-0.25, 0.0]]
    assert table.count_NN.tolist() == [[0, 6], [6, 0]]
    assert table.unjudged_NN.tolist() == [[0, 2], [2, 0]]
    assert table.clusters_NN.tolist() == [[0, 2], [2, 0]]
    assert table.se_NN[0, 1] == pytest.approx(np.std([0, 0.5], ddof=1) / np.sqrt(2))


def test_by_prompt_one_player_gets_what_the_other_pays():
    payoff_PNN = cross_play_by_prompt(
        {"a": {"p": [1, 3], "q": [0, None], "r": [9]}, "b": {"p": [2, 2], "q": [0, -1]}}
    )
    np.testing.assert_array_equal(payoff_PNN[:, 0, 1], [0.0, 0.5, np.nan])
    np.testing.assert_array_equal(payoff_PNN[:, 1, 0], [0.0, -0.5, np.nan])


def test_cross_play_equals_the_tally_of_all_meetings():
    rng = np.random.default_rng(0)
    scores = {name: {str(p): rng.integers(0, 4, 3).tolist() for p in range(30)} for name in "abcd"}
    fast, slow = cross_play(scores), tally(meetings(scores), players=list("abcd"))
    for name in ("payoff_NN", "count_NN", "unjudged_NN", "clusters_NN", "se_NN"):
        np.testing.assert_allclose(
            getattr(fast, name), getattr(slow, name), atol=1e-12, err_msg=name
        )


@pytest.mark.long
@settings(deadline=None)
@given(leagues)
def test_counts_are_those_of_all_meetings(scores):
    fast, slow = cross_play(scores), tally(meetings(scores), players=list(scores))
    np.testing.assert_array_equal(fast.count_NN, slow.count_NN)
    np.testing.assert_array_equal(fast.unjudged_NN, slow.unjudged_NN)
    np.testing.assert_array_equal(np.isnan(fast.payoff_NN), np.isnan(slow.payoff_NN))
    np.testing.assert_array_equal(fast.payoff_NN, -fast.payoff_NN.T)
    assert (np.abs(fast.filled(0.0)) <= 1).all()


@pytest.mark.long
@settings(deadline=None)
@given(leagues)
def test_only_the_order_of_scores_counts(scores):
    warped = {
        player: {
            prompt: [None if s is None else s**3 + 7 for s in row]
            for prompt, row in by_prompt.items()
        }
        for player, by_prompt in scores.items()
    }
    np.testing.assert_array_equal(cross_play(scores).payoff_NN, cross_play(warped).payoff_NN)


def test_win_probability_is_recovered_from_noisy_scores():
    rng = np.random.default_rng(1)
    scores = {
        name: {str(p): rng.normal(shift, 1, 4).tolist() for p in range(2000)}
        for name, shift in (("a", 0.5), ("b", 0))
    }
    table = cross_play(scores)
    expected = 2 * 0.6381631950841185 - 1  # 2·Φ(0.5/√2) − 1
    assert abs(table.payoff_NN[0, 1] - expected) < 3 * table.se_NN[0, 1] < 0.05


def test_a_score_that_is_no_number_names_player_and_prompt():
    with pytest.raises(ValueError, match="'a', prompt 'p'"):
        cross_play({"a": {"p": [1.0, float("nan")]}, "b": {"p": [1.0]}})


def test_players_without_a_common_prompt_never_met():
    table = cross_play({"a": {"p": [1]}, "b": {"q": [1]}})
    assert np.isnan(table.payoff_NN[0, 1])
    assert table.count_NN.sum() == 0
