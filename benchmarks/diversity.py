"""The cost of comparing a batch of texts with all texts stored before, exactly, beside computing it
directly.

    python -m benchmarks.diversity [--stored 1000 10000 100000] [--hypotheses 2]

The texts are words drawn by Zipf's law (5000 words, 8 to 20 a text). The peers of the same run: the
mean cosine by the product with all stored vectors, and BLEU by its definition in plain Python
against each stored text, whose n-grams are counted beforehand. The latter is timed on
`--hypotheses` texts of the batch and scaled to all of it.
"""

from __future__ import annotations

import argparse
import math
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.running import write_results
from equipoise.payoffs.diversity import MeanCosine, SelfBleu, hash_vectors

T = TypeVar("T")
BATCH, VOCABULARY, SHORTEST, LONGEST = 64, 5000, 8, 20
ORDERS = (2, 3, 4, 5)
REPEATS = 5  # timings, of which the median counts
MEBI = 2**20


def sentences(count: int, seed: int) -> list[str]:
    """Texts of words whose frequency is the inverse of their rank."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, VOCABULARY + 1)
    lengths = rng.integers(SHORTEST, LONGEST + 1, count)
    ranks = rng.choice(VOCABULARY, int(lengths.sum()), p=chance / chance.sum())
    rows = np.split(ranks, np.cumsum(lengths)[:-1])
    return [" ".join(f"w{rank}" for rank in row) for row in rows]


def grams(text: str) -> list[Counter[tuple[str, ...]]]:
    """The text's n-grams by n, counted."""
    tokens = text.split()
    return [
        Counter(zip(*(tokens[k:] for k in range(n)), strict=False))
        for n in range(1, max(ORDERS) + 1)
    ]


def direct_bleu(text: str, counted: Sequence[list[Counter[tuple[str, ...]]]]) -> float:
    """The mean of BLEU-2 … 5 against each text whose n-grams are given."""
    ours, total = grams(text), 0.0
    length = sum(ours[0].values())
    for theirs in counted:
        logs = []
        for mine, other in zip(ours, theirs, strict=True):
            matches = sum(min(times, other[gram]) for gram, times in mine.items() if gram in other)
            if not matches and not logs:
                break
            logs.append(math.log((matches or 0.1) / max(1, sum(mine.values()))))
        else:
            penalty = math.exp(min(0.0, 1 - sum(theirs[0].values()) / length))
            total += penalty * sum(math.exp(sum(logs[:n]) / n) for n in ORDERS) / len(ORDERS)
    return total / len(counted)


def timed(work: Callable[[], T], repeats: int = REPEATS) -> tuple[T, float]:
    """(the result of `work`, the median of its seconds)."""
    results, seconds = [], []
    for _ in range(repeats):
        started = time.perf_counter()
        results.append(work())
        seconds.append(time.perf_counter() - started)
    return results[-1], sorted(seconds)[len(seconds) // 2]


def add(stored: SelfBleu | MeanCosine, texts: Sequence[str]) -> None:
    """Store the texts batch by batch, as a run does."""
    for start in range(0, len(texts), BATCH):
        stored.add(texts[start : start + BATCH])


def memory(stored: SelfBleu | MeanCosine, texts: Sequence[str]) -> float:
    """MiB that `stored` uses for the texts, beside the texts themselves."""
    tracemalloc.start()
    add(stored, texts)
    taken = tracemalloc.get_traced_memory()[0] / MEBI
    tracemalloc.stop()
    return taken


def bleu(references: Sequence[str], batch: Sequence[str], hypotheses: int) -> Timing:
    """The figures of self-BLEU."""
    mebi = memory(SelfBleu(ORDERS), references)
    stored = SelfBleu(ORDERS)
    _, filling = timed(lambda: add(stored, references), 1)
    ours_B, ours = timed(lambda: stored.score(batch))
    counted = [grams(text) for text in references]
    direct_H, direct = timed(
        lambda: np.array([direct_bleu(text, counted) for text in batch[:hypotheses]]), 1
    )
    direct *= len(batch) / hypotheses
    return Timing(
        "self-BLEU",
        len(references),
        direct,
        ours,
        float(np.abs(direct_H - ours_B[:hypotheses]).max()),
        mebi,
        filling,
    )


def cosine(references: Sequence[str], batch: Sequence[str]) -> Timing:
    """The figures of the mean cosine, the vectors being known."""
    vector_ND = np.concatenate(
        [
            hash_vectors(references[start : start + 1000])
            for start in range(0, len(references), 1000)
        ]
    )
    vector_BD = hash_vectors(batch)
    known = dict(zip([*references, *batch], [*vector_ND, *vector_BD], strict=True))
    stored, filled = (
        MeanCosine(lambda texts: np.stack([known[text] for text in texts])) for _ in range(2)
    )
    mebi = memory(filled, references)
    _, filling = timed(lambda: add(stored, references), 1)
    ours_B, ours = timed(lambda: stored.score(batch))
    direct_B, direct = timed(lambda: (vector_BD @ vector_ND.T).mean(1))
    return Timing(
        "cosine",
        len(references),
        direct,
        ours,
        float(np.abs(direct_B - ours_B).max()),
        mebi,
        filling,
    )


@dataclass(frozen=True)
class Timing:
    """What scoring a batch against stored texts costs, directly and by ours.

    Seconds; `differ` is the largest difference of a score, `mebi` the MiB of what is stored beside
    the texts, `filling` the seconds of storing them.
    """

    name: str
    stored: int
    direct: float
    ours: float
    differ: float
    mebi: float
    filling: float

    def cells(self) -> list[str]:
        """A row of the table."""
        return [
            self.name,
            f"{self.stored:,}",
            f"{self.direct:.2g}",
            f"{self.ours:.2g}",
            f"{self.direct / self.ours:,.0f}",
            f"{self.differ:.0e}",
            f"{self.mebi:.1f}",
            f"{self.filling / self.stored * 1e6:.1f}",
        ]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stored", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument(
        "--hypotheses", type=int, default=2, help="texts that direct BLEU is timed on"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    batch, texts = sentences(BATCH, 1), sentences(max(arguments.stored), 0)
    table = Table("", "stored", "direct s", "ours s", "ratio", "differ", "MiB", "µs to add")
    every: list[Timing] = []
    for stored in arguments.stored:
        every.append(cosine(texts[:stored], batch))
        every.append(bleu(texts[:stored], batch, arguments.hypotheses))
    for timing in every:
        table.add_row(*timing.cells())
    if arguments.json:
        write_results(arguments.json, [asdict(timing) for timing in every])
    console = Console()
    console.print(
        f"a batch of {BATCH} texts against all stored; direct BLEU is scaled from "
        f"{arguments.hypotheses} texts"
    )
    console.print(table)
    _, hashing = timed(lambda: hash_vectors(batch))
    console.print(f"hashed vectors of the batch: {hashing * 1e3:.2f} ms, in neither cosine's time")


if __name__ == "__main__":
    main()
