"""Verifiable instructions with a pretrained chat model: MNPO, DPO and GRPO at equal samples.

Each arm trains the same start by the recipe `instructions` or `instructions_grpo`, on the same
number of prompts and samples. Start and last generation then answer greedily: questions that no
training prompt shares, and IFEval's prompts where its file is given. Settings were chosen on the
part `held_out`; reported is the part `test`.

    python -m benchmarks.instructions --model FOLDER-OR-ID --encoder FOLDER-OR-ID
        [--arms mnpo dpo grpo] [--seeds 0 1 2] [--ifeval FILE.jsonl]
        [--out benchmarks/results/instructions.json]

A second call goes on where the first was stopped; `--table` prints the results so far.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.answer_quality import QUALITIES, greedy_answers, judged
from benchmarks.running import equipoise, provenance, with_settings
from equipoise.environments.instructions.instruction_prompts import InstructionPrompts
from equipoise.payoffs.intervals import Interval, mean_interval
from equipoise.players.local import Local
from equipoise.prompts.prompt_files import Files
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt

ARMS = {
    "mnpo": ("instructions", {}),
    "dpo": ("instructions", {"loss": "dpo"}),
    "grpo": ("instructions_grpo", {}),
}
UTILITIES = ("strict", "loose", "all_strict", "all_loose")
START = "start, untrained"
WIDTH = 220  # of the table, where it is no terminal that it is printed to


def settings_of(arm: str, o: argparse.Namespace, seed: int) -> dict[str, Any]:
    """The arm's settings; each arm samples `o.prompts` × `o.generations` prompts."""
    updates = o.updates if arm == "grpo" else o.generations
    return {
        "seed": seed,
        "policy.model": o.model,
        "policy.dtype": {"bf16": "bfloat16", "fp32": "float32"}[o.precision],
        "policy.max_new_tokens": o.tokens,
        "learner.precision": o.precision,
        "generations": updates,
        "prompts.count": o.prompts * o.generations,
        "prompts.per_generation": o.prompts * o.generations // updates,
        "prompts.held_out": 8,  # what a run measures as it goes; the figures are made here
        "evaluate.every": updates,
        **ARMS[arm][1],
        **dict(setting.split("=", 1) for setting in o.set if "=" in setting),
    }


def train(arm: str, seed: int, o: argparse.Namespace) -> Path:
    """The folder of the finished run; one that was stopped goes on."""
    folder = o.work / f"{arm}-{seed}"
    if (folder / "config.yaml").exists():
        equipoise("resume", str(folder), threads=o.threads)
        return folder
    settings = [f"{key}={value}" for key, value in settings_of(arm, o, seed).items()]
    arguments = ["run", ARMS[arm][0], *with_settings(settings), "--out", str(folder)]
    equipoise(*arguments, threads=o.threads)
    return folder


def generations(folder: Path) -> Iterator[tuple[Local, Path]]:
    """The learner of a run and the weights of its last generation."""
    with RunDirectory.read(folder) as run:
        player = run.config.players["policy"]
        assert isinstance(player, Local)
        numbered = [p for p in (folder / "players/policy").iterdir() if p.name.isdigit()]
        yield player, max(numbered, key=lambda p: int(p.name))


def sets(o: argparse.Namespace) -> dict[str, tuple[list[Prompt], int]]:
    """Name -> (prompts, most tokens of an answer)."""
    own = InstructionPrompts.model_validate(
        {"count": 1, "held_out": o.held_out, "test": o.test}
    ).load()
    named = {"test": (own.test or [], o.tokens)}
    if o.dev:
        named = {"held_out": (own.held_out or [], o.tokens)}
    if o.ifeval:
        source = Files.model_validate({"path": str(o.ifeval.resolve()), "held_out": 0})
        prompts = list(source.load().training)[: o.ifeval_rows]
        named["ifeval"] = (prompts, o.ifeval_tokens)
    return named


