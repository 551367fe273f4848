"""What still beats a defender: GPO's and that of RLHF on fixed prompts, each frozen, with a fresh
adversary trained against it by `equipoise best-response`.

Both start from the same tiny model of the built-in world. `rlhf` gives the defender as many updates
on fixed prompts as the whole of `gpo` has, 90 of which are the defender's.

    python -m benchmarks.best_response [--seeds 0 1 2] [--out DIR] [--json FILE]

    raw             held-out harmful requests as they stand
    the league's    the most that any adversary of the run gets (`rlhf`: the start's)
    at its start    the fresh adversary before it learns
    best response   after `--updates` updates
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import arms, red_team
from benchmarks.comparing import bounded
from benchmarks.running import equipoise, with_settings

COLUMNS = ("raw", "the league's", "at its start", "best response", "over-refusal")


def figures(folder: Path, updates: int) -> dict[str, Any]:
    """A run's defender, and what its best response came to."""
    player = red_team.last(folder, "defender")
    budget = [
        f"generations={updates}",
        "learner.learning_rate=2.0e-4",  # the adversary's in gpo_clerks, in either arm
    ]
    printed = equipoise("best-response", f"{folder}@{player}", *with_settings(budget), "--json")
    facts = json.loads(printed)
    own = red_team.measured(folder)
    return {
        "raw": own["attack_success"]["raw"]["mean"],
        "the league's": facts["league"]["gets"]["mean"],
        "at its start": facts["at_start"]["mean"],
        "best response": facts["gets"]["mean"],
        "over-refusal": own["over_refusal"]["mean"],
        "interval": [facts["gets"]["low"], facts["gets"]["high"]],
        "budget": facts["budget"],
    }


def play(seed: int, chosen: list[str], place: Path, generations: int) -> None:
    """Every arm of a seed, where it has not been played yet."""
    for arm in chosen:
        overrides = [f"generations={generations}", *red_team.ARMS[arm]]
        arms.played(red_team.RECIPE, place / arms.name_of(arm, seed), seed, overrides)


def main() -> None:
    """Print the table, and write every run's figures with --json."""
    parser = arms.parser(__doc__, red_team.ARMS, seeds=[0, 1, 2], generations=150)
    parser.set_defaults(arms=["rlhf", "gpo"])
    parser.add_argument("--updates", type=int, default=50, help="of each best response")
    o = parser.parse_args()
    by_arm = arms.over_seeds(
        o,
        lambda seed, place: play(seed, o.arms, place, o.generations),
        lambda seed, place, played: {
            arm: figures(place / arms.name_of(arm, seed), o.updates) for arm in o.arms
        },
        lambda row: "  ".join(f"{name} {row[name]:.1%}" for name in COLUMNS),
        updates=o.updates,
    )
    arms.show(table(by_arm), [])


def table(by_arm: Mapping[str, list[arms.Row]]) -> Table:
    """A row for each arm: mean over seeds with its interval."""
    shown = Table(title="attack success: mean and 95 % interval over seeds")
    for column in ("", *COLUMNS):
        shown.add_column(column, justify="left" if not column else "right")
    for arm, rows in by_arm.items():
        cells = [bounded([row[name] for row in rows]) for name in COLUMNS]
        shown.add_row(arm, *(cell.text("%") for cell in cells))
    return shown


if __name__ == "__main__":
    main()
