"""The assistant's game on the built-in world: what training on each welfare function
comes to, by the same measure.

Every arm starts from the same tiny model after its cold start and makes as many
updates. `no blocks` is paid the same way for the answer alone: its start is that model
taught, on its own answers, to leave the other blocks out; what the blocks themselves
are paid for (format, matrix) it cannot earn.

    python -m benchmarks.assistance [--seeds 0 1 2] [--arms cobb_douglas …] [--jobs 2]

    welfare   mean of √(user · llm) over held-out questions, whatever the arm was trained on
    right     asks back when the question is vague, answers when it is clear, declines what is harmful
    quality   the share of right answers, as the model is paid; a user wants refusals with an offer. Unreadable: 0
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.red_team import equipoise
from equipoise.environments.assistance.blocks import parse
from equipoise.payoffs.intervals import Interval, over_seeds
from equipoise.run.directory import Run

RECIPE, START, PLAIN_START = "gtalign_clerks", "start", "start, no blocks"
WELFARES = ("cobb_douglas", "utilitarian", "egalitarian", "user_only", "llm_only")
PLAIN = "no blocks"
COLUMNS = ("welfare", "user", "llm", "format", "right", "quality", "tokens")
SHARES = ("format", "right", "quality")


def run(folder: Path, seed: int, overrides: list[str]) -> Path:
    """One run of the recipe with these overrides, played to its end where it is not
    there yet.
    """
    if (folder / "config.yaml").exists():
        equipoise("resume", str(folder), "--json")
    else:
        settings = [
            word
            for override in [*overrides, f"seed={seed}"]
            for word in ("-s", override)
        ]
        equipoise("run", RECIPE, "--out", str(folder), "--json", *settings)
    return folder


def figures(folder: Path, which: int) -> dict[str, float]:
    """What was measured at the end of a run, or at its start (0), by one measure for
    all arms.
    """
    with Run.read(folder) as opened:
        facts: dict[str, Any] = opened.ledger.stages("measure")[which][3]
    point_N2 = np.clip(np.array(list(facts["points"].values()), float), 0, None)
    return {
        "welfare": float(np.sqrt(point_N2.prod(1)).mean()),
        "user": float(point_N2[:, 0].mean()),
        "llm": float(point_N2[:, 1].mean()),
        "format": facts["rates"]["format"]["mean"],
        "right": facts["right"]["mean"],
        "quality": facts["rates"]["quality_llm"]["mean"],
        "tokens": facts["length"]["tokens"],
    }


def plain_start(place: Path) -> Path:
    """The start, taught on its own answers to leave out all but the response."""
    home = place / "plain"
    if (home / "config.json").exists():
        return home
    teacher = "{kind: local, model: builtin/assistant, max_new_tokens: 160, max_length: 384, batch_size: 256}"
    words = (
        "--teacher",
        teacher,
        "--candidates",
        "1",
        "--out",
        str(place / "traces"),
        "--json",
    )
    equipoise("traces", RECIPE, *words)
    rows = [
        json.loads(line)
        for line in (place / "traces" / "traces.jsonl").read_text().splitlines()
    ]
    lines = [
        json.dumps(
            {
                "prompt": row["prompt"],
                "completion": [{"role": "assistant", "content": response}],
            }
        )
        for row in rows
        if (response := parse(row["completion"][0]["content"]).response)
    ]
    file = place / "responses.jsonl"
    file.write_text("\n".join(lines))
    training = (
        "--epochs",
        "3",
        "--learning-rate",
        "1e-3",
        "--batch-size",
        "32",
        "--overwrite",
        "--json",
    )
    equipoise("sft", "builtin/assistant", str(file), "--out", str(home), *training)
    return home


def seed_runs(
    seed: int, arms: list[str], place: Path, generations: int
) -> dict[str, dict[str, float]]:
    """Every arm of one seed."""
    found: dict[str, dict[str, float]] = {}
    for arm in arms:
        plain = arm == PLAIN
        own = (
            ["game.blocks=false", f"players.assistant.model={place / 'plain'}"]
            if plain
            else [f"judge.welfare={arm}"]
        )
        folder = run(
            place / f"{arm.replace(' ', '_')}-{seed}",
            seed,
            [f"generations={generations}", f"evaluate.every={generations}", *own],
        )
        found.setdefault(PLAIN_START if plain else START, figures(folder, 0))
        found[arm] = figures(folder, -1)
    return found


def main() -> None:
    """Print the table, and write the figures behind it as JSON when asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = [*WELFARES, PLAIN]
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=every, choices=every)
    parser.add_argument(
        "--generations", type=int, default=60, help="updates of each arm"
    )
    parser.add_argument("--jobs", type=int, default=1, help="seeds played side by side")
    parser.add_argument(
        "--out",
        type=Path,
        help="keep the runs here; those that are here already are gone on with",
    )
    parser.add_argument("--json", type=Path, help="write every run's figures here")
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    found: dict[str, list[dict[str, float]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="assistance-") as spare,
        ThreadPoolExecutor(asked.jobs) as workers,
    ):
        place = (asked.out or Path(spare)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        if PLAIN in asked.arms:
            plain_start(place)
        tasks = [
            workers.submit(seed_runs, seed, asked.arms, place, asked.generations)
            for seed in asked.seeds
        ]
        for seed, task in zip(asked.seeds, tasks, strict=True):
            for arm, row in task.result().items():
                found.setdefault(arm, []).append(row)
                told = "  ".join(f"{name} {row[name]:.3f}" for name in COLUMNS)
                console.print(f"seed {seed}  {arm:17} {told}", highlight=False)
            if asked.json:
                asked.json.write_text(json.dumps(found, indent=1))
    console.print(table(found))
    for line in verdicts(found):
        console.print(line, highlight=False)


def table(found: dict[str, list[dict[str, float]]]) -> Table:
    """A row an arm: mean over seeds with its interval."""
    seeds = len(next(iter(found.values())))
    shown = Table(title=f"{seeds} seeds, mean and 95 % interval")
    for column in ("", *COLUMNS):
        shown.add_column(column, justify="left" if not column else "right")
    for arm in sorted(
        found,
        key=lambda name: (
            name not in (START, PLAIN_START),
            [*WELFARES, PLAIN, name].index(name),
        ),
    ):
        cells = [
            over_seeds([row[name] for row in found[arm]]).text(
                "%" if name in SHARES else ""
            )
            for name in COLUMNS
        ]
        shown.add_row(arm, *(cell.replace(" (", "\n(") for cell in cells))
    return shown


def difference(
    found: dict[str, list[dict[str, float]]],
    first: str,
    second: str,
    column: str = "welfare",
) -> Interval:
    """By how much `first` exceeds `second`, over the seeds."""
    return over_seeds(
        [
            a[column] - b[column]
            for a, b in zip(found[first], found[second], strict=True)
        ]
    )


def verdicts(found: dict[str, list[dict[str, float]]]) -> list[str]:
    """Whether Cobb–Douglas raises welfare over the start, and which published orderings
    show.
    """
    if "cobb_douglas" not in found:
        return []
    rise = difference(found, "cobb_douglas", START)
    lines = [f"cobb_douglas raises welfare over the start by {rise}"]
    for other in [*WELFARES[1:], PLAIN]:
        if other in found:
            gap = difference(found, "cobb_douglas", other)
            shows = (
                "shows"
                if gap.low > 0
                else "is reversed"
                if gap.high < 0
                else "does not show"
            )
            lines.append(
                f"welfare of cobb_douglas over {other}: {gap}; the published ordering {shows}"
            )
    return lines


if __name__ == "__main__":
    main()
