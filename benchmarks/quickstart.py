"""The quickstart over several seeds, and what greedy decoding gets from the same models.

A start that is sampled at temperature 1 may know more than it samples; then training need only
sharpen it. So the untrained start and the trained end answer the held-out questions greedily, too,
and what is learned is the difference of these.

    python -m benchmarks.quickstart [--seeds 0 1 2] [--model FOLDER]
        [--out DIR] [--json benchmarks/results/quickstart.json]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import equipoise
from benchmarks.comparing import bounded, paired
from benchmarks.controls import decoded, held_out_scores
from benchmarks.running import write_results
from equipoise.environments.clerk import world
from equipoise.runs.directory import RunDirectory

COLUMNS = ("start", "end", "start, greedy", "end, greedy")
Row = Mapping[str, float]


def one_seed(seed: int, model: str, place: Path) -> dict[str, Row]:
    """ "all" and each kind of question -> the share of right answers by column."""
    folder = place / f"seed-{seed}"
    settings = {"seed": seed, **({"policy.model": model} if model else {})}
    if not (folder / "report.html").exists():
        equipoise.run("quickstart", settings, folder, progress=False, overwrite=True)
    with RunDirectory.read(folder) as run:
        last = run.config.generations
        kinds = {p.id: p.facts["kind"] for p in run.ledger.prompts("held_out")}
    once = {"game.samples": 2, "evaluate.samples": 1, "evaluate.sets": None}
    scores = {
        "start": held_out_scores(folder, "policy"),
        "end": held_out_scores(folder, "policy", last),
    }
    for which in ("start", "end"):
        greedy = decoded(folder, which, place / f"{which}-{seed}", settings=once)
        scores[f"{which}, greedy"] = held_out_scores(greedy, "policy")
    rows: dict[str, Row] = {}
    for name in ("all", *world.KINDS):
        rows[name] = {
            column: float(np.mean([v for p, v in of.items() if name in ("all", kinds[p])]))
            for column, of in scores.items()
        }
    return rows


def table(by_seed: Mapping[str, Mapping[str, Row]]) -> Table:
    """A row for each kind of question: means over the seeds with their intervals."""
    shown = Table(
        title=f"right answers to held-out questions, {len(by_seed)} seeds, mean and 95 % interval"
    )
    gains = ("gain", "gain, greedy")
    for column in ("", *COLUMNS, *gains):
        shown.add_column(column, justify="left" if not column else "right")
    for name in next(iter(by_seed.values())):
        rows = [seed[name] for seed in by_seed.values()]
        cells = [bounded([row[column] for row in rows]).percent() for column in COLUMNS]
        for start, end in (COLUMNS[:2], COLUMNS[2:]):
            gain = paired([row[end] for row in rows], [row[start] for row in rows])
            cells.append(gain.percent())
        shown.add_row(name, *cells)
    return shown


def main() -> None:
    """Print the table, and write the figures behind it as JSON with --json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--model", default="", help="the start; the recipe's by default")
    parser.add_argument(
        "--out", type=Path, help="keep the runs here; those that are here are only read"
    )
    parser.add_argument("--json", type=Path, help="write every seed's figures here")
    o = parser.parse_args()
    console = Console(width=max(160, Console().width))
    by_seed: dict[str, Mapping[str, Row]] = {}
    with tempfile.TemporaryDirectory(prefix="quickstart-") as spare:
        place = (o.out or Path(spare)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        for seed in o.seeds:
            by_seed[str(seed)] = one_seed(seed, o.model, place)
            cells = "  ".join(
                f"{column} {value:.1%}" for column, value in by_seed[str(seed)]["all"].items()
            )
            console.print(f"seed {seed}  {cells}", highlight=False)
            if o.json:
                write_results(o.json, by_seed, seeds=o.seeds, model=Path(o.model).name)
    console.print(table(by_seed))


if __name__ == "__main__":
    main()
