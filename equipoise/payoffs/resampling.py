"""Bounds by fitting anew on draws of the prompts, for numbers that are no means."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np


def resampled_bounds(
    clusters: Sequence[Hashable],
    statistic: Callable[[np.ndarray], float],
    resamples: int = 200,
    seed: int = 0,
) -> tuple[float, float]:
    """The 2.5 % and the 97.5 % quantile of a statistic over draws with replacement.

    `clusters` has a label for each row; the rows of one label are drawn together, as many labels as
    there are. `statistic` takes the numbers of the rows drawn. Source: Efron 1979, Annals of
    Statistics 7; percentile intervals.
    """
    rows_of: dict[Hashable, list[int]] = {}
    for row, label in enumerate(clusters):
        rows_of.setdefault(label, []).append(row)
    groups = [np.array(rows) for rows in rows_of.values()]
    dice = np.random.default_rng(seed)
    values = []
    for _ in range(resamples):
        drawn = dice.integers(len(groups), size=len(groups))
        values.append(statistic(np.concatenate([groups[group] for group in drawn])))
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
