"""The length-controlled win rate against the published package's own numbers, which
`alpaca_eval_oracle` wrote.
"""

import json

import numpy as np
import pytest

from equipoise.payoffs.controlled_win_rates import (
    Anchors,
    length_controlled,
    length_controlled_interval,
)
from tests.payoffs.alpaca_eval_oracle import CASES, FOLDER, Case, case

pytest.importorskip("sklearn")
GOLDEN = json.loads(FOLDER.read_text(encoding="utf-8"))


def ours(data: Case, form: str):
    anchors = Anchors(data.anchor_preference_A, data.anchor_length_A, data.anchor_difficulty_A)
    return length_controlled(
        data.preference_B,
        data.length_B,
        data.baseline_length_B,
        difficulty_B=None if form == "minimal" else data.difficulty_B,
        anchors=anchors if form == "v1" else None,
    )


@pytest.mark.long
@pytest.mark.parametrize("form", ["v1", "noreg", "minimal"])
@pytest.mark.parametrize("name", CASES)
def test_the_published_package_gives_the_same(name: str, form: str):
    golden = GOLDEN[name][form]
    result = ours(case(name), form)
    assert 100 * result.raw == pytest.approx(golden["win_rate"], abs=1e-9)
    win_rate = golden["length_controlled_winrate"]
    assert 100 * result.win_rate == pytest.approx(win_rate, abs=1e-6)
    assert 100 * result.spread == pytest.approx(golden["lc_standard_error"], abs=1e-6)
    weights = (result.length, result.difficulty, result.model)
    wanted = [golden[key] for key in ("length", "difficulty", "model")]
    assert weights == pytest.approx(wanted, abs=1e-6)


@pytest.mark.long
def test_what_length_bought_is_taken_back():
    data = case("long winded")  # the model is worse than the baseline, but longer
    result = ours(data, "noreg")
    assert result.raw > 0.5 > result.win_rate
    interval = length_controlled_interval(
        data.preference_B,
        data.length_B,
        data.baseline_length_B,
        difficulty_B=data.difficulty_B,
        resamples=20,
    )
    assert interval.low < interval.mean == result.win_rate < interval.high


def test_the_two_sides_add_up_to_one():
    data = case("terse and good")
    there = length_controlled(data.preference_B, data.length_B, data.baseline_length_B)
    back = length_controlled(1 - data.preference_B, data.baseline_length_B, data.length_B)
    assert there.win_rate + back.win_rate == pytest.approx(1, abs=1e-3)


def test_answers_of_equal_lengths_keep_their_rate():
    won = (np.random.default_rng(0).random(200) < 0.7).astype(float)
    length = np.full(len(won), 100)
    result = length_controlled(won, length, length)
    assert result.win_rate == pytest.approx(result.raw, abs=0.01)


def test_a_penalty_that_leaves_no_weight_has_no_interval():
    won = np.array([0.5, 0.49, 0.5, 0.51, 0.5, 0.5])
    interval = length_controlled_interval(won, np.arange(6), np.full(6, 2))
    assert interval.mean == 0.5
    assert np.isnan(interval.low)


@pytest.mark.parametrize(
    ("preference", "message"),
    [([0.5] * 3, "needs 5 prompts"), ([2.0] * 9, r"must lie in \[0, 1\]")],
)
def test_what_cannot_be_fitted_is_refused(preference: list[float], message: str):
    lengths = np.arange(len(preference))
    with pytest.raises(ValueError, match=message):
        length_controlled(np.array(preference), lengths, lengths + 1)


@pytest.mark.long
def test_more_answers_to_the_same_prompts_narrow_nothing():
    dice = np.random.default_rng(0)
    columns = [(dice.random(40) < 0.8) * 1.0, *dice.integers(50, 500, (2, 40)) * 1.0]
    one = length_controlled_interval(*columns, resamples=60)
    repeated = (np.repeat(column, 4) for column in columns)
    prompts = np.repeat(range(40), 4).tolist()
    four = length_controlled_interval(*repeated, prompts=prompts, resamples=60)
    assert four.n == 40
    assert four.high - four.low == pytest.approx(one.high - one.low, rel=0.1)
