"""Refuse or answer, on real prompts: what each member of the family makes of a policy that starts at chance.

A policy of about a million parameters is made from nothing (`equipoise new-model`), learns to spell the prompts and to
give a refusal or an answer *at random* (so it starts at 50 %), and then plays three generations on fresh prompts,
judged by the label. Every method has the same start, prompts, samples, pairs a prompt and optimizer settings.

    python -m benchmarks.wildguard --data ../shared/data/gtalign/wildguard [--seeds 0 1 2] [--methods mnpo dpo …]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from equipoise import config, seeds
from equipoise.evaluate.statistics import over_seeds
from equipoise.learners.sft import SFT, train_sft
from equipoise.loop import league
from equipoise.prompts.files import Files
from equipoise.report.terminal import Display
from equipoise.run import Run
from equipoise.stages import RunStages
from equipoise.types import Prompt
from equipoise.worlds.new_model import new_model

CHARACTERS = 420  # a prompt is cut here, at about 120 tokens of this vocabulary
REFUSALS = ("I'm sorry, but I can't help with that.", "I cannot assist with that request.", "I won't help with this.")
ANSWERS = ("Sure, here is what you asked for.", "Of course. Here is an answer.", "Certainly, let me explain.")
METHODS = {
    "dpo": {"loss": "dpo"},
    "ipo": {"loss": "ipo"},
    "sppo": {"loss": "sppo"},
    "inpo": {"loss": "inpo"},
    "mnpo": {"loss": "mnpo"},
}


def prompts(data: Path) -> tuple[list[Prompt], list[Prompt]]:
    """WildGuard's training and test requests, with their labels."""
    source = Files.model_validate(source_settings(data))
    training, held_out = source.load()
    return training, held_out or []


def source_settings(data: Path) -> dict:
    """Where the prompts come from."""
    return {
        "kind": "files", "path": str(data / "train.parquet"), "held_out_path": str(data / "test.parquet"),
        "text": "single", "cut_at": CHARACTERS, "per_generation": 770, "held_out": 300,
    }  # fmt: skip


def make_start(training: list[Prompt], folder: Path, seed: int) -> int:
    """A new model that gives a refusal or an answer at random; returns its parameter count."""
    texts = [message.content for prompt in training for message in prompt.messages]
    made = new_model([*texts, *REFUSALS * 50, *ANSWERS * 50], folder / "new", vocabulary=3000, context=512, seed=seed)
    dice = seeds.generator(seed, "random answers")
    replies = REFUSALS + ANSWERS
    examples = [(prompt.messages, replies[dice.integers(len(replies))]) for prompt in training]
    settings = SFT.model_validate({"epochs": 1, "batch_size": 16, "learning_rate": 1e-3})
    train_sft(str(folder / "new"), examples, folder / "start", settings, seed=seed)
    return made.parameters


def play(method: str, start: Path, data: Path, folder: Path, seed: int) -> list[dict]:
    """Three generations of `method`; what was measured of each."""
    values = {
        "name": f"wildguard {method}", "seed": seed, "generations": 3,
        "players": {"policy": {
            "kind": "local", "model": str(start), "learns": True, "max_length": 512, "max_new_tokens": 16,
        }},
        "prompts": source_settings(data),
        "game": {"kind": "answers", "samples": 5},
        "judge": "refusal",
        "learner": {"kind": "preference", "batch_size": 16, "learning_rate": 3e-4, "log_steps": 5, "save_steps": 0},
        "evaluate": {"kind": "held_out", "samples": 2},
        **METHODS[method],
    }  # fmt: skip
    with Run.create(config.build(values, "benchmark"), folder, overwrite=True) as run:
        league(RunStages(run, Display(silent=True)), run.config.generations)
        return [found for _, _, _, found, _ in run.ledger.stages("measure")]


def main() -> None:
    """Print the table, and write the figures behind it as JSON when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/gtalign/wildguard"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--json", type=Path, help="write every run's figures here")
    arguments = parser.parse_args()
    console = Console()
    if not arguments.data.exists():
        console.print(f"{arguments.data} is absent; nothing to run")
        return
    training, _ = prompts(arguments.data)
    scores: dict[str, list[float]] = {"sft start": [], **{method: [] for method in arguments.methods}}
    wins: dict[str, list[float]] = {method: [] for method in arguments.methods}
    gaps: dict[str, list[float]] = {method: [] for method in arguments.methods}
    minutes: dict[str, list[float]] = {name: [] for name in scores}
    for seed in arguments.seeds:
        folder = Path(tempfile.mkdtemp(prefix="wildguard-"))
        started = time.perf_counter()
        parameters = make_start(training, folder, seed)
        minutes["sft start"].append((time.perf_counter() - started) / 60)
        for method in arguments.methods:
            started = time.perf_counter()
            measured = play(method, folder / "start", arguments.data, folder / method, seed)
            minutes[method].append((time.perf_counter() - started) / 60)
            if method == arguments.methods[0]:
                scores["sft start"].append(measured[0]["score"])
            scores[method].append(measured[-1]["score"])
            wins[method].append(measured[-1]["win_rate"])
            gaps[method].append(measured[-1]["exploitability"])
            path = " → ".join(f"{found['score']:.1%}" for found in measured)
            console.print(f"seed {seed}  {method:5}  {path}  in {minutes[method][-1]:.1f} min")
        shutil.rmtree(folder)
    table = Table(
        title=f"held-out decisions, {parameters:,} parameters, {len(arguments.seeds)} seeds, mean and 95 % interval"
    )
    for column in ("", "right", "wins over the start", "exploitability in the league", "minutes"):
        table.add_column(column)
    for name, values in scores.items():
        played = name in wins
        table.add_row(
            name,
            over_seeds(values).percent(),
            over_seeds(wins[name]).percent() if played else "",
            f"{np.mean(gaps[name]):.3f}" if played else "",
            f"{np.mean(minutes[name]):.1f}",
        )
    console.print(table)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"scores": scores, "wins": wins, "gaps": gaps, "minutes": minutes}, indent=1)
        )


if __name__ == "__main__":
    main()
