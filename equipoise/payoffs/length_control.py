"""Win rates of answers as if they were as long as the baseline's: AlpacaEval's length-controlled
win rate.

Judges prefer longer answers, so a win rate can be bought with words. A regression takes what length
explains out of it:

    logit P(model beats baseline on prompt i) = θ + ψ·γ_i + φ·tanh((l_i − b_i)/s)

with the lengths l of the model's answer and b of the baseline's, s the standard deviation of their
differences over the prompts, and γ_i how hard the prompt is. The win rate that is reported is the
mean of the prediction with the last term at 0. Only the difference of the lengths enters, so a rate
of ½ is kept, and the rate of "model against baseline" is 1 less that of "baseline against model".

Source: Dubois, Galambosi, Liang and Hashimoto 2024, Length-Controlled AlpacaEval, arXiv:2404.04475,
equation 1, and the fit of the package alpaca-eval 0.6.6: L1 penalty without an intercept of its
own, its strength chosen by five folds over the prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from equipoise.errors import ConfigError
from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.resampling import resampled_bounds

STRENGTHS = np.logspace(-4, 4, 10)  # of the penalty's inverse, as published
ANCHOR_WEIGHT = 0.2  # of all anchors beside the model's own prompts, as published
SOLVER = {"solver": "liblinear", "fit_intercept": False, "random_state": 123}
EPSILON = 1e-15


@dataclass(frozen=True)
class Anchors:
    """Judged answers of baselines that were told to be short or long, which say what length is
    worth to the judge whatever the model: AlpacaEval's `df_gamed.csv`.

    `preference_A` in [0, 1] is their probability of beating the plain baseline, `length_A` their
    difference in length in units of its standard deviation, `difficulty_A` that of their prompts.
    `kinds` is how many such baselines there are.
    """

    preference_A: np.ndarray
    length_A: np.ndarray
    difficulty_A: np.ndarray
    kinds: int = 2


@dataclass(frozen=True)
class LengthControlled:
    """What the regression makes of a model's wins.

    `win_rate` in [0, 1] is the length-controlled one, `raw` the plain one. `prediction_B` is the
    prediction for each prompt at equal lengths, `spread` the standard error of its mean, which the
    package reports as `lc_standard_error`: it says how much prompts differ in difficulty, not how
    well the regression is known (for that, `interval`). `model`, `difficulty` and `length` are θ, ψ
    and φ; `strength` is the inverse of the penalty.
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

    Args: preference_B: P(model beats baseline) on each prompt, in [0, 1], ½ a tie; length_B,
    baseline_length_B: characters of the answers; difficulty_B: γ, None: no such term (the package's
    `length_controlled_minimal`); anchors: answers that steady φ (its `length_controlled_v1`,
    together with `difficulty_B`), None: none (its `length_controlled_noreg`); folds: over prompts,
    to choose the penalty.

    Raises ValueError for a preference outside [0, 1], lengths of unequal number, fewer than `folds`
    prompts, or anchors without difficulties; ConfigError without scikit-learn.
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
    folds: int = 5,
    resamples: int = 200,
    seed: int = 0,
) -> Interval:
    """The length-controlled win rate with a 95 % percentile interval, by fitting anew on
    `resamples` draws of the prompts; the penalty is that of the whole data. NaN bounds where the
    penalty leaves no weight at all, and so a rate of ½ whatever the data say.

    Arguments and errors as for `length_controlled`.
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

    count = len(columns[0])
    low, high = resampled_bounds(range(count), rate, resamples, seed)
    return Interval(whole.win_rate, low, high, count)


@dataclass(frozen=True)
class _Design:
    """The regression's rows R: the model's B prompts last, the anchors before them.

    `first` says where the former begin; `feature_RF` are length (the baseline's less the model's,
    in tanh), difficulty (where there is one) and whether the row is the model's.
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
    spread = difference_B.std(ddof=1) if len(difference_B) > 1 else 0.0
    scaled_B = difference_B / spread if spread > 0 else np.zeros_like(difference_B)
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
    """The strength with the least cross-entropy on the folds that were left out.

    scikit-learn's own search, since strengths that are nearly tied are told apart by the dice of
    its solver.
    """
    metrics, selection = _sklearn("metrics"), _sklearn("model_selection")
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
    """The mean weighted cross-entropy of preferences and predicted chances; `won` is what the
    classifier was given in their place.
    """
    chance = np.clip(chance, EPSILON, 1 - EPSILON)
    loss = preference * np.log(chance) + (1 - preference) * np.log(1 - chance)
    return -float(np.mean(loss * row_weight))


def _fit(data: _Design, strength: float) -> np.ndarray:
    """The weights of the features at this strength."""
    feature, won, weight = _doubled(data)
    model = _sklearn("linear_model").LogisticRegression(C=strength, l1_ratio=1.0, **SOLVER)
    return model.fit(feature, won, sample_weight=weight).coef_[0]


def _doubled(data: _Design) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features, classes, weights) of twice the rows: a preference p is a win of weight p and a
    loss of weight 1 − p, and never quite 0, so that both classes are there.
    """
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
    """A module of scikit-learn, or the whole. Raises ConfigError where it is not installed."""
    import importlib

    try:
        return importlib.import_module(f"sklearn.{module}" if module else "sklearn")
    except ImportError as error:
        raise ConfigError(
            "a length-controlled win rate needs the package scikit-learn: "
            "pip install 'equipoise[benchmarks]'"
        ) from error
