"""Pay-offs made comparable between data sets, so that none drowns the others."""

from collections.abc import Mapping, Sequence
from typing import Literal, Self, get_args

import msgspec
import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from equipoise.component import Settings
from equipoise.errors import ConfigError
from equipoise.payoffs.deviation import ROUNDING, all_alike
from equipoise.payoffs.welfare import Welfare
from equipoise.types import Episode

Method = Literal[
    "none",
    "z_score",
    "min_max",
    "robust_z",
    "rank",
    "tanh",
    "cdf",
    "quantile",
    "james_stein",
    "decentralise",
    "self_adapt",
]

MAD = 1.4826  # standard deviations in a median absolute deviation, for normal values
MEAN_AD = np.sqrt(np.pi / 2)  # and in a mean absolute deviation
UNSIGNED = ("min_max", "rank", "quantile")  # methods that make no value negative
SHRINK = 50.0  # values of a group that weigh as much as all values together
TEMPER = 2.0  # deviations at which self_adapt gives tanh(1)
TINY = 1e-6  # added to widths of all groups' values; for tanh, a width below it is none
SIDES = ("user", "llm")  # the utilities that a welfare joins


def normalise(values_B: ArrayLike, groups_B: ArrayLike, method: Method) -> np.ndarray:
    """Bring the values of each group by itself to the same centre and width, or to ranks.

    none          as they are
    z_score       (x − mean) / σ, the population's σ
    min_max       (x − min) / (max − min)
    robust_z      (x − median) / (1.4826 · MAD), MAD the median of |x − median|; where it is 0,
                  √(π/2) times the mean of |x − median| takes its place
    rank          (rank − 1) / (n − 1), of ties the mid-rank
    tanh          tanh(z / 2), z as robust_z of values cut at the quantiles .01 and .99, with the
                  width 1 where MAD is 0
    cdf           2·(rank − ½) / n − 1
    quantile      the value that has the same rank among those of all groups
    james_stein   z-scores by a mean and a variance that lie w = n / (n + 50) of the way from those
                  of all groups to the group's
    decentralise  (x − mean) / σ of all groups' values
    self_adapt    tanh((x − mean) / 2)

    A group of one value, once or repeated, becomes 0, or ½ (min_max, rank); by quantile and
    james_stein it is set against the others. Raises ValueError for another method, other shapes
    than [B], or a value that is not finite. Source: GTAlign (arXiv 2510.08872), mixed training, and
    its code; Iglewicz and Hoaglin 1993, for the median's.

    >>> normalise([1, 3, 10, 30], ["a", "a", "b", "b"], "min_max")
    array([0., 1., 0., 1.])
    """
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}; it is {method!r}")
    values_B = np.asarray(values_B, float)
    groups_B = np.asarray(groups_B)
    if values_B.ndim != 1 or values_B.shape != groups_B.shape:
        raise ValueError(
            "values_B and groups_B must be as long as each other: "
            f"{values_B.shape}, {groups_B.shape}"
        )
    if not np.isfinite(values_B).all():
        b = int(np.argmin(np.isfinite(values_B)))
        raise ValueError(f"values_B[{b}] is {values_B[b]}; leave out missing values")
    result_B = values_B.copy()
    if method == "none":
        return result_B
    for group in np.unique(groups_B):
        in_group_B = groups_B == group
        value_G = values_B[in_group_B]
        if method in _AMONG_ALL:
            result_B[in_group_B] = _AMONG_ALL[method](value_G, values_B)
        else:
            result_B[in_group_B] = normalise_group(value_G, method)
    return result_B


def normalise_group(value_G: np.ndarray, method: Method) -> np.ndarray:
    if method == "self_adapt":
        return np.tanh(from_mean(value_G) / TEMPER)
    if method == "tanh":
        value_G = value_G.clip(*np.quantile(value_G, (0.01, 0.99)))
        deviation_G = value_G - np.median(value_G)
        width = MAD * np.median(np.abs(deviation_G))
        return np.tanh(deviation_G / (width if width >= TINY else 1.0) / 2)
    if method == "cdf":
        return 2 * (_ranks(value_G) - 0.5) / len(value_G) - 1
    if all_alike(value_G):
        return np.full(len(value_G), 0.0 if method in ("z_score", "robust_z") else 0.5)
    if method == "z_score":
        return (value_G - value_G.mean()) / value_G.std()
    if method == "min_max":
        return (value_G - value_G.min()) / np.ptp(value_G)
    if method == "robust_z":
        deviation_G = value_G - np.median(value_G)
        distance_G = np.abs(deviation_G)
        width = MAD * np.median(distance_G)
        if width <= ROUNDING * np.abs(value_G).max():  # most values are alike
            width = MEAN_AD * distance_G.mean()
        return deviation_G / width
    assert method == "rank"
    return (_ranks(value_G) - 1) / (len(value_G) - 1)


