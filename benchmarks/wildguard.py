"""Refuse or answer, on real prompts: the effect of each member of the preference family on a policy
that starts at chance.

A policy of about a million parameters is made from nothing (`tools.fresh_model`), learns to spell
the prompts and to give a refusal or an answer *at random* (so it starts at 50 %), and then plays
three generations on fresh prompts, judged by the label. Every method has the same start, prompts,
samples, pairs for each prompt and optimizer settings.

Two further rows ask why DPO's late generations fall: one compares with the last policy, as MNPO
does, where DPO compares with the start; one passes twice over its pairs, not four times.

Beside every method stands the same model decoded greedily; beside all of them what the labels
allow: the more frequent one, a bag of words, and the same start taught the right answers of the
same prompts by supervised learning.

    python -m benchmarks.wildguard --data ../shared/data/gtalign/wildguard
        [--seeds 3 4 5] [--arms mnpo dpo …] [--scale 1]
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from safetensors import safe_open

import equipoise
from benchmarks.by_labels import peer_accuracies
from benchmarks.controls import decoded
from benchmarks.experiment import AT, Experiment, Options, of_rows, of_run
from benchmarks.running import recorded
from benchmarks.verdicts import Item
from equipoise import seeds
from equipoise.errors import NoSignal
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.prompts.prompt_files import Files
from equipoise.prompts.split import load_split
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt
from tools.fresh_model import new_model

CHARACTERS = 420  # a prompt is cut here, at about 120 tokens of this vocabulary
REFUSALS = ("I can't help with that.",)
ANSWERS = ("Sure, here is what you asked for.",)
EPOCHS = 4
LEARNED = ("examples", "loss", "margin", "accuracy")  # of a generation's pairs
GREEDY_SHARE, START, SFT_ON_LABELS = "greedy", "sft start", "SFT on the labels"
PLAYER, ONCE = "policy", {"game.samples": 2, "evaluate.samples": 1}
METHODS: dict[str, dict] = {
    "dpo": {"loss": "dpo"},
    "dpo, last policy": {"loss": {"kind": "dpo", "reference": "previous"}},
    "dpo, two passes": {"loss": "dpo", "learner": {"epochs": 2}},
    "ipo": {"loss": "ipo"},
    "sppo": {"loss": "sppo"},
    "inpo": {"loss": "inpo"},
    "mnpo": {"loss": "mnpo"},
}


def prompts(data: Path) -> tuple[list[Prompt], list[Prompt]]:
    """WildGuard's training and test requests, with their labels."""
    source = Files.model_validate(source_settings(data)).load()
    return source.training, source.held_out or []


def divided(seed: int, sizes: Sizes) -> tuple[list[Prompt], list[Prompt]]:
    """What a seed's runs train on, and what they hold out."""
    if not sizes.dev:
        return prompts(sizes.data)
    files = Files.model_validate(source_settings(sizes.data, sizes.scale, dev=True))
    split = load_split(files, sizes.generations, seed)
    return [prompt for part in split.parts for prompt in part], list(split.held_out)


def source_settings(data: Path, scale: float = 1.0, *, dev: bool = False) -> dict:
    """The settings of the prompts; `scale` is that of their number. With `dev` the requests that
    are held out are cut from the training file.
    """
    tests = {} if dev else {"held_out_path": str(data / "test.parquet")}
    return {
        "kind": "files",
        "path": str(data / "train.parquet"),
        **tests,
        "text": "single",
        "cut_at": CHARACTERS,
        "per_generation": round((670 if dev else 770) * scale),
        "held_out": round(300 * scale),
    }


@dataclass(frozen=True)
class Sizes:
    """What is the same for every method."""

    generations: int
    data: Path
    scale: float  # of the prompts
    dev: bool
    learning_rate: float
    at: Mapping[str, str]  # method -> another learning rate


def make_start(training: list[Prompt], folder: Path, seed: int) -> None:
    """Make `start`, a new model that gives a refusal or an answer at random."""
    texts = [message.content for prompt in training for message in prompt.messages]
    new_model(
        [*texts, *REFUSALS * 50, *ANSWERS * 50],
        folder / "new",
        vocabulary=3000,
        context=512,
        seed=seed,
        shrink=True,
    )
    rng = seeds.generator(seed, "random answers")
    replies = REFUSALS + ANSWERS
    examples = [(prompt.messages, replies[rng.integers(len(replies))]) for prompt in training]
    settings = SFT.model_validate({"epochs": 1, "batch_size": 16, "learning_rate": 1e-3})
    train_sft(str(folder / "new"), examples, folder / "start", settings, seed=seed)


def play(method: str, folder: Path, seed: int, sizes: Sizes) -> None:
    """Play a method from `start` beside its folder, where it has not been played yet."""
    arm, _, rate = method.partition(AT)
    values = {
        "name": f"wildguard {method}",
        "seed": seed,
        "generations": sizes.generations,
        "players": {
            "policy": {
                "kind": "local",
                "model": str(folder.parent / "start"),
                "learns": True,
                "max_length": 512,
                "max_new_tokens": 16,
            }
        },
        "prompts": source_settings(sizes.data, sizes.scale, dev=sizes.dev),
        "game": {"kind": "answers", "samples": 5},
        "judge": "refusal",
        "learner": {
            "kind": "preference",
            "batch_size": 16,
            "learning_rate": float(rate or sizes.at.get(method) or sizes.learning_rate),
            "epochs": EPOCHS,
            "log_steps": 5,
            "save_steps": 0,
        },
        "evaluate": {"kind": "held_out", "samples": 5},
    }
    own = dict(METHODS[arm])
    values["learner"] |= own.pop("learner", {})
    values |= own
    if not (folder / "report.html").exists():
        try:
            equipoise.run(values, out=folder, overwrite=True, progress=False)
        except NoSignal as settled:  # all answers to a prompt are alike: its end
            print(f"{method} has ended early: {settled}")


