"""Win rates at the baseline's length (AlpacaEval) or in its style (Arena-Hard).

Judges prefer longer answers, so a win rate can be bought with words. A regression takes what length
explains out of it:

    logit P(model beats baseline on prompt i) = θ + ψ·γ_i + φ·tanh((l_i − b_i)/s)

with the lengths l of the model's answer and b of the baseline's, s the standard deviation of their
differences over the prompts, and γ_i the difficulty of the prompt. The win rate that is reported is
the mean of the prediction with the last term at 0. Only the difference of the lengths enters, so a
rate of ½ is kept, and the rate of "model against baseline" is 1 less that of "baseline against
model". Source: Dubois, Galambosi, Liang and Hashimoto 2024, Length-Controlled AlpacaEval,
arXiv:2404.04475, equation 1, and the fit of the package alpaca-eval 0.6.6: L1 penalty without an
intercept of its own, its strength chosen by five folds over the prompts.

Style likewise, with all models in one regression:

    logit P(model m beats the baseline on prompt i) = θ_m + Σ_f φ_f · z_if

z are the differences in style between the two answers, θ the strengths that are left. The win rate
of m is 1/(1 + exp(−θ_m)). The features are relative differences in units of their standard
deviation over the comparisons:

    length                (a − b)/(a + b)
    each kind of markup   (a/(len a + 1) − b/(len b + 1)) / (their sum + 1)

Source: Li, Angelopoulos and Chiang 2024, Does style matter? Disentangling style and substance in
Chatbot Arena (LMSYS blog, 28 August 2024), and the script `show_result.py` of arena-hard-auto
(version 2).
"""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.special import expit

from equipoise.errors import ConfigError
from equipoise.payoffs.deviation import standard_deviation
from equipoise.payoffs.intervals import Interval, resampled_bounds

STRENGTHS = np.logspace(-4, 4, 10)  # of the penalty's inverse, as published
ANCHOR_WEIGHT = 0.2  # of all anchors beside the model's own prompts, as published
SOLVER = {"solver": "liblinear", "fit_intercept": False, "random_state": 123}
EPSILON = 1e-15


@dataclass(frozen=True)
class Anchors:
    """Judged answers of baselines told to be short or long: AlpacaEval's `df_gamed.csv`.

    They show the worth of length whatever the model. `preference_A` in [0, 1]: P(beats the plain
    baseline); `length_A`: difference in length, in standard deviations; `difficulty_A`: that of
    their prompts; `kinds`: how many such baselines there are.
    """

    preference_A: np.ndarray
    length_A: np.ndarray
    difficulty_A: np.ndarray
    kinds: int = 2


@dataclass(frozen=True)
class LengthControlled:
    """A model's win rate by the regression.

    `win_rate` in [0, 1] is the length-controlled one, `raw` the plain one. `prediction_B` is the
    prediction for each prompt at equal lengths, `spread` the standard error of its mean (the
    package's `lc_standard_error`): how much prompts differ, not how well the regression is known.
    `model`, `difficulty` and `length` are θ, ψ and φ; `strength` is the inverse of the penalty.
    """

    win_rate: float
    raw: float
    prediction_B: np.ndarray
    spread: float
    model: float
    difficulty: float
    length: float
    strength: float


def length_controlled(
    preference_B: np.ndarray,
    length_B: np.ndarray,
    baseline_length_B: np.ndarray,
    *,
    difficulty_B: np.ndarray | None = None,
    anchors: Anchors | None = None,
    folds: int = 5,
) -> LengthControlled:
    """The length-controlled win rate of a model over a baseline on B prompts.

    Args: preference_B: P(model beats baseline), ½ a tie; length_B, baseline_length_B: characters;
    difficulty_B: γ, None: no such term (`length_controlled_minimal`); anchors: answers that steady
    φ (`length_controlled_v1`, with `difficulty_B`), None: `length_controlled_noreg`; folds: over
    prompts, to choose the penalty.

    Raises ValueError for a preference outside [0, 1], lengths of unequal number, fewer than `folds`
    prompts, or anchors without difficulties; ConfigError without scikit-learn.

    >>> wins_B, length_B = np.array([0.8, 0.8, 0.8, 0.2] * 5), np.array([70.0, 70, 70, 30] * 5)
    >>> result = length_controlled(wins_B, length_B, baseline_length_B=np.full(20, 50.0))
    >>> round(result.raw, 2), round(result.win_rate, 1)
    (0.65, 0.5)
    """
    data = _design(preference_B, length_B, baseline_length_B, difficulty_B, anchors)
    if len(data.preference_R) < folds:
        raise ValueError(
            f"a length-controlled win rate needs {folds} prompts or more; there are "
            f"{len(data.preference_R)}"
        )
    strength = _chosen_strength(data, folds)
    weight_F = _fit(data, strength)
    return _reported(data, weight_F, strength)


