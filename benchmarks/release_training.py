"""What three differences of the releases do to a training: python -m benchmarks.release_training
[--seeds 3] [--prompts 400] [--out FILE]

The built-in beginner learns as in `quickstart`, once for each arm and seed. Text: pairs by the chat
template, as plain text, and as plain text that begins alike for all. Kept: the last weights, or those
of the lowest loss on held-out pairs. Leak: 78 of 100 held-out prompts stand among the training
prompts, or as many others in their place; both are measured on the same held-out prompts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

import equipoise
from benchmarks.running import RESULTS, write_results
from equipoise.prompts.base import Prompts
from equipoise.types import Prompt

TEXT = {"max_length": 128, "max_prompt": 64, "opponents_max_prompt": 64}
ARMS: dict[str, dict[str, Any]] = {
    "chat template, last weights": {},
    "plain text": {"learner.pair_text": {**TEXT, "begins": "learner"}},
    "plain text, begun alike": {"learner.pair_text": {**TEXT, "begins": "both"}},
    "lowest held-out loss": {"learner.lowest_loss": {"share": 0.1, "every": 5}},
}
HELD_OUT = 100
LEAKED = 78
LEAK_GENERATIONS = 3


def played(settings: dict[str, Any]) -> dict[str, float]:
    """Held-out scores of the start and of the last generation, greedily and as it samples."""
    with tempfile.TemporaryDirectory() as folder:
        run = equipoise.run("quickstart", settings, Path(folder) / "run", progress=False)
        scores = run.measures()["score"].tolist()
    return {"start": scores[0], "end": scores[-1]}


def row_of(prompt: Prompt) -> dict[str, Any]:
    """A prompt as a row of a file."""
    messages = [{"role": each.role, "content": each.content} for each in prompt.messages]
    return {"messages": messages, **prompt.facts}


def leak_files(folder: Path, seed: int, count: int, shared: bool) -> tuple[Path, Path]:
    """(`count` training rows, held-out rows), of which with `shared` LEAKED stand in both."""
    source = {"kind": "clerk_questions", "count": count + HELD_OUT, "seed": 100 + seed}
    prompts = Prompts.build(source).load().training
    rows = [json.dumps(row_of(prompt)) + "\n" for prompt in prompts]
    held_out, training = rows[:HELD_OUT], rows[HELD_OUT:]
    if shared:
        training = [*training[LEAKED:], *held_out[:LEAKED]]
    training_file, held_out_file = folder / "training.jsonl", folder / "held_out.jsonl"
    training_file.write_text("".join(training))
    held_out_file.write_text("".join(held_out))
    return training_file, held_out_file


def leak(seed: int, count: int, shared: bool) -> dict[str, float]:
    """A training on so many rows, of which with `shared` LEAKED are held-out ones."""
    with tempfile.TemporaryDirectory() as folder:
        training, held_out = leak_files(Path(folder), seed, count, shared)
        prompts = {
            "kind": "files",
            "path": str(training),
            "held_out_path": str(held_out),
            "held_out": HELD_OUT,
            "per_generation": count,
            "reuse": "same",
            "shrink": True,
            "repeats": "keep",
        }
        settings = {
            "prompts": prompts,
            "generations": LEAK_GENERATIONS,
            "evaluate.sets": {"greedy": None},
            "seed": seed,
        }
        return played(settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each arm")
    parser.add_argument("--prompts", type=int, default=400, help="training prompts of each")
    parser.add_argument(
        "--out", type=Path, default=Path(RESULTS) / "release_training.json", help="raw result"
    )
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seed in range(given.seeds):
        for name, changes in ARMS.items():
            settings = {
                "generations": 1,
                "prompts.count": given.prompts + 2 * HELD_OUT,
                "prompts.per_generation": given.prompts,
                "prompts.held_out": 2 * HELD_OUT,
                "evaluate.sets": {"greedy": None},
                "seed": seed,
                **changes,
            }
            rows.append({"arm": name, "seed": seed, **played(settings)})
        for name, shared in {"held-out rows in training": True, "none in training": False}.items():
            rows.append({"arm": name, "seed": seed, **leak(seed, given.prompts, shared)})
        Console().print(rows[-6:])
    names = list(dict.fromkeys(row["arm"] for row in rows))
    gains = {
        name: fmean(row["end"] - row["start"] for row in rows if row["arm"] == name)
        for name in names
    }
    write_results(
        given.out, {"rows": rows, "mean gain": gains}, seeds=given.seeds, prompts=given.prompts
    )
    Console().print(gains)


if __name__ == "__main__":
    main()
