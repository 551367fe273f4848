"""How alike texts are: to all texts written before, exactly and however many they are, and to each
other.

    MeanCosine   1/N Σ_r u(h)·u(r) = u(h) · (1/N Σ_r u(r)): a single vector stands for all
                 N references
    of a set     cosine = 1/(n(n − 1)) Σ_{i≠j} u_i·u_j = (|Σ u|² − Σ|u|²) / (n(n − 1))

Source: GPO, arXiv 2406.10977, §4 (diversity rewards and the diversity of prompts).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from equipoise.payoffs.hashing import hashed
from equipoise.payoffs.self_bleu import SelfBleu, bleu

__all__ = ["Embed", "MeanCosine", "SelfBleu", "diversity"]

Embed = Callable[[Sequence[str]], np.ndarray]  # texts -> vectors [B, D]


def unit(embed: Embed, texts: Sequence[str]) -> np.ndarray:
    """The texts' vectors at length 1 [B, D], float64; a zero vector stays zero.

    Raises ValueError where `embed` does not give one finite vector a text.
    """
    vector_BD = np.asarray(embed(texts), float)
    if vector_BD.ndim != 2 or len(vector_BD) != len(texts):
        raise ValueError(
            f"embed gave shape {vector_BD.shape} for {len(texts)} texts; "
            f"it must give [{len(texts)}, D]"
        )
    if not np.isfinite(vector_BD).all():
        row = int(np.argmin(np.isfinite(vector_BD).all(1)))
        raise ValueError(f"embed gave numbers that are not finite for the text {texts[row][:80]!r}")
    norm_B = np.linalg.norm(vector_BD, axis=1, keepdims=True)
    return np.divide(vector_BD, norm_B, out=np.zeros_like(vector_BD), where=norm_B > 0)


class MeanCosine:
    """Mean cosine of texts to all texts added so far, or to the newest `window` of them.

    The sum's rounding moves the mean over N texts by less than N · 1e-16. With a window, which
    keeps its vectors (window · D · 8 bytes), the sum is made anew each time the window has passed
    over, so that no error piles up.
    """

    def __init__(self, embed: Embed = hashed, window: int | None = None) -> None:
        """`embed`: texts -> vectors [B, D] of any length.

        Raises ValueError for a window below 1.
        """
        if window is not None and window < 1:
            raise ValueError(f"window = {window}: it must be at least 1, or None for all texts")
        self.embed, self.window = embed, window
        self._sum_D: np.ndarray | None = None
        self._newest: deque[np.ndarray] = deque()
        self._count = self._dropped = 0

    def __len__(self) -> int:
        """The number of texts that count."""
        return self._count

    def add(self, texts: Sequence[str]) -> None:
        """More references. Raises ValueError where `embed` gives no finite vectors of one size."""
        if not len(texts):
            return
        vector_BD = unit(self.embed, texts)
        self._same_size(vector_BD)
        sum_D = vector_BD.sum(0)
        if self._sum_D is not None:
            sum_D = self._sum_D + sum_D
        self._count += len(vector_BD)
        if self.window is not None:
            sum_D = self._within(self.window, sum_D, vector_BD)
        self._sum_D = sum_D

    def _within(self, window: int, sum_D: np.ndarray, vector_BD: np.ndarray) -> np.ndarray:
        """The sum of the newest vectors alone."""
        self._newest.extend(vector_BD)
        while len(self._newest) > window:
            sum_D = sum_D - self._newest.popleft()
            self._dropped += 1
        self._count = len(self._newest)
        if self._dropped >= window:
            self._dropped = 0
            return sum(self._newest, np.zeros_like(sum_D))
        return sum_D

    def score(self, texts: Sequence[str]) -> np.ndarray:
        """The mean cosine of each text to the references [B], in [−1, 1]; 0 where there are no
        references.
        """
        if self._sum_D is None or not len(texts):
            return np.zeros(len(texts))
        vector_BD = unit(self.embed, texts)
        self._same_size(vector_BD)
        return vector_BD @ (self._sum_D / self._count)

    def _same_size(self, vector_BD: np.ndarray) -> None:
        if self._sum_D is not None and vector_BD.shape[1] != len(self._sum_D):
            raise ValueError(
                f"embed gave vectors of {vector_BD.shape[1]} numbers after vectors of "
                f"{len(self._sum_D)}"
            )


def diversity(
    texts: Sequence[str], embed: Embed = hashed, orders: Sequence[int] = (2, 3, 4, 5)
) -> dict[str, float]:
    """How alike and how diverse a set of texts is, each compared with all others.

    Returns self_bleu (mean over i of the mean BLEU of i against each other), bleu_diversity = 1 −
    self_bleu, cosine (mean over pairs), cosine_diversity = 1 − cosine/2; all NaN for fewer than two
    texts.
    """
    n = len(texts)
    if n < 2:
        return dict.fromkeys(
            ("self_bleu", "bleu_diversity", "cosine", "cosine_diversity"), math.nan
        )
    stored = SelfBleu(orders)
    stored.add(texts)
    own = np.array([_own(len(text.split()), orders) for text in texts])
    self_bleu = float(((n * stored.score(texts) - own) / (n - 1)).mean())
    vector_BD = unit(embed, texts)
    sum_D = vector_BD.sum(0)
    cosine = float((sum_D @ sum_D - (vector_BD**2).sum()) / (n * (n - 1)))
    return {
        "self_bleu": self_bleu,
        "bleu_diversity": 1 - self_bleu,
        "cosine": cosine,
        "cosine_diversity": 1 - cosine / 2,
    }


def _own(length: int, orders: Sequence[int]) -> float:
    """BLEU of a text of `length` words against itself: below 1 where it is shorter than an
    n-gram.
    """
    if not length:
        return 0.0
    matches = np.maximum(0, length - np.arange(max(orders)))
    return float(bleu(matches[:, None], length, orders)[0])