def length_controlled_interval(
    preference_B: np.ndarray,
    length_B: np.ndarray,
    baseline_length_B: np.ndarray,
    *,
    difficulty_B: np.ndarray | None = None,
    anchors: Anchors | None = None,
    prompts: Sequence[Hashable] | None = None,
    folds: int = 5,
    resamples: int = 200,
    seed: int = 0,
) -> Interval:
    """The length-controlled win rate with a 95 % percentile interval over draws of the prompts.

    The penalty is that of the whole data. NaN bounds where the penalty leaves no weight at all, and
    so a rate of ½ whatever the data say. All answers to one of `prompts` (None: one each) are drawn
    together. Arguments and errors as for `length_controlled`.

    >>> wins_B, length_B = np.array([0.8, 0.8, 0.8, 0.2] * 5), np.array([70.0, 70, 70, 30] * 5)
    >>> length_controlled_interval(wins_B, length_B, np.full(20, 50.0), resamples=2).n
    20
    """
    arguments = (preference_B, length_B, baseline_length_B)
    whole = length_controlled(*arguments, difficulty_B=difficulty_B, anchors=anchors, folds=folds)
    if not (whole.model or whole.length or whole.difficulty):
        return Interval(whole.win_rate, np.nan, np.nan, len(whole.prediction_B))
    columns = [np.asarray(column, float) for column in arguments]
    hard_B = None if difficulty_B is None else np.asarray(difficulty_B, float)

    def rate(rows_B: np.ndarray) -> float:
        wins, own, base = [column[rows_B] for column in columns]
        of_rows = None if hard_B is None else hard_B[rows_B]
        data = _design(wins, own, base, of_rows, anchors)
        return _reported(data, _fit(data, whole.strength), whole.strength).win_rate

    labels = range(len(columns[0])) if prompts is None else prompts
    low, high = resampled_bounds(labels, rate, resamples, seed)
    return Interval(whole.win_rate, low, high, len(set(labels)))


@dataclass(frozen=True)
class _Design:
    """The regression's rows R: the anchors, then from `first` the model's B prompts.

    `feature_RF`: length (the baseline's less the model's, in tanh), difficulty if any, the model's
    row.
    """

    feature_RF: np.ndarray
    preference_R: np.ndarray
    weight_R: np.ndarray
    first: int

    @property
    def has_difficulty(self) -> bool:
        return self.feature_RF.shape[1] == 3


def _design(
    preference_B: np.ndarray,
    length_B: np.ndarray,
    baseline_length_B: np.ndarray,
    difficulty_B: np.ndarray | None,
    anchors: Anchors | None,
) -> _Design:
    """The rows as the regression takes them. Raises ValueError."""
    preference_B = np.asarray(preference_B, float)
    difference_B = np.asarray(length_B, float) - np.asarray(baseline_length_B, float)
    if preference_B.shape != difference_B.shape or preference_B.ndim != 1:
        raise ValueError(f"{preference_B.shape} preferences but {difference_B.shape} lengths")
    if not ((preference_B >= 0) & (preference_B <= 1)).all():
        raise ValueError("preferences are probabilities: they must lie in [0, 1], without NaN")
    if anchors is not None and difficulty_B is None:
        raise ValueError("anchors have difficulties: give difficulty_B too")
    scaled_B = _in_deviations(difference_B)
    columns = [np.tanh(-scaled_B), np.ones_like(scaled_B)]
    if difficulty_B is not None:
        columns.insert(1, np.asarray(difficulty_B, float))
    feature_BF = np.stack(columns, axis=1)
    if anchors is None:
        return _Design(feature_BF, preference_B, np.ones(len(preference_B)), 0)
    anchor_AF = np.stack(
        [np.tanh(-anchors.length_A), anchors.difficulty_A, np.zeros(len(anchors.length_A))], axis=1
    )
    weight_A = np.full(len(anchor_AF), ANCHOR_WEIGHT / anchors.kinds)
    return _Design(
        np.concatenate([anchor_AF, feature_BF]),
        np.concatenate([anchors.preference_A, preference_B]),
        np.concatenate([weight_A, np.ones(len(preference_B))]),
        len(anchor_AF),
    )