def one_seed(seed: int, methods: Sequence[str], folder: Path, sizes: Sizes) -> None:
    """Every method from the same start, its greedy answers, and what the labels teach the start."""
    training, _ = divided(seed, sizes)
    if not (folder / "start" / "config.json").exists():
        make_start(training, folder, seed)
    for method in methods:
        play(method, folder / method, seed, sizes)
        decoded(folder / method, "end", folder / f"end-{method}", settings=ONCE)
    bare = folder / methods[0]
    decoded(bare, "start", folder / f"start-{methods[0]}", settings=ONCE)
    taught = {"policy.model": str(teach_labels(training, folder, seed))}
    decoded(bare, "start", folder / f"taught-{methods[0]}", settings={**ONCE, **taught})


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every method of a seed, the start, and what the labels allow."""
    folder = place / f"seed-{seed}"
    each = dict.fromkeys(range(o.generations + 1), "score")
    for method in o.arms:
        with RunDirectory.read(folder / method) as run:
            measured, learned = recorded(run, "measure"), recorded(run, "learn")
        yield from of_run(folder / method, method, seed, each, [PLAYER])
        yield from of_run(folder / f"end-{method}", method, seed, {0: GREEDY_SHARE}, [PLAYER])
        whole = {name: measured[-1][name] for name in ("win_rate", "exploitability")}
        for generation, facts in enumerate(learned, 1):
            row = {method: {name: facts[name] for name in LEARNED}}
            yield from of_rows(row, seed, generation)
        yield from of_rows({method: whole}, seed)
    first = o.arms[0]
    yield from of_run(folder / first, START, seed, {0: "score"}, [PLAYER])
    for arm, name in ((START, "start"), (SFT_ON_LABELS, "taught")):
        yield from of_run(folder / f"{name}-{first}", arm, seed, {0: GREEDY_SHARE}, [PLAYER])
    yield from of_rows({START: {"parameters": parameters(folder / "start")}}, seed)
    training, held_out = divided(seed, sizes_of(o))
    for peer, right_T in peer_accuracies(training, held_out, "harmful").items():
        for prompt, right in zip(held_out, right_T, strict=True):
            yield Item(peer, seed, 0, prompt.id, GREEDY_SHARE, float(right))


def parameters(folder: Path) -> int:
    """How many numbers a model's file holds."""
    with safe_open(folder / "model.safetensors", "pt") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
    return sum(map(math.prod, shapes))


def teach_labels(training: list[Prompt], folder: Path, seed: int) -> Path:
    """The same start, taught the right answer to every training prompt as many times as a method
    passes over its pairs.
    """
    examples = [
        (prompt.messages, (REFUSALS if prompt.facts["harmful"] else ANSWERS)[0])
        for prompt in training
    ]
    settings = SFT.model_validate({"epochs": EPOCHS, "batch_size": 16, "learning_rate": 1e-3})
    taught = folder / "taught"
    if not (taught / "config.json").exists():
        train_sft(str(folder / "start"), examples, taught, settings, seed=seed)
    return taught


def in_own_process(seed: int, place: Path, o: Options) -> None:
    """A seed in a process of its own, on its share of the cores."""
    threads = max(1, len(os.sched_getaffinity(0)) // o.jobs)
    with ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, (threads,)) as worker:
        worker.submit(one_seed, seed, o.arms, place / f"seed-{seed}", sizes_of(o)).result()


def sizes_of(o: Options) -> Sizes:
    """As the options say."""
    return Sizes(o.generations, o.data, o.scale, o.dev, o.learning_rate, getattr(o, "at", {}))


def begin(place: Path, o: Options) -> None:
    """End the benchmark where there are no data."""
    if not o.data.exists():
        raise SystemExit(f"{o.data} is absent; nothing to run")
    if o.sweep and not o.dev:
        raise SystemExit("--sweep: with --dev, so that no test row chooses a rate")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --data, --scale, --learning-rate and --dev."""
    parser.set_defaults(arms=["mnpo", "dpo"])
    add = parser.add_argument
    add("--data", type=Path, default=Path("../shared/data/gtalign/wildguard"))
    add("--scale", type=float, default=1.0, help="of the prompts")
    add("--learning-rate", type=float, default=1e-3)
    dev = "hold out training rows, to choose settings without the test rows"
    add("--dev", action="store_true", help=dev)


EXPERIMENT = Experiment(
    name="wildguard",
    doc=__doc__,
    arms=dict.fromkeys(METHODS, ()),
    seeds=tuple(range(3, 13)),
    generations=3,
    play=in_own_process,
    measure=measure,
    columns=("score", GREEDY_SHARE, "win_rate", "exploitability"),
    points=("exploitability",),
    begin=begin,
    add=add_options,
    decides=("scale", "dev", "learning_rate"),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