def from_mean(value_G: np.ndarray) -> np.ndarray:
    """x − mean, exactly 0 where all values are alike."""
    if all_alike(value_G):
        return np.zeros(len(value_G))
    return value_G - value_G.mean()


def _ranks(value_G: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata  # here: it takes a second to import

    return rankdata(value_G)


def quantiles(value_G: np.ndarray, value_B: np.ndarray) -> np.ndarray:
    """As released, the largest of equals lends all of them its rank, and ranks are rounded down."""
    share_G = (np.searchsorted(np.sort(value_G), value_G, "right") - 0.5) / len(value_G)
    return np.sort(value_B)[(share_G.clip(1e-6, 1 - 1e-6) * (len(value_B) - 1)).astype(int)]


def _shrunk(value_G: np.ndarray, value_B: np.ndarray) -> np.ndarray:
    weight = len(value_G) / (len(value_G) + SHRINK)
    mean = weight * value_G.mean() + (1 - weight) * value_B.mean()
    own = value_G.std() + TINY
    overall = value_B.std() + TINY
    return (value_G - mean) / (np.sqrt(weight * own**2 + (1 - weight) * overall**2) + TINY)


def _centred(value_G: np.ndarray, value_B: np.ndarray) -> np.ndarray:
    return from_mean(value_G) / (value_B.std() + TINY)


_AMONG_ALL = {"quantile": quantiles, "james_stein": _shrunk, "decentralise": _centred}


class Normalising(Settings):
    """Normalisation of a generation's rewards; episodes keep the pay-off and the addition."""

    method: Method = Field(
        "none",
        description="none, z_score, min_max, robust_z (median and its deviation), rank, tanh (the "
        "published robust_z, squeezed), cdf, quantile, james_stein, decentralise or self_adapt",
    )
    by: Literal["source", "all"] = Field(
        "source", description="each data source by itself, or all together"
    )
    apart: bool = Field(
        False,
        description="both sides' utilities are normalised, then joined by `welfare`; "
        "false: the pay-off itself is",
    )
    welfare: Welfare | None = Field(None, description="joins them, where they are normalised apart")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.apart != (self.welfare is not None):
            raise ValueError(
                "welfare: is given where, and only where, both sides are normalised "
                "apart (apart: true)"
            )
        if self.apart and self.method == "none":
            raise ValueError("method: none normalises nothing, so there is nothing to keep apart")
        if self.welfare is not None and self.method not in UNSIGNED and not self.welfare.signed:
            raise ValueError(
                f"welfare: '{self.welfare.kind}' of method: {self.method}, half of whose values "
                f"are negative, means nothing; take {', '.join(UNSIGNED)}, or a welfare that is "
                "a sum: utilitarian, egalitarian, user_only, llm_only"
            )
        return self

    def apply(
        self,
        episodes: Sequence[Episode],
        sources: Sequence[str],
        utilities: Sequence[Mapping[str, float]],
    ) -> list[Episode]:
        """The episodes with their rewards normalised, each role by itself, `sources` being data
        sets.

        `utilities` are those of each move. Raises ConfigError where a side's utility is missing.
        """
        if self.method == "none" or not episodes:
            return list(episodes)
        role_B = np.array([episode.role for episode in episodes])
        source_B = np.array(sources if self.by == "source" else [""] * len(episodes))
        value_B = np.zeros(len(episodes))
        for role in np.unique(role_B):
            in_role_B = role_B == role
            rows = [b for b in range(len(episodes)) if in_role_B[b]]
            value_B[in_role_B] = self._values(
                [episodes[b].reward for b in rows],
                source_B[in_role_B],
                [utilities[b] for b in rows],
            )
        pairs = zip(episodes, value_B, strict=True)
        return [with_reward(episode, float(value)) for episode, value in pairs]

    def _values(
        self,
        rewards: Sequence[float],
        source_B: np.ndarray,
        utilities: Sequence[Mapping[str, float]],
    ) -> np.ndarray:
        if self.welfare is None:
            return normalise(rewards, source_B, self.method)
        user_B, llm_B = (normalise(_side(utilities, side), source_B, self.method) for side in SIDES)
        return np.asarray(self.welfare.value(user_B, llm_B), float)


def with_reward(episode: Episode, reward: float) -> Episode:
    parts = {**episode.parts, "normalised": reward - episode.reward}
    return msgspec.structs.replace(episode, reward=reward, parts=parts)


def _side(utilities: Sequence[Mapping[str, float]], side: str) -> np.ndarray:
    for row in utilities:
        if side not in row:
            known = ", ".join(sorted(row))
            raise ConfigError(
                f"normalise.apart: a judgement has no utility '{side}' to keep apart; "
                f"it has {known}"
            )
    return np.array([row[side] for row in utilities], float)
