"""Kuhn poker, whose equilibria are known: how near a language model comes, exactly.

    python -m benchmarks.kuhn [--arms history …] [--seeds 0 1 2] [--generations 30]
        [--model FOLDER] [--set KEY=VALUE …] [--out benchmarks/results/kuhn.json]

The recipe kuhn_poker under other schedules: against itself, against its past, against the
equilibrium of the league of its generations (PSRO-like), and MNPO on pairs of trajectories that
part at an information state; and the recipe kuhn_poker_optimistic: optimistic steps by the mean
outcome of every legal move, of more matches a generation. After every generation the policy is read off at all twelve
information states, and OpenSpiel computes what best replies gain in both seats together (NashConv):
of the last policy, of the average over the generations and of the league's Nash mixture. Beside
them: uniform play, and OpenSpiel's CFR after as many iterations as there are generations, and after
a thousand.

Results are written after every run, and runs that are in the file are not repeated.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.kuhn_table import COLUMNS, MEASURES, kuhn_rows
from benchmarks.running import equipoise, provenance, recorded, with_settings
from equipoise.environments.text_games.game_tree import game_tree
from equipoise.environments.text_games.open_spiel import OpenSpiel, pyspiel
from equipoise.runs.directory import RunDirectory
from equipoise.system.files import write_text

ARMS: dict[str, list[str]] = {
    "self_play": ["schedule=self_play"],
    "history": [],
    "mixture": ["schedule=mixture"],
    "mnpo": [
        "schedule=self_play",
        "pairs={kind: parted_trajectories, per_passage: 4}",
        "loss={kind: mnpo, eta: 0.5}",
        "learner={kind: preference, batch_size: 128, gradient_accumulation: 1,"
        " learning_rate: 1.0e-3, warmup_ratio: 0.0, epochs: 1}",
    ],
    "optimistic": [],
}
RECIPES = {"optimistic": "kuhn_poker_optimistic"}
KEYS = {
    "last": "exploitability",
    "average": "average_exploitability",
    "mixture": "mixture_nash_conv",
}


def run(arm: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run: NashConv after every generation, by measure, and the illegal mass."""
    settings = [
        f"seed={seed}",
        f"generations={options.generations}",
        f"policy.model={options.model}",
        *ARMS[arm],
        *options.set,
    ]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        recipe = RECIPES.get(arm, "kuhn_poker")
        equipoise("run", recipe, "--out", str(out), *with_settings(settings))
        with RunDirectory.read(out) as opened:
            measured = recorded(opened, "measure")
    return {
        "arm": arm,
        "seed": seed,
        "settings": settings,
        "seconds": time.perf_counter() - started,
        **{name: [facts[key] for facts in measured] for name, key in KEYS.items()},
        "illegal": [next(iter(facts["illegal"].values())) for facts in measured],
    }


def references(generations: int) -> dict[str, float]:
    """NashConv of uniform play, and of CFR's average policy."""
    from open_spiel.python.algorithms import cfr, exploitability

    tree = game_tree(OpenSpiel.model_validate({}), 1000)
    uniform_F = tree.uniform()
    found = {"uniform": tree.nash_conv([uniform_F, uniform_F])}
    solver = cfr.CFRSolver(pyspiel().load_game("kuhn_poker"))
    for iteration in range(1, 1001):
        solver.evaluate_and_update_policy()
        if iteration in (generations, 1000):
            policy = solver.average_policy()
            value: Any = exploitability.nash_conv(tree.game.spiel, policy)
            found[f"cfr_{iteration}"] = float(value)
    return found


def table(results: dict[str, Any]) -> Table:
    """The last generations, mean and interval over the seeds."""
    shown = Table(*COLUMNS, box=None)
    for row in kuhn_rows(results):
        shown.add_row(*row)
    return shown


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments()
    results: dict[str, Any] = {"runs": []}
    if options.out.exists():
        results = json.loads(options.out.read_text(encoding="utf-8"))
    done = {(row["arm"], row["seed"]) for row in results["runs"]}
    results |= provenance()
    results["generations"] = options.generations
    results["references"] = references(options.generations)
    for seed in options.seeds:
        for arm in options.arms:
            if (arm, seed) not in done:
                results["runs"].append(run(arm, seed, options))
                write_text(options.out, json.dumps(results, indent=1))
                newest = results["runs"][-1]
                print(arm, seed, *(f"{newest[m][-1]:.3f}" for m in MEASURES), flush=True)
    Console().print(table(results))


def arguments() -> argparse.Namespace:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.kuhn", description=(__doc__ or "").split("\n")[0]
    )
    made.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    made.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    made.add_argument("--generations", type=int, default=30)
    made.add_argument("--model", default="builtin/cards")
    made.add_argument("--set", nargs="*", default=[], help="settings of all runs")
    made.add_argument("--out", type=Path, default=Path("benchmarks/results/kuhn.json"))
    return made.parse_args()


if __name__ == "__main__":
    main()
