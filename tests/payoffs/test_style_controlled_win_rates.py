"""Style-controlled win rates on comparisons whose answer is known, and against scikit-learn's
logistic regression without a penalty.
"""

import numpy as np
import pytest

from equipoise.payoffs.controlled_win_rates import (
    strength_is_identified,
    style,
    style_controlled,
    style_controlled_interval,
    style_differences,
)


def comparisons(skill: float, taste: float, longer: float, seed: int = 0):
    """(scores, styles, the baseline's styles) of 600 comparisons in which the judge likes length."""
    dice = np.random.default_rng(seed)
    base = np.stack([dice.integers(50, 400, 600), *dice.integers(0, 9, (3, 600))], 1)
    factor = np.exp(dice.normal(longer, 0.4, 600))[:, None]
    own = np.round(base * [1, 0, 0, 0] * factor) + np.stack(
        [np.zeros(600), *dice.integers(0, 9, (3, 600))], 1
    )
    relative = (own[:, 0] - base[:, 0]) / (own[:, 0] + base[:, 0])
    logit = skill + taste * relative / relative.std(ddof=1)
    score = (dice.random(600) < 1 / (1 + np.exp(-logit))).astype(float)
    return score, own, base


def test_style_counts_markdown_outside_code():
    text = "# Title\n\n1. one\n- **two** and __three__\n```\n# no header\n- no list\n```\n"
    length, headers, lists, bold = style(text)
    assert (headers, lists, bold) == (1, 2, 2)
    assert length > style("Title one")[0] == 2


def test_what_style_bought_is_taken_back():
    score, own, base = comparisons(skill=-0.4, taste=1.2, longer=0.5)
    difference = style_differences(own, base)
    result = style_controlled(["m"] * 600, score, difference)
    assert score.mean() > 0.5
    assert result.win_rates["m"] == pytest.approx(1 / (1 + np.exp(0.4)), abs=0.06)
    assert result.style_F[0] == pytest.approx(1.2, abs=0.25)
    prompts = np.repeat(np.arange(300), 2).tolist()
    interval = style_controlled_interval(score, difference, prompts, resamples=40)
    assert interval.low < interval.mean == result.win_rates["m"] < interval.high
    assert interval.n == 300


def test_many_models_at_once_as_logistic_regression_has_it():
    linear_model = pytest.importorskip("sklearn.linear_model")
    models, scores, differences = [], [], []
    for seed, (name, skill) in enumerate({"a": 0.5, "b": -0.2, "c": 0.0}.items()):
        score, own, base = comparisons(skill, 0.8, 0.2 * seed, seed)
        models += [name] * 600
        scores.append(score)
        differences.append(style_differences(own, base))
    score, difference = np.concatenate(scores), np.concatenate(differences)
    result = style_controlled(models, score, difference)
    z = difference / difference.std(0, ddof=1)
    own = np.stack([np.array(models) == name for name in "abc"], 1)
    other = linear_model.LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-8)
    weight = other.fit(np.concatenate([own, z], 1), score).coef_[0]
    rates = 1 / (1 + np.exp(-weight[:3]))
    assert list(result.win_rates.values()) == pytest.approx(rates, abs=1e-4)
    assert result.style_F == pytest.approx(weight[3:], abs=1e-3)


def test_of_one_model_alone_centring_would_control_for_nothing():
    score, own, base = comparisons(skill=0.0, taste=1.5, longer=0.6)
    difference = style_differences(own, base)
    kept = style_controlled(["m"] * 600, score, difference).win_rates["m"]
    centred = style_controlled(["m"] * 600, score, difference - difference.mean(0))
    assert abs(kept - 0.5) < 0.08 < abs(centred.win_rates["m"] - 0.5)


def test_a_model_that_always_wins_and_equal_styles():
    difference = style_differences([[10, 0, 0, 0]] * 30, [[10, 0, 0, 0]] * 30)
    always = style_controlled(["m"] * 30, np.ones(30), difference)
    assert always.win_rates["m"] > 0.999
    half = style_controlled(["m"] * 30, [0, 1] * 15, difference)
    assert half.win_rates["m"] == pytest.approx(0.5)
    with pytest.raises(ValueError, match="scores must lie"):
        style_controlled(["m"] * 30, [2.0] * 30, difference)


@pytest.mark.parametrize(
    ("own", "base"), [(11, 10), (3, 2), (101, 100), (7, 6), (50, 49), (8, 15), (13, 11)]
)
def test_a_constant_difference_in_style_leaves_the_win_rate(own, base):
    """Its deviation is 1e-17 and not 0, by the rounding of the mean."""
    score_B = np.array([1.0] * 27 + [0.0] * 13)
    difference_BF = style_differences([(own, 1)] * 40, [(base, 2)] * 40)
    interval = style_controlled_interval(score_B, difference_BF, range(40), resamples=100)
    assert interval.mean == pytest.approx(0.675, abs=1e-4)
    assert interval.low < 0.6
    assert interval.high > 0.75
    rates = style_controlled(["m"] * 40, score_B, difference_BF)
    assert rates.style_F.tolist() == [0.0, 0.0]


def test_strength_is_told_from_style_only_by_comparisons_that_overlap():
    score, own, base = comparisons(0.3, 1.0, 0.2)
    assert strength_is_identified(score, style_differences(own, base))
    longer = np.array([[0.1], [0.2], [0.3], [0.5]])
    assert not strength_is_identified(np.array([0, 0, 1, 1]), longer)  # the longer one always won
    assert not strength_is_identified(np.array([0, 0.5, 1, 1]), longer)
    assert strength_is_identified(np.array([0, 1, 0, 1]), np.array([[0.1], [0.2], [0.5], [0.3]]))
    assert strength_is_identified(np.array([0.25, 0.75, 1.0]), longer[[0, 1, 3]])
    assert not strength_is_identified(np.array([0.25, 0.75]), longer[:2])  # two weights fit both
    assert strength_is_identified(np.ones(4), longer)  # it won whatever the style
