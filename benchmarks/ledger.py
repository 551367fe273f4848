"""The speed of the ledger, and the seconds of `status` on a large run.

    python -m benchmarks.ledger [--records 1000000]

Writes matches (with a turn, token ids and log-probabilities) and their judgements in the run's own
transactions; its peer in the same run is SQLite itself with the same rows as ready-made text.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.running import equipoise, write_results
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Match, Move, PlayerId, Turn, View, record_id, user

CHUNK = 256


def matches(count: int) -> Iterator[Match]:
    """Matches such as a run records: a short chat, a short answer with its token ids and
    log-probabilities.
    """
    seats = {"1": PlayerId("policy", 1)}
    view = View((user("What is 7 + 12?"),))
    tokens, logprobs = tuple(range(12)), tuple(-0.1 * i for i in range(12))
    for i in range(count):
        move = Move(f"answer {i}", "stop", tokens, logprobs, prompt_tokens=9)
        prompt = record_id("prompt", i // 4)
        yield _match(i, prompt, seats, (Turn("1", view, move),))


def _match(i: int, prompt: str, seats: dict[str, PlayerId], turns: tuple[Turn, ...] = ()) -> Match:
    ident = record_id("match", i)
    return Match(ident, i % 4, "train", "answers", prompt, seats, i, turns)


def judged(match: Match) -> tuple[Match, Judgement]:
    """The match with a judgement of it."""
    scores = {"1": {"score": 1.0}}
    return match, Judgement(record_id("j", match.id), match.id, "exact", scores)


def fill(run: RunDirectory, records: int) -> tuple[float, float]:
    """(records a second through the ledger, rows a second through bare SQLite with the same
    transactions).
    """
    made = list(matches(min(records, 40_000) // 2))
    pairs = [judged(match) for match in made]
    started = time.perf_counter()
    for start in range(0, len(made), CHUNK):
        run.ledger.add_matches(made[start : start + CHUNK])
        run.ledger.add_judgements(pairs[start : start + CHUNK])
    ours = 2 * len(made) / (time.perf_counter() - started)
    rows = list(run.ledger.rows("SELECT id, generation, split, prompt, record FROM matches"))
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "bare.sqlite", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(
            "CREATE TABLE matches (id TEXT UNIQUE, generation INTEGER, split TEXT, "
            "prompt TEXT, record TEXT)"
        )
        db.execute("CREATE INDEX part ON matches (split, generation)")
        started = time.perf_counter()
        for start in range(0, len(rows), CHUNK):
            db.execute("BEGIN")
            db.executemany(
                "INSERT OR IGNORE INTO matches VALUES (?, ?, ?, ?, ?)", rows[start : start + CHUNK]
            )
            db.execute("COMMIT")
        bare = len(rows) / (time.perf_counter() - started)
        db.close()
    return ours, bare


def fill_up(run: RunDirectory, records: int) -> None:
    """Bare matches and judgements until there are about `records` of them."""
    seats = {"1": PlayerId("policy")}
    for start in range(20_000, records // 2, CHUNK):
        numbers = range(start, min(start + CHUNK, records // 2))
        made = [_match(i, "p", seats) for i in numbers]
        run.ledger.add_matches(made)
        run.ledger.add_judgements([judged(match) for match in made])


def seconds_of(*arguments: str) -> float:
    """The median seconds of the whole command, over five calls."""
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        equipoise(*arguments)
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[2]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    records = options.records
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with new_run(recipe_loader.load("rock_paper_scissors"), path) as run:
            ours, bare = fill(run, records)
            fill_up(run, records)
            counts = run.ledger.counts()
        status = seconds_of("status", str(path), "--json")
    total = counts["matches"] + counts["judgements"]
    if options.json:
        figures = {"ours": ours, "bare": bare, "status": status, "total": total}
        write_results(options.json, figures, records=records)
    console.print(
        f"ledger          {ours:,.0f} records/s ({ours / bare:.2f} of bare SQLite "
        "with ready-made rows)"
    )
    console.print(
        f"status          {status:.2f} s, the whole command, on a run of {total:,} records"
    )
    console.print(f"--help          {seconds_of('--help'):.2f} s")


if __name__ == "__main__":
    main()
