"""Refuse or answer, on real prompts: the effect of each member of the preference family on
a policy that starts at chance.

A policy of about a million parameters is made from nothing (`equipoise new-model`),
learns to spell the prompts and to give a refusal or an answer *at random* (so it starts
at 50 %), and then plays three generations on fresh prompts, judged by the label. Every
method has the same start, prompts, samples, pairs for each prompt and optimizer
settings.

Two further rows ask why DPO's late generations fall: one compares with the last policy, as
MNPO does, where DPO compares with the start; one passes twice over its pairs, not four times.

Beside every method stands the same model decoded greedily; beside all of them what the
labels allow: the more frequent one, a bag of words, and the same start taught the right
answers of the same prompts by supervised learning.

    python -m benchmarks.wildguard --data ../shared/data/gtalign/wildguard
        [--seeds 0 1 2] [--methods mnpo dpo …] [--scale 1]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.by_labels import peer_accuracies
from benchmarks.comparing import bounded
from benchmarks.controls import Decoded, decoded
from benchmarks.running import recorded, share_of_cores, write_results
from equipoise import seeds
from equipoise.errors import NoSignal
from equipoise.learners.sft import SFT, train_sft
from equipoise.models.new_model import new_model
from equipoise.prompts.files import Files
from equipoise.run import recipes
from equipoise.run.directory import RunDirectory
from equipoise.run.loop import league
from equipoise.run.monitor import Silent
from equipoise.run.stages import RunStages
from equipoise.types import Prompt

CHARACTERS = 420  # a prompt is cut here, at about 120 tokens of this vocabulary
REFUSALS = ("I can't help with that.",)
ANSWERS = ("Sure, here is what you asked for.",)
EPOCHS = 4
LEARNED = ("examples", "loss", "margin", "accuracy")  # of a generation's pairs
GREEDY, SFT_ON_LABELS = "greedy", "SFT on the labels"
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


def source_settings(data: Path, scale: float = 1.0) -> dict:
    """The settings of the prompts; `scale` is that of their number."""
    return {
        "kind": "files",
        "path": str(data / "train.parquet"),
        "held_out_path": str(data / "test.parquet"),
        "text": "single",
        "cut_at": CHARACTERS,
        "per_generation": round(770 * scale),
        "held_out": round(300 * scale),
    }


def make_start(training: list[Prompt], folder: Path, seed: int) -> int:
    """A new model that gives a refusal or an answer at random; returns its parameter
    count.
    """
    texts = [message.content for prompt in training for message in prompt.messages]
    made = new_model(
        [*texts, *REFUSALS * 50, *ANSWERS * 50],
        folder / "new",
        vocabulary=3000,
        context=512,
        seed=seed,
        shrink=True,
    )
    rng = seeds.generator(seed, "random answers")
    replies = REFUSALS + ANSWERS
    examples = [
        (prompt.messages, replies[rng.integers(len(replies))]) for prompt in training
    ]
    settings = SFT.model_validate(
        {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3}
    )
    train_sft(str(folder / "new"), examples, folder / "start", settings, seed=seed)
    return made.parameters


def play(
    method: str, start: Path, data: Path, folder: Path, seed: int, scale: float
) -> tuple[list[dict], float]:
    """Three generations of `method`: the measurement of each, and the minutes in all."""
    values = {
        "name": f"wildguard {method}",
        "seed": seed,
        "generations": 3,
        "players": {
            "policy": {
                "kind": "local",
                "model": str(start),
                "learns": True,
                "max_length": 512,
                "max_new_tokens": 16,
            }
        },
        "prompts": source_settings(data, scale),
        "game": {"kind": "answers", "samples": 5},
        "judge": "refusal",
        "learner": {
            "kind": "preference",
            "batch_size": 16,
            "learning_rate": 1e-3,
            "epochs": EPOCHS,
            "log_steps": 5,
            "save_steps": 0,
        },
        "evaluate": {"kind": "held_out", "samples": 5},
    }
    own = dict(METHODS[method])
    values["learner"] |= own.pop("learner", {})
    values |= own
    started = time.perf_counter()
    with RunDirectory.create(
        recipes.build(values, "benchmark"), folder, overwrite=True
    ) as run:
        try:
            league(RunStages.of(run, Silent()), run.config.generations)
        except NoSignal as settled:  # all answers to a prompt are alike: its end
            print(f"{method} has ended early: {settled}")
        measured, learned = recorded(run, "measure"), recorded(run, "learn")
    for facts, before in zip(measured[1:], learned, strict=True):
        facts["learned"] = {name: before[name] for name in LEARNED}
    return measured, (time.perf_counter() - started) / 60


def one_seed(
    seed: int, methods: list[str], data: Path, scale: float, console: Console
) -> dict[str, dict[str, Any]]:
    """Every method from the same start, and what the labels allow: name -> its figures."""
    training, held_out = prompts(data)
    with tempfile.TemporaryDirectory(prefix="wildguard-") as name:
        folder, started = Path(name), time.perf_counter()
        parameters = make_start(training, folder, seed)
        by_method: dict[str, dict[str, Any]] = {
            "sft start": {
                "minutes": (time.perf_counter() - started) / 60,
                "parameters": float(parameters),
            }
        }
        for method in methods:
            measured, minutes = play(
                method, folder / "start", data, folder / method, seed, scale
            )
            by_method["sft start"]["score"] = measured[0]["score"]
            last = {
                name: measured[-1][name]
                for name in ("score", "win_rate", "exploitability")
            }
            generations = {
                "scores": [facts["score"] for facts in measured],
                "learned": [facts["learned"] for facts in measured[1:]],
            }
            by_method[method] = {**last, **generations, "minutes": minutes}
            start = by_method["sft start"]
            if GREEDY not in start:
                start[GREEDY] = greedy_score(folder / method, "start", folder)
            by_method[method][GREEDY] = greedy_score(folder / method, "end", folder)
            path = " → ".join(f"{generation['score']:.1%}" for generation in measured)
            console.print(
                f"seed {seed}  {method:5}  {path}, greedy "
                f"{by_method[method][GREEDY]:.1%}  in {minutes:.1f} min"
            )
        taught = teach_labels(training, folder, seed)
        bare = folder / methods[0]
        by_method[SFT_ON_LABELS] = {
            GREEDY: greedy_score(bare, "start", folder, {"policy.model": str(taught)})
        }
    for peer, right in peer_accuracies(training, held_out, "harmful").items():
        by_method[peer] = {GREEDY: right}
    return by_method


def greedy_score(
    folder: Path, which: Decoded, place: Path, settings: dict[str, str] | None = None
) -> float:
    """The share of right decisions at a run's start or end, decoded greedily; `settings`
    as `decoded` takes them.
    """
    name = "-".join([which, folder.name, *(settings or {})])
    once = {"game.samples": 2, "evaluate.samples": 1}
    again = decoded(folder, which, place / name, settings={**once, **(settings or {})})
    with RunDirectory.read(again) as run:
        (measured,) = recorded(run, "measure")
    return measured["score"]


def teach_labels(training: list[Prompt], folder: Path, seed: int) -> Path:
    """The same start, taught the right answer to every training prompt as many times as
    a method passes over its pairs.
    """
    examples = [
        (prompt.messages, (REFUSALS if prompt.facts["harmful"] else ANSWERS)[0])
        for prompt in training
    ]
    settings = SFT.model_validate(
        {"epochs": EPOCHS, "batch_size": 16, "learning_rate": 1e-3}
    )
    taught = folder / "taught"
    train_sft(str(folder / "start"), examples, taught, settings, seed=seed)
    return taught


def main() -> None:
    """Print the table, and write the figures behind it as JSON with --json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data/gtalign/wildguard")
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), choices=list(METHODS)
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="seeds played side by side, each on its share of the cores",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the prompts")
    parser.add_argument("--json", type=Path, help="write every run's figures here")
    arguments = parser.parse_args()
    console = Console()
    if not arguments.data.exists():
        console.print(f"{arguments.data} is absent; nothing to run")
        return
    command = [
        sys.executable,
        "-m",
        "benchmarks.wildguard",
        "--methods",
        *arguments.methods,
        "--data",
        str(arguments.data),
        "--scale",
        str(arguments.scale),
    ]

    def play_seed(seed: int) -> dict[str, dict[str, float]]:
        if arguments.jobs == 1:
            data, scale = arguments.data, arguments.scale
            return one_seed(seed, arguments.methods, data, scale, console)
        return in_own_process([*command, "--seeds", str(seed)], arguments.jobs)

    with ThreadPoolExecutor(arguments.jobs) as workers:
        each = map if arguments.jobs == 1 else workers.map
        by_seed = list(each(play_seed, arguments.seeds))
    if arguments.json:
        sizes = {"seeds": arguments.seeds, "scale": arguments.scale}
        write_results(arguments.json, by_seed, **sizes)
    if len(by_seed) > 1 or not arguments.json:
        console.print(table(by_seed))


