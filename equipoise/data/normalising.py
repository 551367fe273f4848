"""Pay-offs made comparable between data sets, so that none drowns the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import msgspec
import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from equipoise.component import Settings
from equipoise.errors import ConfigError
from equipoise.payoffs.welfare import Welfare
from equipoise.types import Episode

Method = Literal["none", "z_score", "min_max", "robust_z", "rank"]

MAD = 1.4826  # standard deviations in a median absolute deviation, for normal values
MEAN_AD = np.sqrt(np.pi / 2)  # and in a mean absolute deviation
SIDES = ("user", "llm")  # the utilities that a welfare joins


def normalise(values_B: ArrayLike, groups_B: ArrayLike, method: Method) -> np.ndarray:
    """Bring the values of each group by itself to the same centre and width, or to ranks.

    none      as they are
    z_score   (x − mean) / σ, the population's σ
    min_max   (x − min) / (max − min)
    robust_z  (x − median) / (1.4826 · MAD), MAD the median of |x − median|; where it is 0,
              √(π/2) times the mean of |x − median| takes its place
    rank      (rank − 1) / (n − 1), of ties the mid-rank

    A group of one value, once or repeated, becomes 0 (z_score, robust_z) or ½ (min_max, rank).
    Raises ValueError for another method, other shapes than [B], or a value that is not finite.
    Source: GTAlign (arXiv 2510.08872), mixed training; Iglewicz and Hoaglin 1993, for the median's.

    >>> normalise([1, 3, 10, 30], ["a", "a", "b", "b"], "min_max")
    array([0., 1., 0., 1.])
    """
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}; it is {method!r}")
    values_B, groups_B = np.asarray(values_B, float), np.asarray(groups_B)
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
        result_B[in_group_B] = _normalise_group(values_B[in_group_B], method)
    return result_B


def _normalise_group(value_G: np.ndarray, method: Method) -> np.ndarray:
    if np.ptp(value_G) == 0:
        return np.full(len(value_G), 0.0 if method in ("z_score", "robust_z") else 0.5)
    if method == "z_score":
        return (value_G - value_G.mean()) / value_G.std()
    if method == "min_max":
        return (value_G - value_G.min()) / np.ptp(value_G)
    if method == "robust_z":
        deviation_G = value_G - np.median(value_G)
        distance_G = np.abs(deviation_G)
        return deviation_G / (MAD * np.median(distance_G) or MEAN_AD * distance_G.mean())
    assert method == "rank"
    from scipy.stats import rankdata  # here: it takes a second to import

    return (rankdata(value_G) - 1) / (len(value_G) - 1)


class Normalising(Settings):
    """Normalisation of a generation's rewards; episodes keep the pay-off and the addition."""

    method: Method = Field(
        "none", description="none, z_score, min_max, robust_z (median and its deviation) or rank"
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
    def _fits(self) -> Normalising:
        if self.apart != (self.welfare is not None):
            raise ValueError(
                "welfare: is given where, and only where, both sides are normalised "
                "apart (apart: true)"
            )
        if self.apart and self.method == "none":
            raise ValueError("method: none normalises nothing, so there is nothing to keep apart")
        if (
            self.welfare is not None
            and self.method in ("z_score", "robust_z")
            and not self.welfare.signed
        ):
            raise ValueError(
                f"welfare: '{self.welfare.kind}' of z-scores, half of which are "
                "negative, means nothing; take min_max or rank, or a welfare that is "
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
        group_B = self._groups(episodes, sources)
        if self.welfare is None:
            reward_B = np.array([episode.reward for episode in episodes])
            value_B = normalise(reward_B, group_B, self.method)
        else:
            user_B, llm_B = (
                normalise(_side(utilities, side), group_B, self.method) for side in SIDES
            )
            value_B = np.asarray(self.welfare.value(user_B, llm_B), float)
        pairs = zip(episodes, value_B, strict=True)
        return [_with_reward(episode, float(value)) for episode, value in pairs]

    def _groups(self, episodes: Sequence[Episode], sources: Sequence[str]) -> np.ndarray:
        """The number of each episode's group, [B]: its role, and its data set."""
        names = []
        for episode, source in zip(episodes, sources, strict=True):
            data_set = source if self.by == "source" else ""
            names.append(f"{episode.role}\x1f{data_set}")
        return np.unique(names, return_inverse=True)[1]


def _with_reward(episode: Episode, reward: float) -> Episode:
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
