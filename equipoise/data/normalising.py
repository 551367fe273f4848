"""Pay-offs made comparable between data sets: a task that pays high for everything must
not drown one that pays low.
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

SIDES = ("user", "llm")


class Normalising(Settings):
    """What the rewards of a generation's episodes are turned into, before anybody
    learns from them.

    The ledger keeps both: an episode's parts are the pay-off as it was, and what
    normalising added to it.
    """

    method: Method = Field(
        "none",
        description="none, z_score, min_max, robust_z (median and its deviation) or rank",
    )
    by: Literal["source", "all"] = Field(
        "source", description="each data source by itself, or all together"
    )
    apart: bool = Field(
        False,
        description="both sides' utilities are normalised, then joined by `welfare`; false: the pay-off itself is",
    )
    welfare: Welfare | None = Field(
        None, description="what joins them, where they are normalised apart"
    )

    @model_validator(mode="after")
    def _fits(self) -> Normalising:
        if self.apart != (self.welfare is not None):
            raise ValueError(
                "welfare: is given where, and only where, both sides are normalised apart (apart: true)"
            )
        if self.apart and self.method == "none":
            raise ValueError(
                "method: none normalises nothing, so there is nothing to keep apart"
            )
        if (
            self.welfare is not None
            and self.method in ("z_score", "robust_z")
            and not self.welfare.signed
        ):
            raise ValueError(
                f"welfare: '{self.welfare.kind}' of z-scores, half of which are negative, means nothing; take min_max "
                "or rank, or a welfare that is a sum: utilitarian, egalitarian, user_only, llm_only"
            )
        return self

    def applied(
        self,
        found: Sequence[Episode],
        sources: Sequence[str],
        sides: Sequence[Mapping[str, float]],
    ) -> list[Episode]:
        """The episodes with their rewards normalised, roles apart.

        `sources` names each episode's data set, `sides` holds the utilities that its
        move was given. Raises ConfigError where a side was not given.
        """
        if self.method == "none" or not found:
            return list(found)
        groups = [
            (episode.role, source if self.by == "source" else "")
            for episode, source in zip(found, sources, strict=True)
        ]
        group_B = np.unique(
            [f"{role}\x1f{source}" for role, source in groups], return_inverse=True
        )[1]
        if self.welfare is None:
            value_B = normalised(
                np.array([episode.reward for episode in found]), group_B, self.method
            )
        else:
            user_B, llm_B = (
                normalised(_of(sides, side), group_B, self.method) for side in SIDES
            )
            value_B = np.asarray(self.welfare.value(user_B, llm_B), float)
        return [
            msgspec.structs.replace(
                episode,
                reward=float(value),
                parts={**episode.parts, "normalised": float(value) - episode.reward},
            )
            for episode, value in zip(found, value_B, strict=True)
        ]


def _of(sides: Sequence[Mapping[str, float]], side: str) -> np.ndarray:
    for given in sides:
        if side not in given:
            known = ", ".join(sorted(given))
            raise ConfigError(
                f"normalise.apart: a judgement has no utility '{side}' to keep apart; it has {known}"
            )
    return np.array([given[side] for given in sides], float)
