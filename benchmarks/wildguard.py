"""Refuse or answer, on real prompts: the effect of each member of the preference family on a policy
that starts at chance.

A policy of about a million parameters is made from nothing (`equipoise new-model`), learns to spell
the prompts and to give a refusal or an answer *at random* (so it starts at 50 %), and then plays
three generations on fresh prompts, judged by the label. Every method has the same start, prompts,
samples, pairs for each prompt and optimizer settings.

Two further rows ask why DPO's late generations fall: one compares with the last policy, as MNPO
does, where DPO compares with the start; one passes twice over its pairs, not four times.

Beside every method stands the same model decoded greedily; beside all of them what the labels
allow: the more frequent one, a bag of words, and the same start taught the right answers of the
same prompts by supervised learning.

    python -m benchmarks.wildguard --data ../shared/data/gtalign/wildguard
        [--seeds 0 1 2] [--arms mnpo dpo …] [--scale 1]
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table
from safetensors import safe_open

import equipoise
from benchmarks import arms
from benchmarks.by_labels import peer_accuracies
from benchmarks.comparing import bounded
from benchmarks.controls import Decoded, decoded
from benchmarks.running import recorded
from equipoise import seeds
from equipoise.errors import NoSignal
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.models.fresh_model import new_model
from equipoise.prompts.prompt_files import Files
from equipoise.prompts.split import load_split
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt

CHARACTERS = 420  # a prompt is cut here, at about 120 tokens of this vocabulary
REFUSALS = ("I can't help with that.",)
ANSWERS = ("Sure, here is what you asked for.",)
EPOCHS = 4
LEARNED = ("examples", "loss", "margin", "accuracy")  # of a generation's pairs
GREEDY, START, SFT_ON_LABELS = "greedy", "sft start", "SFT on the labels"
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


def play(method: str, folder: Path, seed: int, sizes: Sizes) -> dict[str, Any]:
    """The figures of a method from `start` beside its folder, played where it has not been yet."""
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
            "learning_rate": sizes.learning_rate,
            "epochs": EPOCHS,
            "log_steps": 5,
            "save_steps": 0,
        },
        "evaluate": {"kind": "held_out", "samples": 5},
    }
    own = dict(METHODS[method])
    values["learner"] |= own.pop("learner", {})
    values |= own
    if not (folder / "report.html").exists():
        try:
            equipoise.run(values, out=folder, overwrite=True, progress=False)
        except NoSignal as settled:  # all answers to a prompt are alike: its end
            print(f"{method} has ended early: {settled}")
    with RunDirectory.read(folder) as run:
        measured, learned = recorded(run, "measure"), recorded(run, "learn")
    last = {name: measured[-1][name] for name in ("score", "win_rate", "exploitability")}
    paths = {
        "scores": [facts["score"] for facts in measured],
        "learned": [{name: facts[name] for name in LEARNED} for facts in learned],
    }
    return {**last, **paths}


def one_seed(
    seed: int, methods: Sequence[str], folder: Path, sizes: Sizes
) -> dict[str, dict[str, Any]]:
    """Every method from the same start, and what the labels teach it: name -> its figures."""
    training, held_out = divided(seed, sizes)
    if not (folder / "start" / "config.json").exists():
        make_start(training, folder, seed)
    by_row: dict[str, dict[str, Any]] = {START: {}}
    for method in methods:
        place = folder / method
        by_row[method] = play(method, place, seed, sizes)
        by_row[method][GREEDY] = greedy_score(place, "end", folder)
    bare = folder / methods[0]
    by_row[START] = {
        "score": by_row[methods[0]]["scores"][0],  # as every method's
        "parameters": parameters(folder / "start"),
        GREEDY: greedy_score(bare, "start", folder),
    }
    taught = {"policy.model": str(teach_labels(training, folder, seed))}
    by_row[SFT_ON_LABELS] = {GREEDY: greedy_score(bare, "start", folder, taught)}
    for peer, right in peer_accuracies(training, held_out, "harmful").items():
        by_row[peer] = {GREEDY: right}
    return by_row


def parameters(folder: Path) -> int:
    """How many numbers a model's file holds."""
    with safe_open(folder / "model.safetensors", "pt") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
    return sum(map(math.prod, shapes))


def greedy_score(
    folder: Path, which: Decoded, place: Path, settings: dict[str, str] | None = None
) -> float:
    """The share of right decisions at a run's start or end, decoded greedily; `settings` as
    `decoded` takes them.
    """
    name = "-".join([which, folder.name, *(settings or {})])
    once = {"game.samples": 2, "evaluate.samples": 1}
    again = decoded(folder, which, place / name, settings={**once, **(settings or {})})
    with RunDirectory.read(again) as run:
        (measured,) = recorded(run, "measure")
    return measured["score"]


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


def main() -> None:
    """Print the table, and write the figures behind it as JSON with --json."""
    parser = arms.parser(__doc__, METHODS, seeds=[0, 1, 2], generations=3)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/gtalign/wildguard"))
    parser.add_argument("--scale", type=float, default=1.0, help="of the prompts")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument(
        "--dev",
        action="store_true",
        help="hold out training rows, to choose settings without the test rows",
    )
    o = parser.parse_args()
    if not o.data.exists():
        print(f"{o.data} is absent; nothing to run")
        return
    by_row = arms.over_seeds(
        o,
        lambda seed, place: in_own_process(seed, o, place / f"seed-{seed}"),
        lambda seed, place, played: played,
        text,
        scale=o.scale,
        dev=o.dev,
        learning_rate=o.learning_rate,
    )
    arms.show(table(by_row), [])


def in_own_process(seed: int, o: argparse.Namespace, folder: Path) -> dict[str, dict[str, Any]]:
    """A seed in a process of its own, on its share of the cores."""
    threads = max(1, len(os.sched_getaffinity(0)) // o.jobs)
    with ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, (threads,)) as worker:
        sizes = Sizes(o.generations, o.data, o.scale, o.dev, o.learning_rate)
        return worker.submit(one_seed, seed, o.arms, folder, sizes).result()


def text(row: arms.Row) -> str:
    """A seed's line of a row: the path of the sampled score, where it learned, and greedily."""
    path = " → ".join(f"{score:.1%}" for score in row.get("scores", ()))
    return f"{path}  greedy {row[GREEDY]:.1%}"


def table(by_row: Mapping[str, list[arms.Row]]) -> Table:
    """A row for each method: mean over seeds with its interval."""
    starts = by_row[START]
    size = int(starts[0]["parameters"])
    shown = Table(
        title=f"held-out decisions, {size:,} parameters, {len(starts)} seeds, "
        "mean and 95 % interval"
    )
    for column in ("", "right", "right, greedy", "wins over the start"):
        shown.add_column(column)
    shown.add_column("exploitability in the league")
    for name, rows in by_row.items():
        shown.add_row(
            name,
            *(_shares(rows, column) for column in ("score", GREEDY, "win_rate")),
            _mean(rows, "exploitability", ".3f"),
        )
    return shown


def _shares(rows: list[arms.Row], column: str) -> str:
    """A share over the seeds with its interval; nothing for a row without it."""
    if column not in rows[0]:
        return ""
    return bounded([row[column] for row in rows]).percent()


def _mean(rows: list[arms.Row], column: str, form: str) -> str:
    if column not in rows[0]:
        return ""
    return format(np.mean([row[column] for row in rows]), form)


if __name__ == "__main__":
    main()
