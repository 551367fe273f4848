"""Judges calibrated on people: agreement beyond chance, and corrected win rates.

People vote on some items, the judge on all. The judge's rate over all items is precise and biased,
that of people's votes is unbiased and imprecise; both corrections here use the judge's rate for
precision and people's votes for the truth.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from equipoise.payoffs.intervals import Interval

FEWEST = 2  # items of each kind without which an error rate is not known


def kappa(first_n: npt.ArrayLike, second_n: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Cohen's κ of two raters' labels, with an interval.

        κ = (p_o − p_e) / (1 − p_e)
        n·var = (A + B − C) / (1 − p_e)²
        A = Σ_i p_ii (1 − (p_i. + p_.i)(1 − κ))²,  B = (1 − κ)² Σ_{i≠j} p_ij (p_.i + p_j.)²
        C = (κ − p_e (1 − κ))²
        tanh(atanh κ ± z · se / (1 − κ²))

    p_ij is the share of items that the first rater calls i and the second j. The bounds are of a
    table with one more item, spread evenly over its cells, so that they have a width where the
    raters agree on all items; they hold κ itself. NaN where chance alone agrees on everything, and
    without items. Raises ValueError for unequal lengths. Source: Cohen 1960, Educational and
    Psychological Measurement 20; the variance of Fleiss, Cohen & Everitt 1969, Psychological
    Bulletin 72, eq. 13; Fisher's transformation and the added item are ours.

    >>> kappa([1, 1, 0, 0, 1, 0, 1, 0], [1, 1, 0, 0, 1, 1, 1, 0]).mean
    0.75
    """
    one_n = np.asarray(first_n)
    other_n = np.asarray(second_n)
    if one_n.shape != other_n.shape or one_n.ndim != 1:
        raise ValueError(f"labels of unequal shapes {one_n.shape}, {other_n.shape}")
    n = len(one_n)
    if not n:
        return Interval(math.nan, math.nan, math.nan, 0)
    labels, code_n = np.unique(np.concatenate([one_n, other_n]), return_inverse=True)
    kinds = len(labels)
    if kinds < 2:
        return Interval(math.nan, math.nan, math.nan, n)
    count_LL = np.zeros((kinds, kinds))
    np.add.at(count_LL, (code_n[:n], code_n[n:]), 1.0)
    value, _ = kappa_and_variance(count_LL / n)
    centre, variance = kappa_and_variance((count_LL + 1 / kinds**2) / (n + 1))
    half = z_of(level) * math.sqrt(variance / (n + 1)) / (1 - centre**2)
    low = math.tanh(math.atanh(centre) - half)
    high = math.tanh(math.atanh(centre) + half)
    return Interval(value, min(low, value), max(high, value), n)


def kappa_and_variance(share_LL: np.ndarray) -> tuple[float, float]:
    """κ of a table of shares, and n times its variance; both as `kappa` has them.

    >>> kappa_and_variance(np.array([[0.5, 0.0], [0.0, 0.5]]))
    (1.0, 0.0)
    """
    row_L = share_LL.sum(1)
    column_L = share_LL.sum(0)
    chance = float(row_L @ column_L)
    if 1 - chance <= 1e-12:
        return math.nan, math.nan
    value = (float(np.trace(share_LL)) - chance) / (1 - chance)
    on = np.diag(share_LL) * (1 - (row_L + column_L) * (1 - value)) ** 2
    off_LL = share_LL * (column_L[:, None] + row_L[None, :]) ** 2
    np.fill_diagonal(off_LL, 0.0)
    spread = float(on.sum() + (1 - value) ** 2 * off_LL.sum())
    spread -= (value - chance * (1 - value)) ** 2
    return value, max(spread, 0.0) / (1 - chance) ** 2


