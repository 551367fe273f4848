"""Verifiable instructions with a pretrained chat model: MNPO, DPO and GRPO at equal samples.

Each arm trains the same start by the recipe `instructions` or `instructions_grpo`, on the same
number of prompts and samples. Start and last generation then answer greedily: questions that no
training prompt shares, and IFEval's prompts where its file is given. Settings were chosen on the
part `held_out`; reported is the part `test`.

    python -m benchmarks.instructions --model FOLDER-OR-ID --encoder FOLDER-OR-ID
        [--arms mnpo dpo grpo] [--seeds 0 1 2] [--ifeval FILE.jsonl] [--out DIR]
        [--json benchmarks/results/instructions.json]

Answers with their texts are kept in --out, beside the runs. `--seeds --join FILE` prints a result.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.answer_quality import greedy_answers, judged
from benchmarks.controls import newest_weights
from benchmarks.experiment import Experiment, Options, name_of, of_rows, of_run
from benchmarks.running import write_results
from benchmarks.verdicts import GREEDY, Item, of_answers
from equipoise.environments.instructions.instruction_prompts import InstructionPrompts
from equipoise.players.local import Local
from equipoise.prompts.prompt_files import Files
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt

# The rule alone, where the recipe pays for relevance and freshness, too; and the rate of that.
RULE = ["judge=instructions"]
PAIRS = [*RULE, "learner.learning_rate=5e-4"]
ARMS = {"mnpo": PAIRS, "dpo": [*PAIRS, "loss=dpo"], "grpo": RULE}
RECIPE, RECIPES = "instructions", {"grpo": "instructions_grpo"}
START, PLAYER, SAMPLED = "start", "policy", "strict"
HELD_OUT = 8  # prompts that a run measures as it goes; the figures are made here


def common(arm: str, place: Path, o: Options) -> list[str]:
    """Settings of an arm, each of which samples `o.prompts` × `o.generations` prompts."""
    updates = o.updates if arm.startswith("grpo") else o.generations
    values = {
        "policy.model": o.model,
        "policy.dtype": {"bf16": "bfloat16", "fp32": "float32"}[o.precision],
        "policy.max_new_tokens": o.tokens,
        "learner.precision": o.precision,
        "generations": updates,
        "prompts.count": o.prompts * o.generations,
        "prompts.per_generation": o.prompts * o.generations // updates,
        "prompts.held_out": HELD_OUT,
        "evaluate.every": updates,
    }
    return [f"{key}={value}" for key, value in values.items()]


def sets(o: Options) -> dict[str, tuple[list[Prompt], int]]:
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


def named(part: str) -> str:
    """A part as its figures are named: with --dev the dev part stands for the test."""
    return "test" if part == "held_out" else part


def answered(player: Local, weights: Path | None, home: Path, o: Options) -> dict[str, list[Any]]:
    """Set -> judged rows, one an answer, in `home`; those that are there are read."""
    home.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, (prompts, tokens) in sets(o).items():
        file = home / f"{name}-{len(prompts)}.json"
        if not file.exists():
            room = player.model_copy(update={"max_length": 2048}) if o.ifeval else player
            moves = greedy_answers(room, weights, prompts, tokens)
            file.write_text(json.dumps(judged(room, prompts, moves, o.encoder), indent=1))
        found[name] = json.loads(file.read_text())
    return found


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Start and end of every arm of a seed: greedy answers, what was sampled, and how much."""
    first: dict[str, Any] = {}
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        with RunDirectory.read(folder) as run:
            player, length = run.config.players[PLAYER], run.config.generations
            moves = [turn.move for match in run.ledger.matches("train") for turn in match.turns]
        assert isinstance(player, Local)
        yield from of_run(folder, arm, seed, {-1: SAMPLED}, [PLAYER])
        tokens = sum(len(move.token_ids or ()) for move in moves)
        drawn = {"samples": len(moves), "sampled tokens": tokens}
        yield from of_rows({arm: drawn}, seed, length)
        weights = newest_weights(folder, PLAYER)
        own = answered(player, weights, place / f"answers-{folder.name}", o)
        first[arm] = next(iter(own.values()))[0]
        for name, rows in own.items():
            yield from of_answers(arm, seed, named(name), rows, length)
        if arm == o.arms[0]:
            yield from of_run(folder, START, seed, {0: SAMPLED}, [PLAYER])
            own = answered(player, None, place / "answers-start", o)
            first[START] = next(iter(own.values()))[0]
            for name, rows in own.items():
                yield from of_answers(START, seed, named(name), rows)
    if o.answers and seed == o.seeds[0]:
        write_results(o.answers, first, seed=seed)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the models, and the sizes."""
    add = parser.add_argument
    add("--model", required=True, help="a folder, a GGUF file or a hub id")
    add("--encoder", required=True, help="a sentence encoder: a folder or a hub id")
    add("--updates", type=int, default=20, help="of GRPO, on as many prompts in all")
    add("--prompts", type=int, default=110, help="a generation")
    add("--tokens", type=int, default=64, help="most tokens of an answer")
    add("--held-out", type=int, default=100, help="prompts of the dev part")
    add("--test", type=int, default=100, help="prompts of the part that is reported")
    add("--dev", action="store_true", help="measure the dev part in place of the test")
    add("--ifeval", type=Path, help="IFEval's prompts: JSONL in their own columns")
    add("--ifeval-rows", type=int, default=None, help="the first so many; all by default")
    add("--ifeval-tokens", type=int, default=320, help="most tokens of an answer")
    add("--answers", type=Path, help="write each arm's answer to the first question here")
    add("--precision", choices=["fp32", "bf16"], default="fp32")


SIZES = ("updates", "prompts", "tokens", "held_out", "test", "ifeval_rows", "ifeval_tokens")
EXPERIMENT = Experiment(
    name="instructions",
    doc=__doc__,
    arms=ARMS,
    seeds=(0, 1, 2),
    generations=2,
    recipe=RECIPE,
    recipes=RECIPES,
    common=common,
    measure=measure,
    columns=tuple(
        name + GREEDY
        for name in ("strict", "all_strict", "loose", "relevance", "repetition", "tokens")
    ),
    points=("tokens", "relevance"),
    add=add_options,
    decides=("model", "encoder", "dev", "ifeval", "precision", *SIZES),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