def _chosen_strength(data: _Design, folds: int) -> float:
    """The strength with the least held-out cross-entropy, by scikit-learn's own search."""
    metrics = _sklearn("metrics")
    selection = _sklearn("model_selection")
    scorer = metrics.make_scorer(
        _cross_entropy, response_method="predict_proba", greater_is_better=False
    )
    rows = len(data.preference_R)
    feature, won, weight = _doubled(data)
    with _sklearn("").config_context(enable_metadata_routing=True):
        search = (
            _sklearn("linear_model")
            .LogisticRegressionCV(
                Cs=STRENGTHS,
                l1_ratios=(1.0,),
                cv=selection.GroupKFold(folds),
                scoring=scorer.set_score_request(row_weight=True, preference=True),
                use_legacy_attributes=False,
                **SOLVER,
            )
            .set_fit_request(sample_weight=True)
        )
        search.fit(
            feature,
            won,
            sample_weight=weight,
            groups=np.tile(np.arange(rows), 2),
            row_weight=np.tile(data.weight_R, 2),
            preference=np.tile(data.preference_R, 2),
        )
    return float(search.C_)


def _cross_entropy(
    won: np.ndarray, chance: np.ndarray, preference: np.ndarray, row_weight: np.ndarray
) -> float:
    chance = np.clip(chance, EPSILON, 1 - EPSILON)
    loss = preference * np.log(chance) + (1 - preference) * np.log(1 - chance)
    return -float(np.mean(loss * row_weight))


def _fit(data: _Design, strength: float) -> np.ndarray:
    feature, won, weight = _doubled(data)
    model = _sklearn("linear_model").LogisticRegression(C=strength, l1_ratio=1.0, **SOLVER)
    return model.fit(feature, won, sample_weight=weight).coef_[0]


