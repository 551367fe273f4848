"""How fast the ledger writes and reads, and how long `status` takes on a large run.

    python -m benchmarks.ledger [--records 1000000]

Writes matches (with a turn, token ids and log-probabilities) and their judgements in
the run's own transactions; its peer in the same run is SQLite itself, given the same
rows as ready-made text.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from equipoise.run import recipes
from equipoise.run.directory import Run
from equipoise.types import (
    Judgement,
    Match,
    Move,
    PlayerId,
    Turn,
    View,
    record_id,
    user,
)

CHUNK = 256


def matches(count: int) -> Iterator[Match]:
    """Matches such as a run records: a short chat, a short answer with its token ids
    and log-probabilities.
    """
    who, tokens = {"1": PlayerId("policy", 1)}, tuple(range(12))
    view, logprobs = (
        View((user("What is 7 + 12?"),)),
        tuple(-0.1 * i for i in range(12)),
    )
    for i in range(count):
        turn = Turn(
            "1",
            view,
            Move(f"answer {i}", token_ids=tokens, logprobs=logprobs, prompt_tokens=9),
        )
        yield Match(
            record_id("match", i),
            i % 4,
            "train",
            "answers",
            record_id("prompt", i // 4),
            who,
            i,
            (turn,),
        )


def fill(run: Run, records: int) -> tuple[float, float]:
    """(records a second through the ledger, rows a second through bare SQLite with the
    same transactions).
    """
    made = list(matches(min(records, 40_000) // 2))
    pairs = [
        (m, Judgement(record_id("j", m.id), m.id, "exact", {"1": {"score": 1.0}}))
        for m in made
    ]
    started = time.perf_counter()
    for start in range(0, len(made), CHUNK):
        run.ledger.add_matches(made[start : start + CHUNK])
        run.ledger.add_judgements(pairs[start : start + CHUNK])
    ours = 2 * len(made) / (time.perf_counter() - started)
    rows = list(run.ledger.rows("SELECT * FROM matches"))
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "bare.sqlite", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(
            "CREATE TABLE matches (id TEXT UNIQUE, generation INTEGER, split TEXT, prompt TEXT, record TEXT)"
        )
        db.execute("CREATE INDEX part ON matches (split, generation)")
        started = time.perf_counter()
        for start in range(0, len(rows), CHUNK):
            db.execute("BEGIN")
            db.executemany(
                "INSERT OR IGNORE INTO matches VALUES (?, ?, ?, ?, ?)",
                rows[start : start + CHUNK],
            )
            db.execute("COMMIT")
        bare = len(rows) / (time.perf_counter() - started)
        db.close()
    return ours, bare


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000)
    records = parser.parse_args().records
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with Run.create(recipes.load("rock_paper_scissors"), path) as run:
            ours, bare = fill(run, records)
            for start in range(20_000, records // 2, 20_000):
                for chunk_start in range(0, 20_000, CHUNK):
                    made = [
                        Match(
                            record_id("match", i),
                            i % 4,
                            "train",
                            "answers",
                            "p",
                            {"1": PlayerId("policy")},
                            i,
                        )
                        for i in range(
                            start + chunk_start,
                            start + min(chunk_start + CHUNK, 20_000),
                        )
                    ]
                    run.ledger.add_matches(made)
                    run.ledger.add_judgements(
                        (
                            m,
                            Judgement(
                                record_id("j", m.id),
                                m.id,
                                "exact",
                                {"1": {"score": 1.0}},
                            ),
                        )
                        for m in made
                    )
            counts = run.ledger.counts()
        seconds = []
        for _ in range(5):
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "equipoise", "status", str(path), "--json"],
                check=True,
                capture_output=True,
            )
            seconds.append(time.perf_counter() - started)
    total = counts["matches"] + counts["judgements"]
    console.print(
        f"ledger          {ours:,.0f} records/s ({ours / bare:.2f} of bare SQLite given ready-made rows)"
    )
    console.print(
        f"status          {sorted(seconds)[2]:.2f} s, the whole command, on a run of {total:,} records"
    )
    help_ = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "equipoise", "--help"],
            check=True,
            capture_output=True,
        )
        help_.append(time.perf_counter() - started)
    console.print(f"--help          {sorted(help_)[2]:.2f} s")


if __name__ == "__main__":
    main()
