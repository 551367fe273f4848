"""The quickstart over several seeds, and what greedy decoding gets from the same models.

A start that is sampled at temperature 1 may know more than it samples; then training need only
sharpen it. So the untrained start and the trained end answer the held-out questions greedily, too,
and what is learned is the difference of these.

    python -m benchmarks.quickstart [--seeds 1 2 3 4 5] [--model FOLDER]
        [--out DIR] [--json benchmarks/results/quickstart.json]
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.controls import decoded
from benchmarks.experiment import Experiment, Options, of_run, played
from benchmarks.verdicts import GREEDY, Item
from equipoise.runs.directory import RunDirectory

COLUMNS = ("start", "end", "start, greedy", "end, greedy")
ONCE = {"game.samples": 2, "evaluate.samples": 1, "evaluate.sets": None}


def play(seed: int, place: Path, o: Options) -> None:
    """A seed's run, where it has not been played yet."""
    settings = [f"generations={o.generations}"]
    settings += [f"policy.model={o.model}"] if o.model else []
    played("quickstart", place / f"seed-{seed}", seed, settings)


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """All answers, and those to each kind of question."""
    folder = place / f"seed-{seed}"
    with RunDirectory.read(folder) as run:
        kinds = {p.id: p.facts["kind"] for p in run.ledger.prompts("held_out")}
    items = [*of_run(folder, "all", seed, {0: "start", -1: "end"}, ["policy"])]
    for which in ("start", "end"):
        again = decoded(folder, which, place / f"{which}-{seed}", settings=ONCE)
        items += of_run(again, "all", seed, {0: which}, ["policy"], GREEDY)
    for item in items:
        yield item
        yield item._replace(arm=kinds[item.prompt])


EXPERIMENT = Experiment(
    name="quickstart",
    doc=__doc__,
    arms={"all": ()},
    seeds=(1, 2, 3, 4, 5),
    generations=3,
    play=play,
    measure=measure,
    columns=COLUMNS,
    add=lambda parser: parser.add_argument("--model", default="", help="the start"),
    decides=("model",),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