def rogan_gladen(
    verdict_U: npt.ArrayLike, judge_n: npt.ArrayLike, people_n: npt.ArrayLike, level: float = 0.95
) -> Interval:
    """The true rate behind a judge's yes-or-no verdicts, by its error rates on items people judged.

        θ = (p + q0 − 1) / (q1 + q0 − 1)
        var θ = [p(1 − p)/U + (1 − θ)² q0(1 − q0)/n0 + θ² q1(1 − q1)/n1] / (q1 + q0 − 1)²

    p is the judge's rate over the U items that people have not judged, q1 the share of people's n1
    wins that it calls wins, q0 the share of their n0 losses that it calls losses. In the variance
    each rate gets one more success and one more failure (two more items to p and, with the
    covariance of the two errors, as Lang & Reiczigel propose), so that it has a width where a
    judge made no error in the sample.

    Args: verdict_U, judge_n, people_n: 1 or 0. NaN where people have judged fewer than two wins or
    two losses, or the judge is no better than chance. Raises ValueError for other values. Source:
    Rogan & Gladen 1978, American Journal of Epidemiology 107; Lang & Reiczigel 2014, Preventive
    Veterinary Medicine 113.

    >>> rate = rogan_gladen([1] * 60 + [0] * 40, [1] * 9 + [0] * 9 + [1, 0], [1] * 9 + [0] * 11)
    >>> round(rate.mean, 3)
    0.56
    """
    own_U = binary(verdict_U)
    judge_n = binary(judge_n)
    people_n = binary(people_n)
    if judge_n.shape != people_n.shape:
        raise ValueError(f"{len(judge_n)} verdicts beside {len(people_n)} of people")
    wins = int(people_n.sum())
    losses = len(people_n) - wins
    items = len(own_U)
    if not items or min(wins, losses) < FEWEST:
        return Interval(math.nan, math.nan, math.nan, items)
    right_on_wins = float(judge_n[people_n == 1].mean())
    right_on_losses = float(1 - judge_n[people_n == 0].mean())
    informed = right_on_wins + right_on_losses - 1
    if informed <= 0:
        return Interval(math.nan, math.nan, math.nan, items)
    rate = (float(own_U.mean()) + right_on_losses - 1) / informed
    # Lang & Reiczigel: the estimates that the interval is centred on.
    z = z_of(level)
    q1 = (judge_n[people_n == 1].sum() + 1) / (wins + 2)
    q0 = (losses - judge_n[people_n == 0].sum() + 1) / (losses + 2)
    p = (own_U.sum() + z**2 / 2) / (items + z**2)
    youden = q1 + q0 - 1
    if youden <= 0:
        return Interval(math.nan, math.nan, math.nan, items)
    theta = (p + q0 - 1) / youden
    shift = (
        2 * z**2 * (theta * q1 * (1 - q1) / (wins + 2) - (1 - theta) * q0 * (1 - q0) / (losses + 2))
    )
    spread = p * (1 - p) / (items + z**2)
    spread += (1 - theta) ** 2 * q0 * (1 - q0) / (losses + 2)
    spread += theta**2 * q1 * (1 - q1) / (wins + 2)
    half = z * math.sqrt(spread) / youden
    low = min(max(theta + shift - half, 0.0), 1.0)
    high = min(max(theta + shift + half, 0.0), 1.0)
    mean = min(max(rate, 0.0), 1.0)
    return Interval(mean, min(low, mean), max(high, mean), items)


def prediction_powered(
    verdict_U: npt.ArrayLike, judge_n: npt.ArrayLike, people_n: npt.ArrayLike, level: float = 0.95
) -> Interval:
    """The mean of people's votes over all items, by a judge's verdicts on all and votes on some.

        θ_λ = mean(Y) + λ · (mean over U of f − mean over n of f)
        var = var(Y − λ f)/n + λ² var(f)/U;   λ = cov(Y, f) / ((1 + n/U) var(f)), in [0, 1]

    Y are people's votes, f the judge's verdicts, of any scale. A useless judge has λ near 0, and
    the interval is that of the votes alone. Student's t with n − 1 degrees of freedom.

    Args: verdict_U: on items that people have not judged; judge_n, people_n: on those that they
    have. NaN bounds with fewer than three votes; NaN without one. Raises ValueError for unequal
    lengths. Source: Angelopoulos, Duchi & Zrnic 2023, PPI++: Efficient Prediction-Powered
    Inference, eq. 2 and 5 of the mean.

    >>> votes = prediction_powered([1, 1, 0, 1] * 25, [1, 0, 1, 0, 1, 0], [1, 0, 1, 0, 1, 1])
    >>> round(votes.mean, 3)
    0.907
    """
    from scipy.special import stdtrit

    own_U = np.asarray(verdict_U, float)
    judge_n = np.asarray(judge_n, float)
    people_n = np.asarray(people_n, float)
    if judge_n.shape != people_n.shape:
        raise ValueError(f"{len(judge_n)} verdicts beside {len(people_n)} of people")
    votes = len(people_n)
    items = len(own_U)
    if not votes:
        return Interval(math.nan, math.nan, math.nan, items)
    weight = judge_weight(own_U, judge_n, people_n)
    mean = float(people_n.mean())
    if weight:
        mean += weight * float(own_U.mean() - judge_n.mean())
    if votes < 3:
        return Interval(mean, math.nan, math.nan, items + votes)
    variance = float(np.var(people_n - weight * judge_n, ddof=1)) / votes
    if weight:
        variance += weight**2 * float(np.var(own_U, ddof=1)) / items
    if variance <= 1e-15:
        return Interval(mean, math.nan, math.nan, items + votes)
    half = float(stdtrit(votes - 1, 0.5 + level / 2)) * math.sqrt(variance)
    return Interval(mean, mean - half, mean + half, items + votes)


