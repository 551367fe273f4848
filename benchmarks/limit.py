"""How near training, scoring and sampling come to what the machine can multiply.

    python -m benchmarks.limit [--shapes smollm2 qwen2.5-0.5b] [--dtypes float32 bfloat16]
        [--pairs 8] [--model SmolLM2-135M-Instruct] [--json FILE]

    products   matrix products at the model's own shapes, nothing between them: GFLOP/s of the
               better precision for 1,024 tokens at once (training) and for a batch's (decoding)
    plain      transformers' model, forward and backward over the same rows, all weights
    steps      DPO's later steps, beside the plain pass, which is warm, too
    training   all of it but the reference pass: loading, first steps, the check of what will play,
               saving
    trl        trl's DPOTrainer in this precision
    scoring    an opponent's pass beside plain inference
    decoding   the sampler at batches of 1, 16 and 64 rows beside `generate`, and what its products
               would take alone
    grpo       samples a second beside trl's GRPOTrainer, of --model, which is float32 in both

Everything runs by turns in processes of its own, and each precision's training and decoding beside
products of their own: a machine that others share is not the same an hour later.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import preference_training
from benchmarks.preference_runs import SHAPES, sizes
from benchmarks.running import write_results

TRAINING = "1024"  # tokens whose products a training step's are compared with


def main(argv: Sequence[str] | None = None) -> None:
    """Measure every shape, print a table of each, and write what was measured."""
    o = options(argv)
    figures: dict[str, Any] = {}
    for shape in o.shapes:
        figures[shape] = measured(o, shape)
        Console(width=110).print(table(shape, figures[shape]))
    if o.model:
        figures["grpo"] = section("policy_gradient", "speed", "--model", o.model, *o.grpo.split())
        runs = figures["grpo"]["runs"]
        rates = {name: median(r["samples_per_second"] for r in runs[name]) for name in runs}
        print(f"grpo, samples a second: ours {rates['ours']:.2f}, trl {rates['trl']:.2f}")
    if o.json:
        told = {name: value for name, value in vars(o).items() if name != "json"}
        write_results(o.json, figures, **told)


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["smollm2", "qwen2.5-0.5b"])
    both = ["float32", "bfloat16"]
    parser.add_argument("--dtypes", nargs="+", choices=both, default=both)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--new", type=int, default=32, help="tokens of an answer")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[1, 16, 64], help="batches of decoding"
    )
    parser.add_argument("--model", default="", help="that learns by GRPO; none: that part is left")
    parser.add_argument(
        "--grpo", default="--prompts 4 --group 4 --tokens 48 --steps 2 --repeats 2", help="its size"
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, help="write all that was measured here")
    return parser.parse_args(argv)


def section(module: str, *arguments: str) -> dict[str, Any]:
    """The figures of another benchmark, in a process of its own."""
    out = "--json"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "result.json")
        command = [sys.executable, "-m", f"benchmarks.{module}", *arguments, out, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{module} failed:\n{done.stderr[-4000:]}")
        return json.loads(file.read_text())["figures"]


def measured(o: argparse.Namespace, shape: str) -> dict[str, Any]:
    """What was measured of a shape, in seconds, tokens a second and GFLOP/s."""
    size = ["--shape", shape, "--pairs", str(o.pairs), "--batch", str(min(4, o.pairs))]
    given = [*size, "--repeats", str(o.repeats), "--threads", str(o.threads)]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            dtype: preference_training.options([*given, "--dtype", dtype, "--folder", folder])
            for dtype in o.dtypes
        }
        first = settings[o.dtypes[0]]
        preference_training.call("make", first)
        for dtype, own in settings.items():
            parts: dict[str, Any] = {"ours": [], "trl": [], "plain": []}
            for _ in range(o.repeats):
                for name, results in parts.items():
                    results.append(preference_training.call(name, own))
            products = {"training": preference_training.call("products", own)}
            parts["new"] = o.new
            parts["scoring"] = preference_training.call("scoring", own)
            parts["profile"] = preference_training.call("profile", own)
            for part, new in (("decoding", o.new), ("reading", 1)):
                parts[part] = {
                    str(rows): section(
                        "sampling",
                        *("--shape", shape, "--dtype", dtype, "--rows", str(rows)),
                        *("--new", str(new), "--rounds", str(o.repeats)),
                        *("--threads", str(o.threads), "--only", "top-p 0.95"),
                    )
                    for rows in o.rows
                }
            products["decoding"] = preference_training.call("products", own)
            found[dtype] = parts | {"products": products}
        found["weights"] = dict(zip(("layers", "head", "embeddings"), sizes(first), strict=True))
    return found


def table(shape: str, found: dict[str, Any]) -> Table:
    """A row of each part, a column of each precision and its share of what it is compared with."""
    dtypes = [name for name in ("float32", "bfloat16") if name in found]
    made = Table(title=f"{shape}, {sum(found['weights'].values()) / 1e6:.0f} M weights")
    made.add_column("")
    for dtype in dtypes:
        made.add_column(dtype, justify="right")
        made.add_column("share", justify="right")

    def row(name: str, of: Any) -> None:
        made.add_row(name, *(cell for dtype in dtypes for cell in of(dtype)))

    def products(dtype: str) -> tuple[str, str]:
        rate = training_products(found[dtype], dtype)
        return f"{rate:,.0f} GFLOP/s", f"{rate / peak(found[dtype], 'training', TRAINING):.0%}"

    def plain(dtype: str) -> tuple[str, str]:
        rate = speed(found[dtype]["plain"])
        flops = found[dtype]["ours"][0]["flops"] / found[dtype]["ours"][0]["tokens"] * 3 / 4
        most = peak(found[dtype], "training", TRAINING)
        return f"{rate:,.0f} tokens/s", f"{rate * flops / 1e9 / most:.0%}"

    def steps(dtype: str) -> tuple[str, str]:
        rate = step_speed(found[dtype]["ours"])
        return f"{rate:,.0f} tokens/s", f"{rate / speed(found[dtype]['plain']):.0%} of plain"

    def training(dtype: str) -> tuple[str, str]:
        rate = training_speed(found[dtype]["ours"])
        return f"{rate:,.0f} tokens/s", f"{rate / speed(found[dtype]['plain']):.0%} of plain"

    def trl(dtype: str) -> tuple[str, str]:
        ours, theirs = (speed(found[dtype][name]) for name in ("ours", "trl"))
        memory = [median(r["peak_mib"] for r in found[dtype][name]) for name in ("ours", "trl")]
        beside = f"ours {ours / theirs:.1f} ×, memory {memory[0] / memory[1]:.2f}"
        return f"{theirs:,.0f} tokens/s", beside

    def scoring(dtype: str) -> tuple[str, str]:
        scored = found[dtype]["scoring"]
        return f"{scored['seconds']:.1f} s", f"{1 / scored['share']:.0%} of plain"

    row("products, GFLOP/s", products)
    row("plain pass, of products", plain)
    row("training, later steps", steps)
    row("training, all of it", training)
    row("trl, reference pass in both", trl)
    row("scoring an opponent", scoring)
    for rows in found[dtypes[0]]["decoding"]:

        def decoding(dtype: str, rows: str = rows) -> tuple[str, str]:
            ours, theirs = (decoding_speed(found[dtype], rows, of) for of in ("ours", "generate"))
            share = decoding_share(found, dtype, rows)
            return f"{ours:,.0f} tokens/s", f"{share:.0%}, generate {theirs:,.0f}"

        row(f"decoding, {rows} rows", decoding)
    return made


def decoding_share(found: dict[str, Any], dtype: str, rows: str) -> float:
    """Of the better precision's products of so many rows, what decoding so many reaches."""
    weights = found["weights"]["layers"] + found["weights"]["head"]
    rate = decoding_speed(found[dtype], rows, "ours")
    return rate * 2 * weights / 1e9 / peak(found[dtype], "decoding", rows)


