"""Kuhn poker, whose equilibria are known: how near a language model comes, exactly.

    python -m benchmarks.kuhn [--arms history …] [--seeds 0 1 2] [--generations 30]
        [--model FOLDER] [--set KEY=VALUE …] [--json benchmarks/results/kuhn.json]

The recipe kuhn_poker under other schedules: against itself, against its past, against the
equilibrium of the league of its generations (PSRO-like), and MNPO on pairs of trajectories that
part at an information state; and the recipe kuhn_poker_optimistic: optimistic steps by the mean
outcome of every legal move, of more matches a generation. After every generation the policy is read off at all twelve
information states, and OpenSpiel computes what best replies gain in both seats together (NashConv):
of the last policy, of the average over the generations and of the league's Nash mixture. Beside
them: uniform play, and OpenSpiel's CFR after as many iterations as there are generations, and after
a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.experiment import Experiment, Options, name_of, of_rows
from benchmarks.kuhn_table import MEASURES
from benchmarks.running import recorded
from benchmarks.verdicts import Item
from equipoise.environments.text_games.game_tree import game_tree
from equipoise.environments.text_games.open_spiel import OpenSpiel, pyspiel
from equipoise.runs.directory import RunDirectory

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
KEYS = {
    "last": "exploitability",
    "average": "average_exploitability",
    "mixture": "mixture_nash_conv",
}


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """NashConv after every generation of a seed's arms, by policy, and the illegal mass."""
    for arm in o.arms:
        with RunDirectory.read(place / name_of(arm, seed)) as run:
            measured = recorded(run, "measure")
        for generation, facts in enumerate(measured):
            row = {name: facts[key] for name, key in KEYS.items()}
            row["illegal"] = next(iter(facts["illegal"].values()))
            yield from of_rows({arm: row}, seed, generation)
    yield from of_rows(references(o.generations), seed, o.generations)


def references(generations: int) -> dict[str, dict[str, float]]:
    """NashConv of uniform play, and of CFR's average policy, as rows of figures."""
    from open_spiel.python.algorithms import cfr, exploitability

    tree = game_tree(OpenSpiel.model_validate({}), 1000)
    uniform_F = tree.uniform()
    found = {"uniform": {"last": tree.nash_conv([uniform_F, uniform_F])}}
    solver = cfr.CFRSolver(pyspiel().load_game("kuhn_poker"))
    for iteration in range(1, 1001):
        solver.evaluate_and_update_policy()
        if iteration in (generations, 1000):
            policy = solver.average_policy()
            value: Any = exploitability.nash_conv(tree.game.spiel, policy)
            found[f"cfr_{iteration}"] = {"average": float(value)}
    return found


EXPERIMENT = Experiment(
    name="kuhn",
    doc=__doc__,
    arms=ARMS,
    seeds=(0, 1, 2),
    generations=30,
    recipe="kuhn_poker",
    recipes={"optimistic": "kuhn_poker_optimistic"},
    common=lambda arm, place, o: [f"policy.model={o.model}"],
    measure=measure,
    columns=(*MEASURES, "illegal"),
    points=MEASURES,
    add=lambda parser: parser.add_argument("--model", default="builtin/cards", help="the start"),
    decides=("model",),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