def judge_weight(own_U: np.ndarray, judge_n: np.ndarray, people_n: np.ndarray) -> float:
    """λ of `prediction_powered`: how much a judge's verdicts are worth beside votes; 0 to 1.

    >>> judge_weight(np.array([1.0, 0.0] * 50), np.array([1.0, 0, 1, 0]), np.array([1.0, 0, 1, 0]))
    1.0
    """
    votes = len(people_n)
    items = len(own_U)
    if votes < 3 or items < 2:
        return 0.0
    spread = float(np.var(np.concatenate([own_U, judge_n]), ddof=1))
    if spread <= 1e-15:
        return 0.0
    covariance = float(np.cov(people_n, judge_n, ddof=1)[0, 1])
    return float(np.clip(covariance / ((1 + votes / items) * spread), 0.0, 1.0))


def votes_to_settle(
    verdict_U: npt.ArrayLike,
    judge_n: npt.ArrayLike,
    people_n: npt.ArrayLike,
    even: float = 0.5,
    level: float = 0.95,
    power: float = 0.8,
) -> int | None:
    """The number of further votes that would tell the rate from `even`, were it where it seems.

    By the variances that `prediction_powered` has now:

        n = var(Y − λ f) / ((θ − even)² / (z_level + z_power)² − λ² var(f)/U)

    less the votes that are there. 0 where it is settled; None where nothing can be said: fewer than
    three votes, no lead, or one so small that the judge must see more items first.

    >>> votes_to_settle([1, 0, 0, 1, 1] * 100, [1, 0] * 5, [1, 0] * 4 + [0, 1])
    482
    """
    own_U = np.asarray(verdict_U, float)
    judge_n = np.asarray(judge_n, float)
    people_n = np.asarray(people_n, float)
    now = prediction_powered(own_U, judge_n, people_n, level)
    if not math.isfinite(now.low):
        return None
    if now.low > even or now.high < even:
        return 0
    weight = judge_weight(own_U, judge_n, people_n)
    of_judge = 0.0
    if weight:
        of_judge = weight**2 * float(np.var(own_U, ddof=1)) / len(own_U)
    of_votes = float(np.var(people_n - weight * judge_n, ddof=1))
    wanted = z_of(level) + z_of(2 * power - 1)
    room = ((now.mean - even) / wanted) ** 2 - of_judge
    if room <= 1e-12:
        return None
    return max(0, math.ceil(of_votes / room) - len(people_n))


class CalibratedRate(NamedTuple):
    """A win rate three ways: by the judge alone, by votes alone, and by both.

    `more_votes`: how many more would settle it; None where that cannot be told.
    """

    judge: Interval
    votes: Interval
    rogan_gladen: Interval
    prediction_powered: Interval
    more_votes: int | None


def calibrated_rate(
    verdict_U: Sequence[float], judge_n: Sequence[float], people_n: Sequence[float]
) -> CalibratedRate:
    """All of a win rate's corrections; values of ½ are ties, which Rogan–Gladen leaves out.

    >>> calibrated_rate([1, 1, 0, 1], [1, 0, 1, 0], [1, 0, 1, 0]).votes.mean
    0.5
    """
    from equipoise.payoffs.intervals import mean_interval

    own_U = np.asarray(verdict_U, float)
    of_judge_n = np.asarray(judge_n, float)
    of_people_n = np.asarray(people_n, float)
    decided_n = (of_judge_n != 0.5) & (of_people_n != 0.5)
    every = np.concatenate([own_U, of_judge_n])
    return CalibratedRate(
        judge=mean_interval(every, share=True),
        votes=mean_interval(of_people_n, share=True),
        rogan_gladen=rogan_gladen(
            (own_U[own_U != 0.5] > 0.5).astype(float),
            (of_judge_n[decided_n] > 0.5).astype(float),
            (of_people_n[decided_n] > 0.5).astype(float),
        ),
        prediction_powered=prediction_powered(own_U, of_judge_n, of_people_n),
        more_votes=votes_to_settle(own_U, of_judge_n, of_people_n),
    )


def binary(values: npt.ArrayLike) -> np.ndarray:
    """Values as numbers. Raises ValueError where one is neither 0 nor 1.

    >>> binary([True, False]).tolist()
    [1.0, 0.0]
    """
    value_n = np.asarray(values, float)
    if not np.isin(value_n, (0.0, 1.0)).all():
        raise ValueError("verdicts must be 0 or 1; leave out ties and what is missing")
    return value_n


def z_of(level: float) -> float:
    """The normal quantile of a two-sided level.

    >>> round(z_of(0.95), 3)
    1.96
    """
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))
