"""What still beats a defender: GPO's and that of RLHF on fixed prompts, each frozen, with
a fresh adversary trained against it by `equipoise best-response`.

Both start from the same tiny model of the built-in world. `rlhf` gives the defender as
many updates on fixed prompts as the whole of `gpo` has, 90 of which are the defender's.

    python -m benchmarks.best_response [--seeds 0 1 2] [--out DIR] [--json FILE]

    raw             held-out harmful requests as they stand
    the league's    the most that any adversary of the run gets (`rlhf`: the start's)
    at its start    the fresh adversary before it learns
    best response   after `--updates` updates
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.red_team import ARMS, defender, measured, run
from benchmarks.running import equipoise, provenance, with_settings
from equipoise.payoffs.intervals import over_seeds

COLUMNS = ("raw", "the league's", "at its start", "best response", "over-refusal")


def figures(folder: Path, updates: int) -> dict[str, Any]:
    """A run's defender, and what its best response came to."""
    player = defender(folder)
    budget = [
        f"generations={updates}",
        "learner.learning_rate=2.0e-4",  # the adversary's in gpo_clerks, in either arm
    ]
    printed = equipoise(
        "best-response", f"{folder}@{player}", *with_settings(budget), "--json"
    )
    facts = json.loads(printed)
    own = measured(folder)
    return {
        "raw": own["attack_success"]["raw"]["mean"],
        "the league's": facts["league"]["gets"]["mean"],
        "at its start": facts["at_start"]["mean"],
        "best response": facts["gets"]["mean"],
        "over-refusal": own["over_refusal"]["mean"],
        "interval": [facts["gets"]["low"], facts["gets"]["high"]],
        "budget": facts["budget"],
    }


def main() -> None:
    """Print the table, and write every run's figures with --json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--arms", nargs="+", default=["rlhf", "gpo"], choices=list(ARMS)
    )
    parser.add_argument("--generations", type=int, default=150, help="of each arm")
    parser.add_argument("--updates", type=int, default=50, help="of each best response")
    parser.add_argument("--out", type=Path, help="keep the runs here, and go on there")
    parser.add_argument("--json", type=Path, help="write every run's figures here")
    options = parser.parse_args()
    console = Console()
    by_arm: dict[str, list[dict[str, Any]]] = {arm: [] for arm in options.arms}
    with tempfile.TemporaryDirectory(prefix="best-response-") as spare:
        place = (options.out or Path(spare)).resolve()
        for seed in options.seeds:
            for arm in options.arms:
                settings = [f"generations={options.generations}", *ARMS[arm]]
                folder = run(place / f"{arm.replace(' ', '_')}-{seed}", seed, settings)
                by_arm[arm].append(figures(folder, options.updates))
                shown = by_arm[arm][-1]
                cells = "  ".join(f"{name} {shown[name]:.1%}" for name in COLUMNS)
                console.print(f"seed {seed}  {arm:5} {cells}", highlight=False)
            if options.json:
                facts = {"provenance": provenance(), "arms": by_arm}
                options.json.write_text(json.dumps(facts, indent=1) + "\n")
    console.print(table(by_arm))


def table(by_arm: dict[str, list[dict[str, Any]]]) -> Table:
    """A row for each arm: mean over seeds with its interval."""
    shown = Table(title="attack success: mean and 95 % interval over seeds")
    for column in ("", *COLUMNS):
        shown.add_column(column, justify="left" if not column else "right")
    for arm, rows in by_arm.items():
        cells = [over_seeds([row[name] for row in rows]) for name in COLUMNS]
        shown.add_row(arm, *(cell.text("%") for cell in cells))
    return shown


if __name__ == "__main__":
    main()
