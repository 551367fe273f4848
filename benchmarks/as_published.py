"""The four methods as published, and as we have them by default, on the built-in world.

Each recipe `…_as_released` and the recipe that it extends play the same world with the same tiny
models, rates and numbers of prompts, which its world below sets; what is left between them is what
`equipoise recipes NAME` lists.

    python -m benchmarks.as_published [--arms gtalign gtalign_as_released …] [--seeds 0 1 2]
        [--generations 24] [--json benchmarks/results/as_published.json]

--generations are GPO's; the other methods have their share of them. The world has no model that can
judge an answer well, so what `gtalign_as_released` asks a model is asked of the world's rules; it
keeps the second reward, the z-scores and its optimizer. Measured are start and last generation on
the same held-out prompts by the same judge, and greedily.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.assistance import items as of_welfare
from benchmarks.controls import decoded
from benchmarks.experiment import Experiment, Options, name_of, of_rows, of_run, played, written
from benchmarks.running import recorded
from benchmarks.verdicts import GREEDY, Item
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory

Settings = dict[str, Any]
RELEASED = "_as_released"
LONGEST = 24  # generations of the longest method by default


class World(NamedTuple):
    """How a method is played here: the packaged recipe whose keys it takes, what is changed in
    them, and settings that each arm keeps of its own.
    """

    recipe: str
    keys: tuple[str, ...]
    changed: Settings
    kept: tuple[tuple[str, str], ...]


RULES = {"by": "rule", "grader": None, "tasks": {"clerk": "clerk_assistance"}}
WINDOWS = {"response_words": [1, 20], "output_words": [12, 40], "steepness": 0.3, "wait": 500}
SECOND = {"llm_quality": 0.35, "llm_length": 0.05, "llm_frontier": 0.2}
WORLDS = {
    "mnpo": World(
        "quickstart",
        ("players", "prompts", "judge", "learner"),
        {"generations": 3, "prompts": {"count": 1200, "per_generation": 300, "held_out": 200}},
        (),
    ),
    "sparta": World(
        "sparta_clerks",
        ("player_defaults", "players", "prompts", "judge", "learner", "evaluate"),
        {
            "generations": 4,
            "prompts": {"count": 800, "per_generation": 60, "held_out": 60, "test": 0},
            "evaluate": {"samples": 1},
            "schedule": {"k": 3},
        },
        (("prompts", "reuse"), ("learner", "weight_decay")),
    ),
    "gpo": World(
        "gpo_clerks",
        ("player_defaults", "players", "prompts", "game", "judge", "turns", "learners"),
        {
            "generations": 24,
            "prompts": {"count": 600, "held_out": 60},
            "turns": {"steps": {"defender": 8, "adversary": 4}},
            "learner": {
                "critic": "head",
                "learning_rate": 1e-4,
                "critic_learning_rate": 3e-4,
                "warmup_steps": 2,
            },
            "evaluate": {"every": 24},
        },
        (("prompts", "per_generation"),),
    ),
    "gtalign": World(
        "gtalign_clerks",
        ("players", "prompts", "game"),
        {
            "generations": 16,
            "prompts": {"per_generation": 64, "held_out": 100},
            "judge": {**RULES, "terms": WINDOWS},
            "learner": {
                "critic": "head",
                "learning_rate": 1e-4,
                "critic_learning_rate": 1e-3,
                "minibatches": 2,
                "batch_size": 64,
            },
            "evaluate": {"every": 16, "judge": {"kind": "assistance", **RULES, "terms": WINDOWS}},
        },
        (),
    ),
}


def settings_of(recipe: str, seed: int, generations: int) -> Settings:
    """The recipe in its world; `generations` are those of the longest method."""
    world = WORLDS[recipe.removesuffix(RELEASED)]
    own = recipe_loader.read(recipe)
    place = recipe_loader.read(world.recipe)
    over = {key: place[key] for key in world.keys}
    values = recipe_loader.merge(recipe_loader.merge(own, over), world.changed)
    for room, name in world.kept:
        if name in own.get(room, {}):
            values[room] = {**values[room], name: own[room][name]}
    if recipe == "gtalign_as_released":
        values["judge"] = {**values["judge"], "terms": {**WINDOWS, **SECOND}}
    values["generations"] = max(1, round(values["generations"] * generations / LONGEST))
    return {**values, "seed": seed, "name": recipe}


def play(seed: int, place: Path, o: Options) -> None:
    """Every arm of a seed, where it has not been played yet."""
    for arm in o.arms:
        values = settings_of(arm, seed, o.generations)
        file = written(values, place / f"{name_of(arm, seed)}.yaml")
        played(file, place / name_of(arm, seed), seed, [f"generations={values['generations']}"])


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed at its start and its end, sampled and greedily."""
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        learned = sorted(home.name for home in (folder / "players").iterdir())
        start, end = (
            decoded(folder, which, place / f"{which}-{folder.name}", players=learned)
            for which in ("start", "end")
        )
        for run, which, column in (
            (folder, 0, "start"),
            (folder, -1, "end"),
            (start, 0, f"start{GREEDY}"),
            (end, 0, f"end{GREEDY}"),
        ):
            yield from scores_of(run, which, arm, seed, column)


def scores_of(folder: Path, which: int, arm: str, seed: int, column: str) -> Iterator[Item]:
    """The held-out scores of a run's start (0) or end (-1), prompt by prompt: those of answers, of
    the assistant its welfare; of GPO the defender's mean pay-off, which is of the whole run.
    """
    with RunDirectory.read(folder) as run:
        facts: dict[str, Any] = recorded(run, "measure")[which]
        generation = run.config.generations if which else 0
        players = list(run.config.players)
    if arm.startswith("gpo"):
        yield from of_rows({arm: {column: facts["score"]}}, seed, generation)
    elif arm.startswith("gtalign"):
        for item in of_welfare(folder, which, arm, seed):
            if item.column == "welfare":
                yield item._replace(column=column, generation=generation)
    else:
        yield from of_run(folder, arm, seed, {which: column}, players)


RECIPES = [name for method in WORLDS for name in (method, method + RELEASED)]
EXPERIMENT = Experiment(
    name="as_published",
    doc=__doc__,
    arms=dict.fromkeys(RECIPES, ()),
    seeds=(0, 1, 2),
    generations=LONGEST,
    play=play,
    measure=measure,
    columns=("start", "end", f"start{GREEDY}", f"end{GREEDY}"),
    points=("start", "end"),
    beside={method + RELEASED: method for method in WORLDS},
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
