"""The speed of parsing outputs of four blocks, beside reading their matrices alone, and the fate of
a hundred thousand mangled outputs.

    python -m benchmarks.blocks [--outputs 20000] [--mangled 100000]

The outputs are of the published length (some 700 characters); the peer of the same run is
`json.loads` on the matrix, which any reader of it needs. Mangled outputs come from
tests/environments/assistance/mangled.py; a text counts as broken where anything but the parser's
own error is raised.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from equipoise.environments.assistance.blocks import FormatError, parse, write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell, write_matrix
from equipoise.environments.assistance.responses import response_action

VOCABULARY = [
    "the",
    "question",
    "is",
    "clear",
    "and",
    "a",
    "short",
    "answer",
    "helps",
    "both",
    "while",
    "asking",
    "back",
    "would",
    "cost",
    "a",
    "turn",
    "of",
    "the",
    "user",
]


def outputs(count: int) -> list[str]:
    """Well formed outputs of some 700 characters."""
    rng = random.Random(0)

    def prose(n: int) -> str:
        return " ".join(rng.choices(VOCABULARY, k=n))

    def number() -> float:
        return round(rng.uniform(-5, 5), 1)

    texts = []
    for _ in range(count):
        thinking = prose(30)
        matrix = {cell: Cell(number(), number()) for cell in CELLS}
        analysis = f"{prose(12)}. I choose {rng.choice(CELLS)}."
        texts.append(write(thinking, matrix, analysis, prose(20)))
    return texts


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blocks", description=__doc__)
    parser.add_argument("--outputs", type=int, default=20_000, help="well formed outputs to time")
    parser.add_argument("--mangled", type=int, default=100_000, help="mangled outputs")
    options = parser.parse_args()
    texts = outputs(options.outputs)
    matrices = [write_matrix(parse(text).matrix or {}) for text in texts]
    python = [text.replace('"', "'") for text in texts]
    table = Table("read", "a second", "of the peer's speed", box=None)
    rates = {}
    for name, read, rows in (
        ("json.loads of the matrix (peer)", json.loads, matrices),
        ("parse", parse, texts),
        ("parse, Python's quotes", parse, python),
        ("parse and the chosen cell", lambda text: parse(text).chosen, texts),
    ):
        started = time.perf_counter()
        for row in rows:
            read(row)
        rates[name] = len(rows) / (time.perf_counter() - started)
        table.add_row(
            name, f"{rates[name]:,.0f}", f"{rates[name] / next(iter(rates.values())):.2f}"
        )
    Console().print(table)
    fates = parse_mangled(options.mangled)
    counts = (f"{count:,} {fate}" for fate, count in fates.most_common())
    Console().print(", ".join(counts), highlight=False)


def parse_mangled(count: int) -> Counter[str]:
    """How many mangled outputs are well formed, refused, or break the parser."""
    tests = Path(__file__).parents[1] / "tests" / "environments" / "assistance"
    sys.path.insert(0, str(tests))
    from mangled import mangled  # pyright: ignore[reportMissingImports]

    rng, fates = random.Random(1), Counter[str]()
    for _ in range(count):
        text = mangled(rng)
        try:
            parsed = parse(text, strict=True)
            response_action(parsed.response or "")
            fates["well formed"] += 1
        except FormatError:
            fates["refused, with a reason"] += 1
        # The benchmark counts what should never happen.
        except Exception as error:  # noqa: BLE001
            fates[f"broke: {type(error).__name__}"] += 1
    return fates


if __name__ == "__main__":
    main()
