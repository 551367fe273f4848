"""PROSPER moves a tiny language model, beside a weighted sum, the minimum and GTAlign's product.

    python -m benchmarks.prosper_beside [--seeds 0 1 2] [--json benchmarks/results/prosper_beside.json]

The recipe `prosper_clerks` with two criteria that score from 0 to 1: an answer is right, or is not,
and is brief, 1 less a twelfth for each word. Arms differ in how the panel makes one score of them.

    right, brief    how often the last clerk's held-out answer is preferred to the start's by that
                    criterion alone, ties one half: the same prompts, ½ where nothing moved
    least           of a run, the smaller of a seed's two shares, which PROSPER secures
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

from benchmarks.experiment import Experiment, Options, name_of
from benchmarks.verdicts import Item
from equipoise.api import functions as door
from equipoise.environments.clerk.clerk_answers import rate
from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt

WORDS = 12  # from which on an answer is not brief at all
CRITERIA = "{right: clerk, brief: 'benchmarks.prosper_beside:Brief'}"


def panel(how: str, more: str = "") -> list[str]:
    """The setting of an arm's judge."""
    return [f"judge={{kind: panel, how: {how}, judges: {CRITERIA}{more}}}"]


SMALL = ["prompts.per_generation=150", "prompts.held_out=100", "evaluate.sets=null"]
SMALL += ["evaluate.samples=1"]
ARMS = {
    "prosper": panel("prosper"),
    "sum": panel("mean", ", standardise: true"),
    "minimum": panel("least"),
    "product": panel("product"),
}


def brief(prompt: str, text: str) -> float:
    """1 less a twelfth for each word, at least 0."""
    return max(0.0, 1 - len(text.split()) / WORDS)


class Brief(Pointwise):
    """`brief`, as a judge whose bounds are known."""

    kind: str = "benchmarks.prosper_beside:Brief"
    bounds: ClassVar = (0.0, 1.0)

    def score(self, prompt: Prompt, text: str) -> Verdict:
        return {"score": brief("", text)}


def scores_of(prompt: Prompt, text: str) -> tuple[float, float]:
    """An answer's scores by both criteria."""
    return float(rate(prompt, text).right), brief("", text)


def shares(scores_NC: np.ndarray, start_NC: np.ndarray) -> np.ndarray:
    """By each criterion [C] the share of answers preferred to the start's.

    >>> shares(np.array([[1.0, 0.5], [0.0, 0.5]]), np.array([[0.0, 0.75], [0.0, 0.5]]))
    array([0.75, 0.25])
    """
    return (np.sign(scores_NC - start_NC).mean(axis=0) + 1) / 2


def answered(folder: Path, generation: int) -> dict[str, tuple[float, float]]:
    """Prompt -> the scores of a generation's first held-out answer."""
    found: dict[str, tuple[float, float]] = {}
    with RunDirectory.read(folder, True) as run:
        prompts = {prompt.id: prompt for prompt in run.ledger.prompts("held_out")}
        for match in run.ledger.matches("held_out"):
            players = {player.generation for player in match.seats.values()}
            if players == {generation} and match.prompt in prompts:
                text = match.turns[0].move.text
                found.setdefault(match.prompt, scores_of(prompts[match.prompt], text))
    return found


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed."""
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        start, last = answered(folder, 0), answered(folder, o.generations)
        shared = sorted(start.keys() & last.keys())
        if not shared:
            raise ValueError(f"{folder.name}: no held-out prompt was answered twice")
        won = shares(
            np.array([last[name] for name in shared]), np.array([start[name] for name in shared])
        )
        values = {"right": won[0], "brief": won[1], "least": won.min()}
        for column, value in values.items():
            yield Item(arm, seed, o.generations, "", column, float(value))


def play(seed: int, place: Path, o: Options) -> None:
    """Every arm of a seed in this process, which loads its libraries once."""
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        if not folder.exists():
            settings = [f"generations={o.generations}", f"seed={seed}", *SMALL, *ARMS[arm]]
            door.run("prosper_clerks", settings, out=folder)


EXPERIMENT = Experiment(
    name="prosper_beside",
    doc=__doc__,
    arms=ARMS,
    seeds=(0, 1, 2),
    generations=2,
    recipe="prosper_clerks",
    play=play,
    measure=measure,
    columns=("right", "brief", "least"),
    beside=dict.fromkeys(("sum", "minimum", "product"), "prosper"),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
