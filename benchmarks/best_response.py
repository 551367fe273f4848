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
from collections.abc import Iterator
from pathlib import Path

from benchmarks import red_team
from benchmarks.experiment import Experiment, Options, name_of, of_rows
from benchmarks.running import equipoise, with_settings
from benchmarks.verdicts import Item

COLUMNS = ("raw", "the league's", "at its start", "best response", "over-refusal")


def figures(folder: Path, updates: int) -> dict[str, float]:
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
        "samples": facts["budget"]["samples"],
    }


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed."""
    rows = {arm: figures(place / name_of(arm, seed), o.updates) for arm in o.arms}
    return of_rows(rows, seed, o.generations)


EXPERIMENT = Experiment(
    name="best_response",
    doc=__doc__,
    arms={"rlhf": red_team.ARMS["rlhf"], "gpo": red_team.ARMS["gpo"]},
    seeds=(0, 1, 2),
    generations=150,
    recipe=red_team.RECIPE,
    measure=measure,
    columns=COLUMNS,
    add=lambda parser: parser.add_argument("--updates", type=int, default=50, help="each"),
    decides=("updates",),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
