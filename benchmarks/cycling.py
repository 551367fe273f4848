"""Methods of the MNPO family where preferences cycle, on a model that samples and trains.

The recipe `examples/claims/cycling_clerks.yaml`: a tiny beginner answers requests, and a majority
of three rubrics prefers asking back to helping, helping to declining, declining to asking back. The
only policy that nobody can exploit draws each of the three with one chance in three.

    python -m benchmarks.cycling [--seeds 0 1 2 3 4] [--arms dpo mnpo …] [--jobs 2]

    last       exploitability of the last policy: by how much the best action against its answers to a prompt
               wins more often than half, mean over held-out prompts (0: not at all, .5: always)
    average    of the average of all policies so far, which are drawn from with equal chances
    went       the share of answers that are others than the start's, of all prompts together, with
               the luck of the draw, which the row `uniform` has alone
    largest    the largest share that any action has, over all prompts: 1/3 at the equilibrium

Shares are of some twenty answers a prompt and generation, so that even the uniform policy seems
exploitable; the row `uniform` is drawn in the same numbers. Each method has its own recipe's step:
arms differ in that, too. `outside model` plays against a frozen stranger that answers as it falls,
`two learners` against one that starts so and learns as well; the policy alone is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.experiment import Experiment, Options, name_of
from benchmarks.running import importable
from benchmarks.verdicts import Item
from equipoise.environments.clerk.clerk_answers import action
from equipoise.runs.directory import RunDirectory

HOME = Path(__file__).parents[1] / "examples" / "claims"
RECIPE = HOME / "cycling_clerks.yaml"
SMALL = "learner.learning_rate=5.0e-5"  # a quarter of the recipe's


def stranger(learns: str) -> str:
    """A second player that answers as it falls, as a setting's value."""
    sizes = "max_length: 128, max_new_tokens: 32, batch_size: 256"
    sampling = "temperature: 1.0, top_p: 1.0"
    return f"{{kind: local, model: builtin/pool, learns: {learns}, {sizes}, {sampling}}}"


ALONE = ["schedule=self_play", "training_matches=own"]
ARMS: dict[str, list[str]] = {
    "dpo": ["loss=dpo", "loss.reference=previous"],
    "inpo": ["loss=inpo"],
    "mnpo, last alone": ["loss.weights=[1]"],
    "mnpo, ½ ½": ["loss.weights=[0.5, 0.5]"],
    "mnpo, half a reference": ["loss.ratio=0.5"],
    "mnpo, outside model": [
        f"players.stranger={stranger('false')}",
        *ALONE,
        "loss.against=outsiders",
    ],
    "mnpo, two learners": [f"players.stranger={stranger('true')}", *ALONE, "loss.against=peers"],
    "dpo, small steps": ["loss=dpo", "loss.reference=previous", SMALL],
    "mnpo, ½ ½, small steps": ["loss.weights=[0.5, 0.5]", SMALL],
}
POLICY, START, UNIFORM = "policy", "start", "uniform"
COLUMNS = ("last", "average", "largest")
ACTIONS = ("ask", "answer", "decline", "other")
# [A, A]: how often the row's action is preferred to the column's.
BEATS_AA = np.array([[0.5, 1, 0, 1], [0, 0.5, 1, 1], [1, 0, 0.5, 1], [0, 0, 0, 0.5]], float)


def exploitability(share_PA: np.ndarray) -> np.ndarray:
    """[P]: by how much the best action wins more often than half against each prompt's answers."""
    return (share_PA @ BEATS_AA.T).max(axis=1) - 0.5


def items(arm: str, seed: int, share_GPA: np.ndarray) -> Iterator[Item]:
    """Of the policies of all generations so far, prompt by prompt."""
    for generation in range(len(share_GPA)):
        share_PA = share_GPA[generation]
        average_PA = share_GPA[: generation + 1].mean(axis=0)
        for column, of_PA in (("last", share_PA), ("average", average_PA)):
            for prompt, value in enumerate(exploitability(of_PA)):
                yield Item(arm, seed, generation, str(prompt), column, float(value))
        share_A = share_PA.mean(axis=0)
        went = float(np.abs(share_A - share_GPA[0].mean(axis=0)).sum() / 2)
        yield Item(arm, seed, generation, "", "went", went)
        yield Item(arm, seed, generation, "", "largest", float(share_A.max()))


def counts(folder: Path) -> np.ndarray:
    """[G, P, A]: how often each generation does what in answer to each held-out prompt.

    Raises ValueError where a generation did not answer a prompt.
    """
    with RunDirectory.read(folder) as run:
        prompts = {prompt.id: prompt for prompt in run.ledger.prompts("held_out")}
        rows = {name: place for place, name in enumerate(prompts)}
        count_GPA = np.zeros((run.config.generations + 1, len(rows), len(ACTIONS)))
        for match in run.ledger.matches("held_out"):
            player, *others = set(match.seats.values())
            if others or player.name != POLICY:  # one generation against another
                continue
            for turn in match.turns:
                does = action(prompts[match.prompt], turn.move.text)
                kind = ACTIONS.index(does) if does in ACTIONS else len(ACTIONS) - 1
                count_GPA[player.generation, rows[match.prompt], kind] += 1
    if not count_GPA.any(axis=-1).all():
        raise ValueError(f"{folder.name}: a held-out prompt has no answer")
    return count_GPA


def shares(folder: Path) -> np.ndarray:
    """`counts` as shares of a generation's answers to a prompt."""
    count_GPA = counts(folder)
    return count_GPA / count_GPA.sum(axis=-1, keepdims=True)


def uniform(seed: int, like: Path) -> np.ndarray:
    """As `shares` of a policy that draws each of the three actions alike, as often as a run's
    policies answered.
    """
    count_GPA = counts(like)
    dice = np.random.default_rng(seed)
    drawn = dice.multinomial(count_GPA.sum(axis=-1).astype(int), [1 / 3, 1 / 3, 1 / 3, 0])
    return drawn / drawn.sum(axis=-1, keepdims=True)


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed, the start, and the uniform policy drawn alike."""
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        share_GPA = shares(folder)
        yield from items(arm, seed, share_GPA)
        if arm == o.arms[0]:
            yield from items(START, seed, share_GPA[:1])
            yield from items(UNIFORM, seed, uniform(seed, folder))


EXPERIMENT = Experiment(
    name="cycling",
    doc=__doc__,
    arms=ARMS,
    seeds=(0, 1, 2, 3, 4),
    generations=8,
    recipe=str(RECIPE),
    measure=measure,
    columns=COLUMNS,
    points=COLUMNS[:2],
    begin=lambda place, o: importable(HOME),  # the rubrics lie beside the recipe
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
