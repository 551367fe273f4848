"""How fast outputs are taken apart, beside reading their matrices alone, and what a
hundred thousand broken ones do.

    python -m benchmarks.four_blocks [--outputs 20000] [--mangled 100000]

The outputs are of the published length (some 700 characters); the peer of the same run
is `json.loads` on the matrix, which anybody who reads it must do. Mangled outputs come
from tests/games/mangled.py; a text counts as broken where anything but the parser's own
error is raised.
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
from equipoise.environments.assistance.response_action import response_action

WORDS = [
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
    dice = random.Random(0)

    def words(n: int) -> str:
        return " ".join(dice.choices(WORDS, k=n))

    return [
        write(
            words(30),
            {
                cell: Cell(round(dice.uniform(-5, 5), 1), round(dice.uniform(-5, 5), 1))
                for cell in CELLS
            },
            f"{words(12)}. I choose {dice.choice(CELLS)}.",
            words(20),
        )
        for _ in range(count)
    ]


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.four_blocks", description=__doc__
    )
    parser.add_argument(
        "--outputs", type=int, default=20_000, help="well formed outputs that are timed"
    )
    parser.add_argument("--mangled", type=int, default=100_000, help="mangled outputs")
    asked = parser.parse_args()
    texts = outputs(asked.outputs)
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
            name,
            f"{rates[name]:,.0f}",
            f"{rates[name] / next(iter(rates.values())):.2f}",
        )
    Console().print(table)
    sys.path.insert(
        0, str(Path(__file__).parents[1] / "tests" / "environments" / "assistance")
    )
    from mangled import mangled

    dice, found = random.Random(1), Counter()
    for _ in range(asked.mangled):
        text = mangled(dice)
        try:
            parsed = parse(text, strict=True)
            response_action(parsed.response or "")
            found["well formed"] += 1
        except FormatError:
            found["refused, with a reason"] += 1
        except Exception as error:  # noqa: BLE001  the benchmark counts what should never happen
            found[f"broke: {type(error).__name__}"] += 1
    Console().print(
        ", ".join(f"{count:,} {name}" for name, count in found.most_common()),
        highlight=False,
    )


if __name__ == "__main__":
    main()
