"""How much of a judge's lead makes people prefer an answer: its scores on their scale."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, ndtri


class Calibration(NamedTuple):
    """P(people prefer the first answer) = σ(slope · lead), with the slope's 95 % interval.

    `log_loss` is the mean of −log P(what people preferred), in nats, of comparisons that the slope
    was not fitted on; log 2 is that of a coin.
    """

    slope: float
    low: float
    high: float
    log_loss: float


def calibrated(
    lead_n: npt.ArrayLike, preferred_n: npt.ArrayLike, folds: int = 5
) -> Calibration | None:
    """The slope with which a judge's leads foretell what people prefer.

        maximise Σ y·log σ(b·d) + (1 − y)·log σ(−b·d) − b²·s²/18,  s² = mean d²

    The last term is a prior: b·s, the slope a standard lead has, is normal about 0 with deviation
    3, so that it stays finite where the judge is always right.

    Args: lead_n: the judge's score of the first answer less that of the second [n]; preferred_n:
    the share of people who prefer the first, ties as ½ [n]; folds: parts that are foretold by the
    others, in turn. Returns None for fewer than `folds` comparisons, or where the judge never
    prefers one. Raises ValueError for other shapes, and shares outside [0, 1]. Source: Platt 1999,
    Probabilistic outputs for support vector machines, without an intercept, for neither place is
    better.
    """
    lead_n, preferred_n = np.asarray(lead_n, float), np.asarray(preferred_n, float)
    if lead_n.ndim != 1 or lead_n.shape != preferred_n.shape:
        raise ValueError(f"shapes differ: {lead_n.shape} and {preferred_n.shape}")
    if ((preferred_n < 0) | (preferred_n > 1)).any():
        raise ValueError("preferred_n holds shares outside [0, 1]")
    scale = math.sqrt(float(np.mean(lead_n**2))) if len(lead_n) else 0.0
    if len(lead_n) < folds or scale == 0:
        return None
    unit_n = lead_n / scale
    part_n = np.arange(len(unit_n)) % folds
    losses: list[float] = []
    for part in range(folds):
        slope = _slope(unit_n[part_n != part], preferred_n[part_n != part])
        known_n = part_n == part
        losses += _losses(slope, unit_n[known_n], preferred_n[known_n]).tolist()
    slope = _slope(unit_n, preferred_n)
    half = float(ndtri(0.975)) / math.sqrt(_curvature(slope, unit_n))
    return Calibration(
        slope / scale, (slope - half) / scale, (slope + half) / scale, float(np.mean(losses))
    )


PRIOR = 1 / 9  # of the slope of a standard lead: 1/deviation²


def _slope(unit_n: np.ndarray, preferred_n: np.ndarray) -> float:
    """Where the objective's derivative is 0; it falls steadily, so halving finds it."""
    low, high = -100.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        gradient = (unit_n * (preferred_n - expit(middle * unit_n))).sum()
        if gradient - PRIOR * middle > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _curvature(slope: float, unit_n: np.ndarray) -> float:
    chance_n = expit(slope * unit_n)
    return float((unit_n**2 * chance_n * (1 - chance_n)).sum() + PRIOR)


def _losses(slope: float, unit_n: np.ndarray, preferred_n: np.ndarray) -> np.ndarray:
    for_n, against_n = log_expit(slope * unit_n), log_expit(-slope * unit_n)
    return -(preferred_n * for_n + (1 - preferred_n) * against_n)