def _doubled(data: _Design) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features, classes, weights): a preference p is a win of weight p and a loss of 1 − p."""
    won = np.repeat([1, 0], len(data.preference_R))
    weight = np.concatenate([data.preference_R, 1 - data.preference_R])
    weight = np.maximum(weight, EPSILON)
    weight = weight * np.tile(data.weight_R, 2)
    return np.tile(data.feature_RF, (2, 1)), won, weight


def _reported(data: _Design, weight_F: np.ndarray, strength: float) -> LengthControlled:
    equal_BF = data.feature_RF[data.first :].copy()
    equal_BF[:, 0] = 0.0  # as if the answers were equally long
    prediction_B = expit(equal_BF @ weight_F)
    count = len(prediction_B)
    spread = prediction_B.std(ddof=1) / np.sqrt(count) if count > 1 else np.nan
    return LengthControlled(
        win_rate=float(prediction_B.mean()),
        raw=float(data.preference_R[data.first :].mean()),
        prediction_B=prediction_B,
        spread=float(spread),
        model=float(weight_F[-1]),
        difficulty=float(weight_F[1]) if data.has_difficulty else 0.0,
        length=-float(weight_F[0]),
        strength=strength,
    )


def _sklearn(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"sklearn.{module}" if module else "sklearn")
    except ImportError as error:
        raise ConfigError(
            "a length-controlled win rate needs the package scikit-learn: "
            "pip install 'equipoise[benchmarks]'"
        ) from error


CODE = re.compile(r"```[^`]*```")
HEADERS = re.compile(r"^#{1,6}\s", re.MULTILINE)
LISTS = re.compile(r"^[^\S\n]*(?:\d+\.|[-*+])\s", re.MULTILINE)
BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")


def style(text: str) -> tuple[int, ...]:
    """(length in words and marks, headers, list items, bold passages), outside blocks of code.

    >>> style("## Plan: **go** now")
    (10, 1, 0, 1)
    """
    prose = CODE.sub("", text)
    length = len(re.findall(r"\w+|[^\w\s]", text))
    counts = [len(pattern.findall(prose)) for pattern in (HEADERS, LISTS, BOLD)]
    return length, *counts


def style_differences(
    style_BF: Sequence[Sequence[float]] | np.ndarray,
    baseline_style_BF: Sequence[Sequence[float]] | np.ndarray,
) -> np.ndarray:
    """Relative differences [B, F] in style, counted as by `style`: length first, then markup.

    >>> style_differences([(30, 0)], [(10, 0)])
    array([[0.5, 0. ]])
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
    models: Sequence[str], score_B: Sequence[float] | np.ndarray, difference_BF: np.ndarray
) -> StyleControlled:
    """The style-controlled win rate of each model over the common baseline.

    Args: models: the model of each of B comparisons; score_B: 1 it won, 0 it lost, ½ a tie;
    difference_BF: of `style_differences`, whose mean stays, where arena-hard-auto takes it out for
    many models (of one alone that would take out its style altogether).

    A feature that never differs has weight 0. Raises ValueError for scores outside [0, 1] or
    unequal numbers of rows.

    >>> rates = style_controlled(["m"] * 4, [1, 1, 1, 0], np.zeros((4, 2))).win_rates
    >>> round(rates["m"], 3)
    0.75
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
    z_BF = _in_deviations(np.asarray(difference_BF, float))
    weight = _unpenalised_fit(np.concatenate([own_BN, z_BF], axis=1), score_B)
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
    """One model's style-controlled win rate, with a 95 % percentile interval over draws of
    `prompts`.

    All comparisons of a prompt are drawn together. Raises what `style_controlled` does.

    >>> score_B, same = np.array([1.0, 1, 0, 0]), np.zeros((4, 1))
    >>> style_controlled_interval(score_B, same, range(4), resamples=10).mean
    0.5
    """
    score_B = np.asarray(score_B, float)

    def rate(rows: np.ndarray) -> float:
        rows_of = ["model"] * len(rows)
        drawn = style_controlled(rows_of, score_B[rows], difference_BF[rows])
        return drawn.win_rates["model"]

    every = np.arange(len(score_B))
    low, high = resampled_bounds(prompts, rate, resamples, seed)
    return Interval(rate(every), low, high, len(set(prompts)))


def strength_is_identified(score_B: np.ndarray, difference_BF: np.ndarray) -> bool:
    """True if a model's strength can be told from its style by these comparisons.

    It cannot where there are no more comparisons than weights (every score is fitted), nor where
    some weights divide what was won from what was lost: the likelihood then grows without end with
    them, and with it the strength. Where every comparison was won, the rate is 1 all the same, and
    0 where every one was lost.

    >>> difference_BF = np.array([[0.1], [0.3], [0.2], [0.4]])
    >>> strength_is_identified(np.array([1, 0, 0, 1]), difference_BF)
    True
    >>> strength_is_identified(np.array([0, 1, 0, 1]), difference_BF)  # the longer one won
    False
    """
    score_B = np.asarray(score_B, float)
    if len(set(score_B.tolist())) == 1 and score_B[0] in (0, 1):
        return True
    z_BF = _in_deviations(np.asarray(difference_BF, float))
    feature_BW = np.concatenate([np.ones((len(z_BF), 1)), z_BF], axis=1)
    if np.linalg.matrix_rank(feature_BW) >= len(score_B):
        return False
    is_decided_B = (score_B == 0) | (score_B == 1)
    sign_B = np.where(score_B > 0.5, 1.0, -1.0)
    signed_BW = sign_B[:, None] * feature_BW
    for direction in (1.0, -1.0):
        strength_W = np.zeros(feature_BW.shape[1])
        strength_W[0] = -direction  # linprog minimises
        ties_BW = feature_BW[~is_decided_B]
        largest = linprog(
            strength_W,
            A_ub=-signed_BW[is_decided_B],
            b_ub=np.zeros(int(is_decided_B.sum())),
            A_eq=ties_BW if len(ties_BW) else None,
            b_eq=np.zeros(len(ties_BW)) if len(ties_BW) else None,
            bounds=(-1, 1),
        )
        if -largest.fun > 1e-9:
            return False
    return True


def _in_deviations(difference_BF: np.ndarray) -> np.ndarray:
    """Differences over their deviation among the comparisons B; 0 for a constant feature.

    What does not differ cannot be told from strength: it explains nothing.
    """
    if len(difference_BF) < 2:
        return np.zeros_like(difference_BF)
    spread_F = standard_deviation(difference_BF, axis=0, ddof=1)
    differs_F = spread_F > 0
    scaled_BF = difference_BF / np.where(differs_F, spread_F, 1.0)
    return np.where(differs_F, scaled_BF, 0.0)


def _unpenalised_fit(feature_BW: np.ndarray, score_B: np.ndarray) -> np.ndarray:
    """The weights of greatest likelihood; large ones where there is none (of constant wins)."""

    def loss(weight_W: np.ndarray) -> tuple[float, np.ndarray]:
        logit_B = feature_BW @ weight_W
        value = np.logaddexp(0, logit_B).sum() - score_B @ logit_B
        return float(value), feature_BW.T @ (expit(logit_B) - score_B)

    start = np.zeros(feature_BW.shape[1])
    options = {"maxiter": 500, "gtol": 1e-8, "ftol": 1e-14}
    return minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
