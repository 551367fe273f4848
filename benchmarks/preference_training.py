"""Preference training beside trl's DPOTrainer: tokens a second and peak memory, the reference pass
included in both.

    python -m benchmarks.preference_training
    python -m benchmarks.preference_training --shape qwen3-0.6b --device cuda
        --dtype bfloat16 --pairs 256

Both train DPO (β = 0.1, AdamW, cosine) on the same model, the same pairs in the same order, the
same batches and steps, from the model's folder to the saved result. Each run has its own process
and the two alternate; the ratio is the median over the repeats. trl gets
`precompute_ref_log_probs=True`, no gradient checkpointing and the same precision, and its padding
is as small as ours because the order groups lengths. Tokens are those of both sequences of every
pair, prompt included, counted once: work saved by not computing a token twice counts as speed. Peak
memory is the process's (VmHWM), nothing subtracted; on a GPU it is the allocator's. The last loss
of both is printed: they train the same thing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.preference_runs import SHAPES
from benchmarks.running import write_results


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    o = options(argv)
    if o.device == "cuda" and not call("has_gpu", o)["gpu"]:
        print("preference_training: no GPU here; --device cuda is ready to run where there is one")
        return
    with tempfile.TemporaryDirectory() as folder:
        o.folder = folder
        call("make", o)
        baseline = {name: call(f"{name}_imports", o) for name in ("ours", "trl")}
        runs: dict[str, list[dict[str, Any]]] = {"trl": [], "ours": []}
        for _ in range(o.repeats):
            for name, results in runs.items():
                results.append(call(name, o))
        report(
            o, runs, baseline, call("opponents", o), call("peak", o) if o.device == "cuda" else None
        )


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options; lengths are in tokens, uniform between the two."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.preference_training", description="DPO beside trl's trainer."
    )
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--batch", type=int, default=8, help="pairs in a batch")
    parser.add_argument("--prompt", type=int, nargs=2, default=[64, 192], metavar=("FROM", "TO"))
    parser.add_argument("--answer", type=int, nargs=2, default=[32, 128], metavar=("FROM", "TO"))
    parser.add_argument(
        "--chunk", type=int, default=0, help="answer tokens projected at a time (ours); 0: default"
    )
    parser.add_argument(
        "--lora", type=int, default=0, metavar="RANK", help="train an adapter; 0: all weights"
    )
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", default="", help="write every run's figures here")
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def call(part: str, o: argparse.Namespace) -> dict[str, Any]:
    """Run a part of `preference_runs` in its own process; returns its result."""
    env = {
        **os.environ,
        "OMP_NUM_THREADS": str(o.threads),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
    }
    env |= {
        "HF_DATASETS_CACHE": f"{o.folder}/cache",
        "TQDM_DISABLE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [sys.executable, "-m", "benchmarks.preference_runs", part, json.dumps(vars(o))]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{part} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def report(
    o: argparse.Namespace,
    runs: dict[str, list[dict[str, Any]]],
    baseline: dict[str, dict[str, Any]],
    opponents: dict[str, float],
    peak: dict[str, float] | None,
) -> None:
    """Print the measurements; with --json as an object."""
    pairs = list(zip(runs["ours"], runs["trl"], strict=True))
    speed = statistics.median(
        ours["tokens_per_second"] / trl["tokens_per_second"] for ours, trl in pairs
    )
    memory = statistics.median(ours["peak_mib"] / trl["peak_mib"] for ours, trl in pairs)
    facts = {
        "speed_ratio": speed,
        "memory_ratio": memory,
        "opponents": opponents,
        "imports": baseline,
        "runs": runs,
    }
    if o.out:
        left_out = ("json", "out", "folder")
        settings = {key: value for key, value in vars(o).items() if key not in left_out}
        write_results(Path(o.out), facts, **settings)
    if o.json:
        print(json.dumps({"options": vars(o), "matmul_peak": peak, **facts}))
        return
    first = runs["ours"][0]
    assert first["ids"] == runs["trl"][0]["ids"], "the two did not train on the same tokens"
    lora = f", LoRA of rank {o.lora}" if o.lora else ""
    print(
        f"{o.shape}, {first['parameters'] / 1e6:.1f} M parameters{lora}, {o.dtype}, "
        f"{o.device}, {o.threads} threads"
    )
    print(
        f"{o.pairs} pairs in batches of {o.batch}; prompts "
        f"{o.prompt[0]}-{o.prompt[1]} tokens, answers "
        f"{o.answer[0]}-{o.answer[1]}; {first['tokens']} tokens, "
        f"{first['answer_tokens'] / first['tokens']:.0%} of "
        f"them answers'; {o.repeats} runs each, alternating"
    )
    columns = (
        "tokens/s",
        "seconds",
        "before training",
        "CPU s",
        "peak MiB",
        "imports",
        "last loss",
    )
    print(" " * 6 + "".join(f"{column:>17}" for column in columns))
    for name, results in runs.items():
        print_row(name, results, baseline[name]["peak_mib"], peak)
    each = ", ".join(f"{ours['seconds']:.1f}/{trl['seconds']:.1f} s" for ours, trl in pairs)
    print(f"speed {speed:.2f} x (runs: {each})")
    cpu = statistics.median(trl["cpu_seconds"] / ours["cpu_seconds"] for ours, trl in pairs)
    print(f"processor time {cpu:.2f} x less; memory {memory:.2f} x")
    print(
        f"a further opponent: {opponents['seconds']:.2f} s once for all pairs, "
        f"{opponents['share']:.2f} of a plain "
        f"inference pass over them ({opponents['plain_seconds']:.2f} s); training "
        "with 4 opponents takes "
        f"{opponents['training_ratio']:.2f} x the time with 1"
    )


def print_row(
    name: str, results: list[dict[str, Any]], imports: float, peak: dict[str, float] | None
) -> None:
    """Print the medians of a trainer's runs."""

    def median(key: str) -> float:
        return statistics.median(run[key] for run in results)

    cells = (
        f"{median('tokens_per_second'):17.0f}",
        f"{median('seconds'):17.1f}",
        f"{median('before_training'):17.1f}",
        f"{median('cpu_seconds'):17.1f}",
        f"{median('peak_mib'):17.0f}",
        f"{imports:17.0f}",
        f"{median('loss'):17.4f}",
    )
    print(f"{name:6}" + "".join(cells))
    if peak is not None:
        share = results[0]["flops"] / median("seconds") / peak["flops_per_second"]
        print(
            f"{'':6}{share:.1%} of the {peak['flops_per_second'] / 1e12:.0f} "
            "TFLOP/s of a matrix product"
        )


if __name__ == "__main__":
    main()
