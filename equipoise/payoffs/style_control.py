"""Win rates with what style buys taken out: Arena-Hard's style-controlled Bradley–Terry.

    logit P(model m beats the baseline on prompt i) = θ_m + Σ_f φ_f · z_if

z are the differences in style between the two answers, θ the strengths that are left. The win rate
of m is 1/(1 + exp(−θ_m)).

Source: Li, Angelopoulos and Chiang 2024, Does style matter? Disentangling style and substance in
Chatbot Arena (LMSYS blog, 28 August 2024), and the script `show_result.py` of arena-hard-auto
(version 2). The features are relative differences:

    length                (a − b)/(a + b)
    each kind of markup   (a/(len a + 1) − b/(len b + 1)) / (their sum + 1)

in units of their standard deviation over the comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.resampling import resampled_bounds

CODE = re.compile(r"```[^`]*```")
HEADERS = re.compile(r"^#{1,6}\s", re.MULTILINE)
LISTS = re.compile(r"^\s*(?:\d+\.|[-*+])\s", re.MULTILINE)
BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
FEATURES = ("length", "headers", "lists", "bold")


def style(text: str) -> tuple[int, ...]:
    """(length, headers, list items, bold passages) of an answer.

    Length is in words and single marks, which stand for tokens; the rest is Markdown outside blocks
    of code.
    """
    prose = CODE.sub("", text)
    length = len(re.findall(r"\w+|[^\w\s]", text))
    counts = [len(pattern.findall(prose)) for pattern in (HEADERS, LISTS, BOLD)]
    return length, *counts


def style_differences(
    style_BF: Sequence[Sequence[float]] | np.ndarray,
    baseline_style_BF: Sequence[Sequence[float]] | np.ndarray,
) -> np.ndarray:
    """The relative differences [B, F] in style of answers and the baseline's, both as `style`
    counts them: the length first, then kinds of markup.
    """
    own_BF = np.asarray(style_BF, float)
    base_BF = np.asarray(baseline_style_BF, float)
    if own_BF.shape != base_BF.shape or own_BF.ndim != 2:
        raise ValueError(f"styles of unequal shapes {own_BF.shape}, {base_BF.shape}")
    sum_B = own_BF[:, 0] + base_BF[:, 0]
    length_B = (own_BF[:, 0] - base_BF[:, 0]) / np.where(sum_B > 0, sum_B, 1)
    own_density = own_BF[:, 1:] / (own_BF[:, :1] + 1)
    base_density = base_BF[:, 1:] / (base_BF[:, :1] + 1)
    density = (own_density - base_density) / (own_density + base_density + 1)
    return np.concatenate([length_B[:, None], density], axis=1)


@dataclass(frozen=True)
class StyleControlled:
    """Win rates against the baseline as if styles were equal, and what style is worth.

    `win_rates` by model lie in [0, 1]; `style_F` are nats per standard deviation of each feature.
    """

    win_rates: dict[str, float]
    style_F: np.ndarray


def style_controlled(
    models: Sequence[str],
    score_B: Sequence[float] | np.ndarray,
    difference_BF: np.ndarray,
    *,
    centred: bool = False,
) -> StyleControlled:
    """The style-controlled win rate of each model over the common baseline.

    Args: models: whose answer each of B comparisons is about; score_B: 1 it won, 0 it lost, ½ a
    tie; difference_BF: as `style_differences` gives them; centred: take the mean difference over
    all comparisons out of the features, as arena-hard-auto does. That is for many models at once:
    of one model alone it would take out what sets the model's style apart, and so control for
    nothing.

    A feature that never differs has weight 0. Raises ValueError for scores outside [0, 1] or
    unequal numbers of rows.
    """
    score_B = np.asarray(score_B, float)
    if not (len(models) == len(score_B) == len(difference_BF)) or not len(models):
        raise ValueError(
            f"{len(models)} models, {len(score_B)} scores and {len(difference_BF)} "
            "rows of style: they must be as many, and some"
        )
    if not ((score_B >= 0) & (score_B <= 1)).all():
        raise ValueError("scores must lie in [0, 1], without NaN")
    names = sorted(set(models))
    place = {name: n for n, name in enumerate(names)}
    own_BN = np.eye(len(names))[[place[model] for model in models]]
    z_BF = _in_deviations(np.asarray(difference_BF, float), centred)
    weight = _fit(np.concatenate([own_BN, z_BF], axis=1), score_B)
    rates = expit(weight[: len(names)])
    by_name = dict(zip(names, map(float, rates), strict=True))
    return StyleControlled(by_name, weight[len(names) :])


def style_controlled_interval(
    score_B: Sequence[float] | np.ndarray,
    difference_BF: np.ndarray,
    prompts: Sequence[Hashable],
    *,
    resamples: int = 200,
    seed: int = 0,
) -> Interval:
    """The style-controlled win rate of one model, with a 95 % percentile interval by fitting anew
    on draws of the prompts; all comparisons of a prompt are drawn together.

    `prompts` says which prompt each comparison is of. Raises what `style_controlled` does.
    """
    score_B = np.asarray(score_B, float)

    def rate(rows: np.ndarray) -> float:
        rows_of = ["model"] * len(rows)
        drawn = style_controlled(rows_of, score_B[rows], difference_BF[rows])
        return drawn.win_rates["model"]

    every = np.arange(len(score_B))
    low, high = resampled_bounds(prompts, rate, resamples, seed)
    return Interval(rate(every), low, high, len(set(prompts)))


def _in_deviations(difference_BF: np.ndarray, centred: bool) -> np.ndarray:
    """The features in units of their standard deviation; 0 where they never differ."""
    if len(difference_BF) < 2:
        return np.zeros_like(difference_BF)
    spread_F = difference_BF.std(axis=0, ddof=1)
    if centred:
        difference_BF = difference_BF - difference_BF.mean(axis=0)
    # A feature without spread cannot be told from strength: it explains nothing.
    return np.where(spread_F > 0, difference_BF / np.where(spread_F > 0, spread_F, 1), 0)


def _fit(feature_BW: np.ndarray, score_B: np.ndarray) -> np.ndarray:
    """The weights of greatest likelihood, without a penalty; where there is none (a model that
    always won), weights that are large enough to say so.
    """

    def loss(weight_W: np.ndarray) -> tuple[float, np.ndarray]:
        logit_B = feature_BW @ weight_W
        value = np.logaddexp(0, logit_B).sum() - score_B @ logit_B
        return float(value), feature_BW.T @ (expit(logit_B) - score_B)

    start = np.zeros(feature_BW.shape[1])
    options = {"maxiter": 500, "gtol": 1e-8, "ftol": 1e-14}
    return minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
