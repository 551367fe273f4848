"""Likeness of texts to each other and to all texts written before, exactly.

    MeanCosine   1/N Σ_r u(h)·u(r) = u(h) · (1/N Σ_r u(r)): a single vector stands for all
                 N references
    of a set     cosine = 1/(n(n − 1)) Σ_{i≠j} u_i·u_j = (|Σ u|² − Σ|u|²) / (n(n − 1)),
                 with `itself` |Σ u|²/n²

Source: GPO, arXiv 2406.10977, §4 (diversity rewards and the diversity of prompts).
"""

import math
import re
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from equipoise.payoffs.bleu import SelfBleu, mean_bleu
from equipoise.payoffs.words import Tokens, splitter

__all__ = ["Embed", "MeanCosine", "SelfBleu", "diversity"]

Embed = Callable[[Sequence[str]], np.ndarray]  # texts -> vectors [B, D]

SIZE = 512  # numbers of a vector
CHARACTERS = (3, 4, 5)  # bytes of UTF-8 in a character n-gram
# Texts that are hashed at once; a row's number and a feature's 44 bits share an integer.
ROWS = 1024
WORD = re.compile(r"\w+")


def hash_vectors(texts: Sequence[str]) -> np.ndarray:
    """Unit vectors [B, 512] of texts, float64, by signed feature hashing of words and n-grams.

        v[bucket(f)] += sign(f) · (1 + log tf(f))  over the features f of a text,   v / |v|

    Features: words, word pairs and character n-grams, without case or kind of whitespace. Texts of
    like spelling have a small angle; likeness of meaning needs an encoder. A text has the same
    vector in every process, a blank one the zero vector. Source: Weinberger et al. 2009, Feature
    Hashing, arXiv 0902.2206, §2.

    >>> like, other = hash_vectors(["a red house", "a tree"]) @ hash_vectors(["red houses"])[0]
    >>> bool(like > other)
    True
    """
    vector_BD = np.zeros((len(texts), SIZE))
    for start in range(0, len(texts), ROWS):
        chunk = [" ".join(text.lower().split()) for text in texts[start : start + ROWS]]
        (word_row_F, word_F), (gram_row_F, gram_F) = _words(chunk), _characters(chunk)
        row_F = np.concatenate([word_row_F, gram_row_F])
        feature_F = np.concatenate([word_F, gram_F])
        key_F = row_F << np.uint64(44) | feature_F >> np.uint64(20)
        key_U, times_U = np.unique(key_F, return_counts=True)
        bucket_U = (key_U & np.uint64(SIZE - 1)).astype(np.intp)
        sign_U = np.where(key_U >> np.uint64(20) & np.uint64(1), 1.0, -1.0)
        cell_U = (key_U >> np.uint64(44)).astype(np.intp) * SIZE + bucket_U
        value = np.bincount(cell_U, sign_U * (1 + np.log(times_U)), len(chunk) * SIZE)
        vector_BD[start : start + len(chunk)] = value.reshape(len(chunk), SIZE)
    norm_B = np.linalg.norm(vector_BD, axis=1, keepdims=True)
    return np.divide(vector_BD, norm_B, out=vector_BD, where=norm_B > 0)