def measured(
    player: Local, weights: Path | None, o: argparse.Namespace, done: dict[str, Any]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The rows of each set that `done` lacks."""
    for name, (prompts, tokens) in sets(o).items():
        if name not in done:
            room = player.model_copy(update={"max_length": 2048})
            moves = greedy_answers(room, weights, prompts, tokens)
            yield name, judged(room, prompts, moves, o.encoder)


def run_all(o: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Train and measure what the results file lacks; write it after every step."""
    results = {"cells": {}, "rows": {}, **stored(o.out)}
    results |= provenance() | {"arguments": vars_of(o)}
    for seed in o.seeds:
        for arm in o.arms:
            cell = results["cells"].setdefault(f"{arm}-{seed}", {})
            if "minutes" not in cell:
                cell |= timed_training(arm, seed, o)
                save(o.out, results)
            for player, weights in generations(o.work / f"{arm}-{seed}"):
                start_rows = results["rows"].setdefault(START, {})
                for name, rows in measured(player, None, o, start_rows):
                    start_rows[name] = rows
                    save(o.out, results)
                arm_rows = results["rows"].setdefault(f"{arm}-{seed}", {})
                for name, rows in measured(player, weights, o, arm_rows):
                    arm_rows[name] = rows
                    save(o.out, results)
            console.print(table(results))
    return results


def timed_training(arm: str, seed: int, o: argparse.Namespace) -> dict[str, float]:
    """Minutes of wall time and of the processors' time, samples, and sampled tokens."""
    wall, processors = time.perf_counter(), children_seconds()
    folder = train(arm, seed, o)
    minutes = (time.perf_counter() - wall) / 60
    cpu_minutes = (children_seconds() - processors) / 60
    with RunDirectory.read(folder) as run:
        matches = run.ledger.matches("train")
        moves = [turn.move for match in matches for turn in match.turns]
        tokens = sum(len(move.token_ids or ()) for move in moves)
    return {"minutes": minutes, "cpu_minutes": cpu_minutes, "samples": len(moves), "tokens": tokens}


def children_seconds() -> float:
    """Processor seconds of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def table(results: dict[str, Any]) -> Table:
    """A row for each arm and set: the score and its difference to the start's, with intervals over
    prompts, and what the answers are otherwise worth.
    """
    shown = Table(title="instructions followed, greedy; mean and 95 % interval over prompts")
    for column in ("", "set", "seeds", "instructions, strict", "− start", "loose"):
        shown.add_column(column)
    for column in ("prompts, strict", "− start", "prompts, loose", *QUALITIES):
        shown.add_column(column.replace("_", " "))
    start = results["rows"].get(START, {})
    arms = list(dict.fromkeys(key.rsplit("-", 1)[0] for key in results["rows"]))
    for arm in [START, *(name for name in arms if name != "start, untrained")]:
        cells = [results["rows"][key] for key in results["rows"] if of(key, arm)]
        for name in start:
            found = [cell[name] for cell in cells if name in cell]
            if found:
                shown.add_row(arm, name, str(len(found)), *columns(found, start[name]))
    return shown


def of(key: str, arm: str) -> bool:
    """Whether the rows under this key are the arm's."""
    return key == arm or key.rsplit("-", 1)[0] == arm


def columns(by_seed: Sequence[list[dict[str, Any]]], start: list[dict[str, Any]]) -> list[str]:
    """The figures of a row of the table."""
    rows = [row for seed in by_seed for row in seed]

    def share(name: str) -> str:
        return f"{mean(rows, name).mean:.1%}"

    return [
        mean(rows, "strict").percent(),
        difference(by_seed, start, "strict"),
        share("loose"),
        mean(rows, "all_strict").percent(),
        difference(by_seed, start, "all_strict"),
        share("all_loose"),
        *(f"{np.mean([row[name] for row in rows]):.3g}" for name in QUALITIES),
    ]


def weight(row: dict[str, Any], name: str) -> int:
    """How often a prompt counts: `strict` and `loose` are IFEval's accuracy of single instructions,
    so a prompt counts once for each of its own.
    """
    return row["instructions"] if name in ("strict", "loose") else 1


def mean(rows: Sequence[dict[str, Any]], name: str) -> Interval:
    """The mean over the rows that were judged; prompts are independent of each other."""
    counted = [row for row in rows if name in row for _ in range(weight(row, name))]
    values = [row[name] for row in counted]
    return mean_interval(values, [row["prompt"] for row in counted], share=True)


def difference(
    by_seed: Sequence[list[dict[str, Any]]], start: list[dict[str, Any]], name: str
) -> str:
    """Points gained over the start on the same prompts, with an interval over prompts."""
    before = {row["prompt"]: row[name] for row in start if name in row}
    counted = [
        row
        for rows in by_seed
        for row in rows
        if name in row and row["prompt"] in before
        for _ in range(weight(row, name))
    ]
    gains = [100 * (row[name] - before[row["prompt"]]) for row in counted]
    interval = mean_interval(gains, [row["prompt"] for row in counted])
    return f"{interval.mean:+.1f} ({interval.low:+.1f} to {interval.high:+.1f})"


def stored(path: Path) -> dict[str, Any]:
    """The results so far."""
    return json.loads(path.read_text()) if path.exists() else {}


def save(path: Path, results: dict[str, Any]) -> None:
    """Write the results, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(results, indent=1, ensure_ascii=False))
    draft.replace(path)


def vars_of(o: argparse.Namespace) -> dict[str, Any]:
    """The arguments that decide the figures; folders by their names."""
    values = {key: value for key, value in vars(o).items() if key not in ("work", "out")}
    return {
        key: Path(value).name if key in ("model", "encoder", "ifeval") and value else value
        for key, value in values.items()
    }


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("--model", required=True, help="a folder, a GGUF file or a hub id")
    add("--encoder", required=True, help="a sentence encoder: a folder or a hub id")
    add("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--generations", type=int, default=2, help="of MNPO and DPO")
    add("--updates", type=int, default=20, help="of GRPO, on as many prompts in all")
    add("--prompts", type=int, default=110, help="a generation")
    add("--tokens", type=int, default=64, help="most tokens of an answer")
    add("--held-out", type=int, default=100, help="prompts of the dev part")
    add("--test", type=int, default=100, help="prompts of the part that is reported")
    add("--dev", action="store_true", help="measure the dev part in place of the test")
    add("--ifeval", type=Path, help="IFEval's prompts: JSONL in their own columns")
    add("--ifeval-rows", type=int, default=None, help="the first so many; all by default")
    add("--ifeval-tokens", type=int, default=320, help="most tokens of an answer")
    add("--precision", choices=["fp32", "bf16"], default="fp32")
    add("--set", nargs="*", default=[], help="further settings key=value of every arm")
    add("--threads", type=int, default=2)
    add("--work", type=Path, default=Path("runs/instructions"), help="the runs' folder")
    add("--out", type=Path, default=Path("benchmarks/results/instructions.json"))
    add("--table", action="store_true", help="print the results that are there")
    return made


def main() -> None:
    """Print the table."""
    o = parser().parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    results = stored(o.out) if o.table else run_all(o, console)
    console.print(table(results))


if __name__ == "__main__":
    main()
