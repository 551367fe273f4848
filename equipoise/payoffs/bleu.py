"""BLEU of a text to another: how many of its n-grams the other has, and whether it is long enough.

    BLEU = min(1, e^(1 − |r|/|h|)) · (Π_{n≤N} p_n)^(1/N),   p_n = clipped matches / n-grams of h

N is 4. Source: Papineni et al. 2002, BLEU, §2.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from equipoise.payoffs.self_bleu import EPSILON

Unit = Literal["words", "characters"]
# What counts as matches where characters share no n-gram: no smoothing, yet a logarithm.
NOTHING = sys.float_info.min


def bleu(
    hypothesis: Sequence[str], reference: Sequence[str], order: int = 4, unmatched: float = EPSILON
) -> float:
    """BLEU of one row of tokens to another, in [0, 1]; 0 where no token is shared.

    `unmatched` is counted as matches of an n where there is none: 0.1 is smoothing 1 of Chen and
    Cherry 2014. Raises ValueError for an order below 1 or an `unmatched` that is not positive.
    """
    if order < 1 or unmatched <= 0:
        raise ValueError(
            f"order = {order}, unmatched = {unmatched:g}: they must be at least 1 and above 0"
        )
    if not set(hypothesis) & set(reference):
        return 0.0
    log_n = [_log_precision(hypothesis, reference, n, unmatched) for n in range(1, order + 1)]
    log_brevity = min(0.0, 1 - len(reference) / len(hypothesis))
    return float(np.exp(log_brevity + np.mean(log_n)))


def text_bleu(text: str, ideal: str, unit: Unit = "words") -> float:
    """BLEU-4 of `text` to `ideal`, in [0, 1]: over words, smoothed, or over characters, as in
    GTAlign's code.

    That code passes two strings to a function that expects lists of words, so it counts characters,
    by which unrelated articles get some 0.36 (over words 0.004), and does not smooth.
    """
    if unit == "characters":
        return bleu(text, ideal, unmatched=NOTHING)
    return bleu(text.split(), ideal.split())


def _log_precision(
    hypothesis: Sequence[str], reference: Sequence[str], n: int, unmatched: float
) -> float:
    grams = _grams(hypothesis, n)
    matches = (grams & _grams(reference, n)).total()
    return float(np.log((matches or unmatched) / max(1, grams.total())))


def _grams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[k : k + n]) for k in range(len(tokens) - n + 1))
