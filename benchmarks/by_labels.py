"""What the labels alone allow, beside what was learned without seeing them: the more frequent
label, and a logistic regression on the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from equipoise.types import Prompt


def peer_accuracies(
    training: Sequence[Prompt], tests: Sequence[Prompt], fact: str
) -> dict[str, np.ndarray]:
    """Which labels of `tests` the more frequent label of `training` gets right, and which its words
    do, [T].
    """
    label_P = np.array([bool(prompt.facts[fact]) for prompt in training], float)
    label_T = np.array([bool(prompt.facts[fact]) for prompt in tests], float)
    guessed_T = by_words(
        [prompt.messages[-1].content for prompt in training],
        label_P,
        [prompt.messages[-1].content for prompt in tests],
    )
    return {
        "commoner label": label_T == (label_P.mean() > 0.5),
        "bag of words": label_T == guessed_T,
    }


def by_words(texts: Sequence[str], label_P: np.ndarray, tests: Sequence[str]) -> np.ndarray:
    """Labels [T] of `tests` by logistic regression on words and pairs of neighbours, fitted to
    (texts, label_P).

        min Σ log(1 + exp(−y (x·w + b))) + ½ λ |w|²
        x: which words are present, at unit length

    λ is the one of a few with which four fifths of the texts predict the last best.
    """
    names: dict[str, int] = {}
    for text in texts:
        for feature in features(text):
            names.setdefault(feature, len(names))
    x_PW, x_TW = presence(texts, names), presence(tests, names)
    cut = len(texts) * 4 // 5
    right = {}
    for decay in (0.03, 0.1, 0.3, 1.0, 3.0):
        weight_W = _fitted(x_PW[:cut], label_P[:cut], decay)
        right[decay] = (_guessed(x_PW[cut:], weight_W) == label_P[cut:]).mean()
    best = max(right, key=right.__getitem__)
    return _guessed(x_TW, _fitted(x_PW, label_P, best))


def features(text: str) -> Iterator[str]:
    """Its words and its pairs of neighbouring words."""
    tokens = re.findall(r"\w+", text.lower())
    yield from tokens
    yield from map(" ".join, pairwise(tokens))


def presence(texts: Sequence[str], names: dict[str, int]) -> Any:
    """[B, W]: 1 / √(number of features) under each feature of a text that has a name."""
    present = [
        sorted({names[feature] for feature in features(text) if feature in names}) for text in texts
    ]
    counts = [len(row) for row in present]
    value = np.concatenate([np.full(count, count**-0.5) for count in counts if count])
    ends = np.cumsum([0, *counts])
    column = np.concatenate(present).astype(int)
    return csr_matrix((value, column, ends), (len(texts), len(names)))


def _fitted(x_BW: Any, label_B: np.ndarray, decay: float) -> np.ndarray:
    sign_B = 2 * label_B - 1

    def loss(weight_W: np.ndarray) -> tuple[float, np.ndarray]:
        margin_B = sign_B * (x_BW @ weight_W[:-1] + weight_W[-1])
        slope_B = -sign_B / (1 + np.exp(margin_B))
        gradient_W = np.append(x_BW.T @ slope_B + decay * weight_W[:-1], slope_B.sum())
        penalty = decay / 2 * weight_W[:-1] @ weight_W[:-1]
        return np.logaddexp(0, -margin_B).sum() + penalty, gradient_W

    return minimize(loss, np.zeros(x_BW.shape[1] + 1), jac=True, method="L-BFGS-B").x


def _guessed(x_BW: Any, weight_W: np.ndarray) -> np.ndarray:
    return x_BW @ weight_W[:-1] + weight_W[-1] > 0
