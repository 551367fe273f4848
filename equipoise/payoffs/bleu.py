"""BLEU of a text to another, and of a text to every text written before (self-BLEU).

    BLEU-n(h; r) = BP · exp(1/n Σ_{i≤n} log p_i),  BP = exp(min(0, 1 − |r|/|h|))
    p_i = clipped matches / i-grams of h, with 0.1 matches in place of none

Source: Papineni et al. 2002, BLEU, §2; smoothing 1 of Chen and Cherry 2014, W14-3346; Zhu et al.
2018, Texygen, arXiv 1802.01886, §3.2 (self-BLEU).
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter, deque
from collections.abc import Sequence
from typing import Literal

import numpy as np

from equipoise.payoffs.words import Tokens, splitter

Unit = Literal["words", "characters"]
# Token ids: behind each reference; of a word that no reference has.
END, UNKNOWN = -1, -2
EPSILON = 0.1  # matches that are counted where there is none
SLACK = 1024  # dropped references that the index holds at least before it is rebuilt


def bleu(
    hypothesis: Sequence[str],
    reference: Sequence[str],
    order: int = 4,
    unmatched: float | None = EPSILON,
) -> float:
    """BLEU of one row of tokens to another, in [0, 1]; 0 where no token is shared.

    `unmatched` is counted as matches of an n where there is none: 0.1 is smoothing 1 of Chen and
    Cherry 2014; None: p_n is the least positive float there, as in NLTK without smoothing. Raises
    ValueError for an order below 1 or an `unmatched` that is not positive.

    >>> round(bleu("the dog ran off".split(), "the dog ran away".split(), order=2), 3)
    0.707
    """
    if order < 1 or (unmatched is not None and unmatched <= 0):
        raise ValueError(
            f"order = {order}, unmatched = {unmatched}: they must be at least 1 and above 0"
        )
    if not set(hypothesis) & set(reference):
        return 0.0
    log_n = [_log_precision(hypothesis, reference, n, unmatched) for n in range(1, order + 1)]
    log_brevity = min(0.0, 1 - len(reference) / len(hypothesis))
    return float(np.exp(log_brevity + np.mean(log_n)))


def text_bleu(text: str, ideal: str, unit: Unit = "words") -> float:
    """BLEU-4 of `text` to `ideal`, in [0, 1]: over smoothed words, or characters as in GTAlign's
    code.

    That code passes strings where lists of words are expected, so unrelated articles get some 0.36
    (over words 0.004), and does not smooth.

    >>> text_bleu("the dog ran off", "the dog ran off")
    1.0
    """
    if unit == "characters":
        return bleu(text, ideal, unmatched=None)
    return bleu(text.split(), ideal.split())


def _log_precision(
    hypothesis: Sequence[str], reference: Sequence[str], n: int, unmatched: float | None
) -> float:
    grams = _grams(hypothesis, n)
    matches = (grams & _grams(reference, n)).total()
    if not matches:
        if unmatched is None:
            return float(np.log(sys.float_info.min))
        matches = unmatched
    return float(np.log(matches / max(1, grams.total())))


def _grams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[k : k + n]) for k in range(len(tokens) - n + 1))


def mean_bleu(match_nR: np.ndarray, length: int, orders: Sequence[int]) -> np.ndarray:
    """The mean over `orders` of smoothed BLEU without brevity penalty [R]; 0 where no word matches.

    match_nR: clipped matches of 1-grams, 2-grams … [max(orders), R]; length: words of the
    hypothesis, ≥ 1.

    >>> mean_bleu(np.array([[4, 0], [3, 0]]), length=4, orders=(1, 2))
    array([1., 0.])
    """
    n_n1 = np.arange(1, len(match_nR) + 1)[:, None]
    match_or_none_nR = np.where(match_nR > 0, match_nR, EPSILON)
    log_nR = np.log(match_or_none_nR / np.maximum(1, length + 1 - n_n1))
    bleu_nR = np.exp(np.cumsum(log_nR, 0) / n_n1)
    return np.where(match_nR[0] > 0, bleu_nR[np.array(orders) - 1].mean(0), 0.0)


class SelfBleu:
    """BLEU of texts against all texts added so far, or the newest `window` of them, exactly.

        score(h) = 1/N Σ_r 1/|orders| Σ_n BLEU-n(h; r)

    For each word the index keeps the references that have it, and its places in them. Shared words
    alone fix the value of most references; only those that share two words in a row are counted
    further. Memory: about 12 bytes a word of each distinct reference, 250 bytes a distinct
    reference and 600 a distinct word.
    """

    def __init__(
        self,
        orders: Sequence[int] = (2, 3, 4, 5),
        window: int | None = None,
        tokens: Tokens = "whitespace",
    ) -> None:
        """`tokens`: words by white space, or as NLTK has them ("words").

        Raises ValueError for orders or a window below 1, ConfigError for unknown `tokens` or
        without NLTK.
        """
        if not orders or min(orders) < 1:
            raise ValueError(
                f"orders = {tuple(orders)}: name at least one, each of them at least 1"
            )
        if window is not None and window < 1:
            raise ValueError(f"window = {window}: it must be at least 1, or None for all texts")
        self.orders = tuple(orders)
        self.window = window
        self._words = splitter(tokens)
        self._clear()

    def _clear(self) -> None:
        # Word -> its id.
        self._ids: dict[str, int] = {}
        # The words of all distinct references, END behind each.
        self._token = array("i")
        # Of each reference: where it begins in _token, and how many texts it stands for.
        self._start = array("i")
        self._times = array("i")
        # A reference's ids -> its number.
        self._number: dict[bytes, int] = {}
        # Of each word: its places in _token, and the references that have it a k-th time.
        self._places: list[array[int]] = []
        self._sharers: list[list[array[int]]] = []
        # Numbers of the texts in the window; unused without a window.
        self._newest: deque[int] = deque()
        self._count = self._dropped = 0

    def __len__(self) -> int:
        return self._count

    def add(self, texts: Sequence[str]) -> None:
        """More references; an equal text counts again."""
        for text in texts:
            self._add(self._words(text))
        if self._dropped > max(SLACK, len(self._start) - self._dropped):
            self._rebuild()

    def score(self, texts: Sequence[str]) -> np.ndarray:
        """Mean BLEU of each text against the references [B], in [0, 1]; 0 without either."""
        if not self._count:
            return np.zeros(len(texts))
        reading = _Reading(self)
        total = {
            text: reading.total(
                [self._ids.get(spelling, UNKNOWN) for spelling in self._words(text)]
            )
            for text in set(texts)
        }
        return np.array([total[text] for text in texts], float) / self._count

    def _add(self, spellings: Sequence[str]) -> None:
        ids = array("i", [self._ids.setdefault(each, len(self._ids)) for each in spellings])
        number = self._number.setdefault(ids.tobytes(), len(self._start))
        if number == len(self._start):
            self._index(ids, number)
        elif not self._times[number]:
            self._dropped -= 1
        self._times[number] += 1
        self._count += 1
        if self.window is not None:
            self._newest.append(number)
            if self._count > self.window:
                oldest = self._newest.popleft()
                self._times[oldest] -= 1
                self._dropped += not self._times[oldest]
                self._count -= 1

    def _index(self, ids: array[int], number: int) -> None:
        start = len(self._token)
        self._start.append(start)
        self._times.append(0)
        seen: Counter[int] = Counter()
        for place, token in enumerate(ids, start):
            if token == len(self._places):
                self._places.append(array("i"))
                self._sharers.append([])
            self._places[token].append(place)
            if seen[token] == len(self._sharers[token]):
                self._sharers[token].append(array("i"))
            self._sharers[token][seen[token]].append(number)
            seen[token] += 1
        self._token.extend(ids)
        self._token.append(END)

    def _rebuild(self) -> None:
        """Rebuild the index from the texts that count, so that a window bounds memory and time."""
        spelling = list(self._ids)
        ends = [*self._start[1:], len(self._token)]
        texts = []
        for n in self._newest:
            ids = self._token[self._start[n] : ends[n] - 1]
            texts.append([spelling[i] for i in ids])
        self._clear()
        for text in texts:
            self._add(text)


class _Reading:
    """An index while a batch is scored, with look-ups that several texts share."""

    def __init__(self, index: SelfBleu) -> None:
        self.orders = index.orders
        self.places = index._places
        self.sharers = index._sharers
        self.token_T = np.frombuffer(index._token, np.intc)
        self.start_R = np.frombuffer(index._start, np.intc)
        self.times_R = np.frombuffer(index._times, np.intc)
        words_R = np.diff(self.start_R, append=len(index._token)) - 1
        self.length_L, self.length_R = np.unique(words_R, return_inverse=True)
        # Length of the hypothesis -> times · brevity penalty.
        self.weight_R: dict[int, np.ndarray] = {}
        # Word -> the token behind each of its places.
        self.followed: dict[int, np.ndarray] = {}
        # Two words -> their places.
        self.pairs: dict[tuple[int, ...], np.ndarray] = {}

    def total(self, ids: Sequence[int]) -> float:
        """The sum over all references, each as often as it was added, of BLEU against it."""
        length = len(ids)
        seen = Counter[int]()
        sharers = []
        for token in ids:
            if token != UNKNOWN and seen[token] < len(self.sharers[token]):
                sharer_S = np.frombuffer(self.sharers[token][seen[token]], np.intc)
                sharers.append(sharer_S)
            seen[token] += 1
        if not sharers:
            return 0.0
        # A reference is in a list for each word that it shares, and in k of those of a word that
        # both have k times.
        match_R = np.bincount(np.concatenate(sharers), minlength=len(self.start_R))
        only_words = np.zeros((max(self.orders), match_R.max() + 1))
        only_words[0] = np.arange(only_words.shape[1])
        bleu_R = mean_bleu(only_words, length, self.orders)[match_R]
        number_C, match_nC = self._longer(ids)
        match_nC[0] = match_R[number_C]
        bleu_R[number_C] = mean_bleu(match_nC, length, self.orders)
        if length not in self.weight_R:
            penalty_L = np.exp(np.minimum(0.0, 1 - self.length_L / length))
            self.weight_R[length] = self.times_R * penalty_L[self.length_R]
        return float(self.weight_R[length] @ bleu_R)

    def _longer(self, ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The references C that share two words in a row; clipped matches of n ≥ 2 words [n, C]."""
        number_C = np.zeros(0, np.intp)
        match_nC = np.zeros((max(self.orders), 0))
        shared: dict[tuple[int, ...], np.ndarray] = {}  # n-gram -> its places
        for n in range(2, max(self.orders) + 1):
            grams = Counter(tuple(ids[k : k + n]) for k in range(len(ids) - n + 1))
            places = {gram: self._where(gram, shared) for gram in grams}
            shared = {gram: place_P for gram, place_P in places.items() if len(place_P)}
            if not shared:
                break
            place_P = np.concatenate(list(shared.values()))
            lengths = [len(place_P) for place_P in shared.values()]
            gram_P = np.repeat(np.arange(len(shared)), lengths)
            number_P = np.searchsorted(self.start_R, place_P, "right") - 1
            key_P = number_P * len(shared) + gram_P
            key_U, count_U = np.unique(key_P, return_counts=True)
            most_U = np.array([grams[gram] for gram in shared])[key_U % len(shared)]
            number_U = key_U // len(shared)
            if n == 2:
                # They are in ascending order.
                number_C = number_U[np.diff(number_U, prepend=-1) > 0]
                match_nC = np.zeros((max(self.orders), len(number_C)))
            match_nC[n - 1] = np.bincount(
                np.searchsorted(number_C, number_U), np.minimum(count_U, most_U), len(number_C)
            )
        return number_C, match_nC

    def _where(
        self, gram: tuple[int, ...], shorter: dict[tuple[int, ...], np.ndarray]
    ) -> np.ndarray:
        """Places where the n-gram begins; `shorter` has those of (n − 1)-grams, none for n = 2."""
        if shorter:
            place_P = shorter.get(gram[:-1], np.zeros(0, np.intc))
            return place_P[self.token_T[place_P + len(gram) - 1] == gram[-1]]
        if gram not in self.pairs:
            self.pairs[gram] = self._places_of_pair(gram[0], gram[-1])
        return self.pairs[gram]

    def _places_of_pair(self, first: int, second: int) -> np.ndarray:
        if UNKNOWN in (first, second):
            return np.zeros(0, np.intc)
        place_P = np.frombuffer(self.places[first], np.intc)
        if first not in self.followed:
            self.followed[first] = self.token_T[place_P + 1]
        return place_P[self.followed[first] == second]