def in_own_process(command: list[str], jobs: int) -> dict[str, dict[str, float]]:
    """A seed in its own process, which prints its progress."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        command = [*command, "--json", str(path)]
        subprocess.run(command, check=True, env=share_of_cores(jobs))
        return json.loads(path.read_text())["figures"][0]


def table(by_seed: list[dict[str, dict[str, float]]]) -> Table:
    """A row for each method: mean over seeds with its interval."""
    size = int(by_seed[0]["sft start"]["parameters"])
    shown = Table(
        title=f"held-out decisions, {size:,} parameters, {len(by_seed)} seeds, "
        "mean and 95 % interval"
    )
    for column in ("", "right", "right, greedy", "wins over the start"):
        shown.add_column(column)
    for column in ("exploitability in the league", "minutes"):
        shown.add_column(column)
    for name in by_seed[0]:
        rows = [seed[name] for seed in by_seed]
        shown.add_row(
            name,
            *(_shares(rows, column) for column in ("score", GREEDY, "win_rate")),
            _mean(rows, "exploitability", ".3f"),
            _mean(rows, "minutes", ".1f"),
        )
    return shown


def _shares(rows: list[dict[str, float]], column: str) -> str:
    """A share over the seeds with its interval; nothing for a row without it."""
    if column not in rows[0]:
        return ""
    return bounded([row[column] for row in rows]).percent()


def _mean(rows: list[dict[str, float]], column: str, form: str) -> str:
    if column not in rows[0]:
        return ""
    return format(np.mean([row[column] for row in rows]), form)


if __name__ == "__main__":
    main()
