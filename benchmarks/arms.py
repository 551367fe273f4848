"""Arms played over seeds: the options that such benchmarks share, and their loop."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from benchmarks.comparing import paired
from benchmarks.running import equipoise, with_settings, write_results
from equipoise.payoffs.intervals import Interval

Row = Mapping[str, Any]
Played = TypeVar("Played")
WIDTH = 150  # of what is printed into a file


def parser(
    doc: str | None, arms: Iterable[str], seeds: list[int], generations: int
) -> argparse.ArgumentParser:
    """The options --seeds, --arms, --generations, --jobs, --out, --join and --json."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = list(arms)
    made.add_argument("--seeds", type=int, nargs="*", default=seeds)
    made.add_argument("--arms", nargs="+", default=every, choices=every)
    made.add_argument("--generations", type=int, default=generations, help="of each arm's run")
    made.add_argument("--jobs", type=int, default=1, help="seeds played side by side")
    made.add_argument(
        "--out", type=Path, help="keep the runs here; those that are here are not played again"
    )
    made.add_argument(
        "--join",
        type=Path,
        nargs="+",
        default=[],
        help="raw results of other seeds, taken into this one",
    )
    made.add_argument("--json", type=Path, help="write every run's figures here")
    return made


def name_of(arm: str, seed: int) -> str:
    """The name of an arm's folder."""
    return f"{arm.replace(' ', '_').replace(',', '')}-{seed}"


def played(recipe: str, folder: Path, seed: int, overrides: Iterable[str]) -> Path:
    """A run of the recipe with these overrides, in a process, to its end where it has not been
    played to it yet.
    """
    if (folder / "report.html").exists():
        return folder
    if (folder / "config.yaml").exists():
        equipoise("resume", str(folder), "--json")
    else:
        settings = with_settings([*overrides, f"seed={seed}"])
        equipoise("run", recipe, "--out", str(folder), "--json", *settings)
    return folder


def show(table: Table, lines: Iterable[str]) -> None:
    """Print a table, wide where nobody sits before it, and the lines below it."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(table)
    for line in lines:
        console.print(line, highlight=False)


def over_seeds(
    o: argparse.Namespace,
    play: Callable[[int, Path], Played],
    rows: Callable[[int, Path, Played], Mapping[str, Row]],
    text: Callable[[Row], str],
    *,
    begin: Callable[[Path], None] = lambda place: None,
    **arguments: Any,
) -> dict[str, list[Row]]:
    """Row -> its figures in each seed, in the order of the seeds; each is printed as `text` says,
    and all so far are written to --json.

    Args: play: (seed, folder for the runs) plays a seed, in processes, --jobs seeds side by side;
    rows: what it played -> the seed's rows, one seed after the other in this thread; begin: what is
    done once before any is played; arguments: what decides the figures besides seeds and
    generations.
    """
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    settings = {"generations": o.generations, **arguments}
    by_row, others = joined(o.join, settings)

    def save() -> None:
        if o.json:
            seeds = sorted(set().union(*by_row.values()))
            figures = {
                name: [{"seed": seed, **row} for seed, row in in_order(by_seed)]
                for name, by_seed in by_row.items()
            }
            write_results(o.json, figures, seeds=seeds, **settings, **others)

    with (
        tempfile.TemporaryDirectory(prefix="arms-") as spare,
        ThreadPoolExecutor(o.jobs) as workers,
    ):
        place = (o.out or Path(spare)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        if o.seeds:
            begin(place)
        tasks = [workers.submit(play, seed, place) for seed in o.seeds]
        for seed, task in zip(o.seeds, tasks, strict=True):
            for name, row in rows(seed, place, task.result()).items():
                by_row.setdefault(name, {})[seed] = row
                console.print(f"seed {seed}  {name:22} {text(row)}", highlight=False)
            save()
    if not o.seeds:
        save()
    return {name: [row for _, row in in_order(by_seed)] for name, by_seed in by_row.items()}


def difference(
    by_row: Mapping[str, Sequence[Row]], first: str, second: str, column: str
) -> Interval:
    """By how much the first row's column exceeds the second's, paired over the seeds.

    Raises ValueError where the rows have not the same number of seeds.
    """
    return paired(*([row[column] for row in by_row[name]] for name in (first, second)))


def in_order(by_seed: Mapping[int, Row]) -> list[tuple[int, Row]]:
    """The rows of seeds, the lowest first, so that arms are paired by their seeds."""
    return sorted(by_seed.items(), key=lambda item: item[0])


def joined(
    files: Sequence[Path], settings: Mapping[str, Any]
) -> tuple[dict[str, dict[int, Row]], dict[str, Any]]:
    """Row -> its figures by seed, as raw results have them, and what says where they come from.

    Ends the benchmark where one was measured otherwise than these settings say.
    """
    by_row: dict[str, dict[int, Row]] = {}
    former = []
    for file in files:
        earlier = json.loads(file.read_text())
        told = earlier["arguments"]
        for name in settings.keys() & told.keys():
            if told[name] != settings[name]:
                raise SystemExit(f"{file}: {name} is {told[name]}, not {settings[name]}")
        for name, rows in earlier["figures"].items():
            for seed, row in zip(told["seeds"], rows, strict=False):
                # Older files name no seed with a row.
                by_row.setdefault(name, {})[row.pop("seed", seed)] = row
        own = {key: earlier[key] for key in ("commit", "command", "date")}
        former += [*told.get("joined", []), own]
    return by_row, {"joined": former} if former else {}
