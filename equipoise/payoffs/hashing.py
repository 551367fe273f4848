"""Texts as vectors without a model: signed feature hashing of words, word pairs and character
n-grams.

    v[bucket(f)] += sign(f) · (1 + log tf(f))  over the features f of a text,   v / |v|

Texts of like spelling have a small angle; likeness of meaning needs an encoder. Hashes are plain
arithmetic, not Python's `hash`, so a text has the same vector in every process. Source: Weinberger
et al. 2009, Feature Hashing, arXiv 0902.2206, §2.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

SIZE = 512  # numbers of a vector
CHARACTERS = (3, 4, 5)  # bytes of UTF-8 in a character n-gram
# Texts that are hashed at once; a row's number and a feature's 44 bits share an integer.
ROWS = 1024
WORD = re.compile(r"\w+")


def hashed(texts: Sequence[str]) -> np.ndarray:
    """Unit vectors [B, 512] of texts, float64; case and the kind of whitespace do not matter.

    A text of whitespace alone has the zero vector.
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
    """(row, hash) of every word and of every two neighbours."""
    rows, hashes = [], []
    for row, text in enumerate(texts):
        codes = [
            zlib.crc32(spelling.encode("utf-8", "surrogatepass")) for spelling in WORD.findall(text)
        ]
        pairs = [(first << 32 | second) for first, second in pairwise(codes)]
        hashes += codes + pairs
        rows += [row] * (len(codes) + len(pairs))
    return np.array(rows, np.uint64), _mixed(np.array(hashes, np.uint64))


def _characters(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(row, hash) of every character n-gram of ` text `, by one polynomial over the bytes of all
    texts.
    """
    spelled = [f" {text} ".encode("utf-8", "surrogatepass") if text else b"" for text in texts]
    byte_N = np.frombuffer(b"".join(spelled), np.uint8).astype(np.uint64)
    length_B = np.array([len(text) for text in spelled], np.intp)
    row_N = np.repeat(np.arange(len(texts)), length_B)
    end_N = np.repeat(np.cumsum(length_B), length_B)
    left_N = end_N - np.arange(len(byte_N))  # bytes from here to the text's end
    rows, hashes = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
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