def decoding_speed(parts: dict[str, Any], rows: str, of: str) -> float:
    """Tokens a second behind the first, which comes with the reading of the prompts."""
    seconds = []
    for part, new in (("decoding", parts["new"]), ("reading", 1)):
        [runs] = parts[part][rows].values()
        seconds.append(int(rows) * new / median(runs[of]))
    return int(rows) * (parts["new"] - 1) / (seconds[0] - seconds[1])


def peak(parts: dict[str, Any], beside: str, tokens: str) -> float:
    """The better precision's rate of products of so many tokens, GFLOP/s, as measured beside a
    part.
    """
    return max(each.get(tokens, each[TRAINING]) for each in parts["products"][beside].values())


def training_products(parts: dict[str, Any], dtype: str) -> float:
    """This precision's rate of products of a training step's tokens, GFLOP/s."""
    return parts["products"]["training"][dtype][TRAINING]


def speed(runs: Sequence[dict[str, float]]) -> float:
    """The median of tokens a second."""
    return median(run["tokens_per_second"] for run in runs)


def step_speed(runs: Sequence[dict[str, float]]) -> float:
    """The same of optimizer steps alone, the first half of them aside."""
    return median(run["steps_per_second"] for run in runs)


def training_speed(runs: Sequence[dict[str, float]]) -> float:
    """The same of training alone, without what comes before."""
    return median(run["tokens"] / (run["seconds"] - run["before_training"]) for run in runs)


if __name__ == "__main__":
    main()
