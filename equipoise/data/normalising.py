"""Pay-offs made comparable between data sets, so that a task that pays a lot for everything does
not drown one that pays little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
from pydantic import Field, model_validator

from equipoise.component import Settings
from equipoise.errors import ConfigError
from equipoise.payoffs.normalisation import Method, normalised
from equipoise.payoffs.welfare import Welfare
from equipoise.types import Episode

SIDES = ("user", "llm")  # the utilities that a welfare joins


class Normalising(Settings):
    """How the rewards of a generation's episodes are normalised before they are learned from.

    The ledger keeps both: an episode's parts are the pay-off as it was, and what normalising added
    to it.
    """

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
    welfare: Welfare | None = Field(
        None, description="what joins them, where they are normalised apart"
    )

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

    def applied(
        self,
        episodes: Sequence[Episode],
        sources: Sequence[str],
        utilities: Sequence[Mapping[str, float]],
    ) -> list[Episode]:
        """The episodes with their rewards normalised, each role by itself.

        `sources` names each episode's data set, `utilities` holds what its move was given. Raises
        ConfigError where a side's utility is missing.
        """
        if self.method == "none" or not episodes:
            return list(episodes)
        group_B = self._groups(episodes, sources)
        if self.welfare is None:
            reward_B = np.array([episode.reward for episode in episodes])
            value_B = normalised(reward_B, group_B, self.method)
        else:
            user_B, llm_B = (
                normalised(_side(utilities, side), group_B, self.method) for side in SIDES
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
    """The side's utility of each move, [B]."""
    for given in utilities:
        if side not in given:
            known = ", ".join(sorted(given))
            raise ConfigError(
                f"normalise.apart: a judgement has no utility '{side}' to keep apart; "
                f"it has {known}"
            )
    return np.array([given[side] for given in utilities], float)