def _words(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    rows = []
    hashes = []
    for row, text in enumerate(texts):
        codes = [
            zlib.crc32(spelling.encode("utf-8", "surrogatepass")) for spelling in WORD.findall(text)
        ]
        pairs = [(first << 32 | second) for first, second in pairwise(codes)]
        hashes += codes + pairs
        rows += [row] * (len(codes) + len(pairs))
    return np.array(rows, np.uint64), _mixed(np.array(hashes, np.uint64))


def _characters(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(row, hash) of every character n-gram of ` text `, by one polynomial over all bytes."""
    spelled = [f" {text} ".encode("utf-8", "surrogatepass") if text else b"" for text in texts]
    byte_N = np.frombuffer(b"".join(spelled), np.uint8).astype(np.uint64)
    length_B = np.array([len(text) for text in spelled], np.intp)
    row_N = np.repeat(np.arange(len(texts)), length_B)
    end_N = np.repeat(np.cumsum(length_B), length_B)
    left_N = end_N - np.arange(len(byte_N))  # bytes from here to the text's end
    rows = [np.zeros(0, np.uint64)]
    hashes = [np.zeros(0, np.uint64)]
    for n in CHARACTERS:
        first_F = np.flatnonzero(left_N >= n)
        # Begun with n, so that n-grams of different lengths differ in their hashes.
        code_F = np.full(len(first_F), n, np.uint64)
        for k in range(n):
            code_F = code_F << np.uint64(8) | byte_N[first_F + k]
        rows.append(row_N[first_F].astype(np.uint64))
        hashes.append(_mixed(code_F + np.uint64(1 << 63)))
    return np.concatenate(rows), np.concatenate(hashes)


def _mixed(code_F: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser: every bit of the code moves every bit of the hash."""
    code_F = code_F + np.uint64(0x9E3779B97F4A7C15)
    code_F = (code_F ^ code_F >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    code_F = (code_F ^ code_F >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return code_F ^ code_F >> np.uint64(31)


def unit_vectors(embed: Embed, texts: Sequence[str]) -> np.ndarray:
    """The texts' vectors at length 1 [B, D]; a zero vector stays zero. Raises ValueError if not
    finite.

    >>> unit_vectors(lambda texts: np.array([[3.0, 4.0]]), ["a text"])
    array([[0.6, 0.8]])
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

    Rounding moves the mean over N texts by less than N · 1e-16. A window keeps its vectors (window
    · D · 8 bytes) and sums anew each time it has passed over.
    """

    def __init__(self, embed: Embed = hash_vectors, window: int | None = None) -> None:
        """`embed`: texts -> vectors [B, D]. Raises ValueError for a window below 1."""
        if window is not None and window < 1:
            raise ValueError(f"window = {window}: it must be at least 1, or None for all texts")
        self.embed = embed
        self.window = window
        self._sum_D: np.ndarray | None = None
        self._newest: deque[np.ndarray] = deque()
        self._count = self._dropped = 0

    def __len__(self) -> int:
        return self._count

    def add(self, texts: Sequence[str]) -> None:
        """More references. Raises ValueError where `embed` gives no finite vectors of one size."""
        if not len(texts):
            return
        vector_BD = unit_vectors(self.embed, texts)
        self._same_size(vector_BD)
        sum_D = vector_BD.sum(0)
        if self._sum_D is not None:
            sum_D = self._sum_D + sum_D
        self._count += len(vector_BD)
        if self.window is not None:
            sum_D = self._within(self.window, sum_D, vector_BD)
        self._sum_D = sum_D

    def _within(self, window: int, sum_D: np.ndarray, vector_BD: np.ndarray) -> np.ndarray:
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
        """Mean cosine of each text to the references [B], in [−1, 1]; 0 without references."""
        if self._sum_D is None or not len(texts):
            return np.zeros(len(texts))
        vector_BD = unit_vectors(self.embed, texts)
        self._same_size(vector_BD)
        return vector_BD @ (self._sum_D / self._count)

    def _same_size(self, vector_BD: np.ndarray) -> None:
        if self._sum_D is not None and vector_BD.shape[1] != len(self._sum_D):
            raise ValueError(
                f"embed gave vectors of {vector_BD.shape[1]} numbers after vectors of "
                f"{len(self._sum_D)}"
            )


def diversity(
    texts: Sequence[str],
    embed: Embed = hash_vectors,
    orders: Sequence[int] = (2, 3, 4, 5),
    *,
    itself: bool = False,
    tokens: Tokens = "whitespace",
) -> dict[str, float]:
    """Likeness and diversity of a set of texts, each compared with all others, or with `itself`
    too.

    GPO's released code counts the text itself, over `tokens` "words": n texts that share nothing
    then have a self_bleu and a cosine of 1/n. Returns the means self_bleu, bleu_diversity = 1 −
    self_bleu, cosine (over pairs), cosine_diversity = 1 − cosine/2; all NaN for fewer than two
    texts.

    >>> diversity(["the same text here now"] * 2)["self_bleu"]
    1.0
    """
    n = len(texts)
    if n < 2:
        return dict.fromkeys(
            ("self_bleu", "bleu_diversity", "cosine", "cosine_diversity"), math.nan
        )
    stored = SelfBleu(orders, tokens=tokens)
    stored.add(texts)
    words = splitter(tokens)
    own = [0.0 if itself else _own(len(words(text)), orders) for text in texts]
    compared = n if itself else n - 1
    self_bleu = float((n * stored.score(texts) - np.array(own)).mean() / compared)
    vector_BD = unit_vectors(embed, texts)
    sum_D = vector_BD.sum(0)
    own_cosines = 0.0 if itself else (vector_BD**2).sum()
    cosine = float((sum_D @ sum_D - own_cosines) / (n * compared))
    return {
        "self_bleu": self_bleu,
        "bleu_diversity": 1 - self_bleu,
        "cosine": cosine,
        "cosine_diversity": 1 - cosine / 2,
    }


def _own(length: int, orders: Sequence[int]) -> float:
    """BLEU of a text of `length` words against itself: below 1 where shorter than an n-gram."""
    if not length:
        return 0.0
    matches = np.maximum(0, length - np.arange(max(orders)))
    return float(mean_bleu(matches[:, None], length, orders)[0])
