"""Deviations that are 0 where all values are alike, up to the rounding of their arithmetic.

Of forty times 0.1 NumPy's standard deviation is 1e-17, and what is divided by it is noise; so no
deviation is compared with 0 itself.
"""

from collections.abc import Sequence

import numpy as np

ROUNDING = 1e-12
"""The share of the largest value below which a difference is one of rounding."""


def standard_deviation(
    values: Sequence[float] | np.ndarray, *, axis: int | None = None, ddof: int = 0
) -> np.ndarray:
    """The standard deviation along `axis` (None: of all values), 0 where they are alike.

    >>> float(standard_deviation([0.1] * 7)), float(standard_deviation([1.0, 3.0]))
    (0.0, 1.0)
    """
    array = np.asarray(values, float)
    spread = array.std(axis=axis, ddof=ddof)
    largest = np.abs(array).max(axis=axis)
    return np.where(spread > ROUNDING * largest, spread, 0.0)


def all_alike(values: Sequence[float] | np.ndarray) -> bool:
    """True if no two values differ by more than rounding.

    >>> all_alike([0.3, 0.1 + 0.2]), all_alike([0.3, 0.31])
    (True, False)
    """
    array = np.asarray(values, float)
    return array.size == 0 or bool(np.ptp(array) <= ROUNDING * np.abs(array).max())
