"""The memory of a pool: a model and an adapter for each member, beside a whole model for each
member.

A Llama of random weights and adapters on it are made on the spot. Every measurement is its own
process that opens its members through `Population`, as a run does, and has each of them answer a
batch, so that everything is really loaded.

    python -m benchmarks.population [--members 1 4 16] [--json FILE]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from equipoise import seeds
from equipoise.models.adapters import Lora
from equipoise.models.shared_base import SharedBase
from equipoise.players.base import Player
from equipoise.players.local import Local
from equipoise.players.population import Population
from equipoise.types import PlayerId, View, user
from tools.fresh_model import Size, new_model

SIZE = Size(hidden=768, layers=8, heads=12, feed_forward=2048)
LORA = Lora.model_validate({"r": 16, "alpha": 32})
ROWS, TOKENS = 8, 8  # answers in a batch, and their tokens
BATCHES, SWAPS = 3, 32  # that are timed
MEBI = 2**20


def make(folder: Path, members: int) -> tuple[int, int]:
    """The base, an adapter for each member, and a copy of the base for each; returns (parameters,
    adapter bytes).

    The copies share their bytes on disk, since only memory is measured.
    """
    from equipoise.models.loading import load_model

    rng = seeds.generator(0, "corpus")
    letters = list("abcdefghijklmnopqrstuvwxyz")
    corpus = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(4000)]
    made = new_model(corpus, folder / "base", vocabulary=2000, size=SIZE, context=256)
    for member in range(members):
        copy = folder / "whole" / str(member)
        copy.mkdir(parents=True)
        for file in (folder / "base").iterdir():
            os.link(file, copy / file.name)
    model = load_model(str(folder / "base"), None, LORA, device="cpu", trainable=True)
    for member in range(members):
        for name, weights in model.named_parameters():
            if "lora_" in name:
                weights.data.normal_(0, 0.01)  # a fresh adapter is 0, and all are alike
        model.save_pretrained(folder / "adapters" / str(member))
    weights = folder / "adapters" / "0" / "adapter_model.safetensors"
    return made.parameters, weights.stat().st_size


def players(folder: Path, kind: str, members: int) -> dict[str, Player]:
    """The players that are measured: the base alone, adapters on it, or whole models."""
    shared = {"temperature": 1.0, "max_new_tokens": TOKENS, "device": "cpu"}
    if kind == "base":
        return {"m0": Local.model_validate({"model": str(folder / "base"), **shared})}
    return {
        f"m{member}": Local.model_validate(
            {"model": str(folder / "whole" / str(member)), **shared}
            if kind == "whole"
            else {
                "model": str(folder / "base"),
                "adapter": str(folder / "adapters" / str(member)),
                **shared,
            }
        )
        for member in range(members)
    }


def measured(folder: Path, kind: str, members: int) -> dict[str, float]:
    """In this process: bytes before a model is open and after all have answered; seconds of a batch
    and a swap.
    """
    # All that the models need is imported before the first reading.
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    import peft  # noqa: F401

    empty = resident()
    pool = players(folder, kind, members)
    population = Population(pool, folder / "unused")
    views = [View((user(f"tell me of number {row}"),)) for row in range(ROWS)]
    answers = [population.actor(PlayerId(name)).act(views, list(range(ROWS))) for name in pool]
    figures = {"empty": float(empty), "resident": float(resident())}
    if kind == "adapters":
        if len({tuple(move.text for move in moves) for moves in answers}) < members:
            raise SystemExit("two members answer alike, so an adapter is not active")
        actor = population.actor(PlayerId("m0"))
        figures["batch"] = statistics.median(
            took(lambda: actor.act(views, list(range(ROWS)))) for _ in range(BATCHES)
        )
        figures["swap"] = swapping(folder, members)
    return figures


def swapping(folder: Path, members: int) -> float:
    """Median seconds to activate another adapter on a model that has them all."""
    from equipoise.models.loading import load_model

    base = SharedBase(str(folder / "base"), load_model(str(folder / "base"), device="cpu"))
    names = [base.adapter(folder / "adapters" / str(member)) for member in range(members)]

    def swap(name: str) -> None:
        with base.lend(name):
            pass

    return statistics.median(
        took(lambda turn=turn: swap(names[turn % members])) for turn in range(SWAPS)
    )


def took(act: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def resident() -> int:
    """Bytes of this process that are in memory."""
    gc.collect()
    return psutil.Process().memory_info().rss


def elsewhere(folder: Path, kind: str, members: int) -> dict[str, float]:
    """`measured` in a fresh process on one thread."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.population",
        "--measure",
        str(folder),
        kind,
        str(members),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print the table, and write the figures behind it as JSON with --json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        folder, kind, members = options.measure
        print(json.dumps(measured(Path(folder), kind, int(members))))
        return
    with tempfile.TemporaryDirectory(prefix="population-") as name:
        folder = Path(name)
        parameters, adapter = make(folder, max(options.members))
        rows = {("base", 1): elsewhere(folder, "base", 1)}
        for members in options.members:
            for kind in ("adapters", "whole"):
                rows[kind, members] = elsewhere(folder, kind, members)
    if options.json:
        options.json.write_text(
            json.dumps([{"kind": k, "members": n, **row} for (k, n), row in rows.items()], indent=1)
        )
    Console().print(table(rows, parameters, adapter))


def table(rows: dict[tuple[str, int], dict[str, float]], parameters: int, adapter: int) -> Table:
    """A row for each measurement; ratios are of the models' own memory, without that of the process
    before it opens any.
    """
    used = {key: row["resident"] - row["empty"] for key, row in rows.items()}
    base = used["base", 1]
    shown = Table(
        title=f"memory of a pool: {parameters / 1e6:.1f} M parameters, "
        f"{adapter / MEBI:.1f} MiB an adapter on disk; "
        f"{rows['base', 1]['empty'] / MEBI:.0f} MiB before any model; batches of "
        f"{ROWS} answers of {TOKENS} tokens"
    )
    columns = (
        "",
        "resident\nMiB",
        "models\nMiB",
        "of the\nbase",
        "of base\n+ files",
        "swap\nms",
        "swap of\na batch",
    )
    for column in columns:
        shown.add_column(column, justify="right" if column else "left")
    labels = {"base": "base alone", "adapters": "base + {} adapters", "whole": "{} whole models"}
    for (kind, members), row in rows.items():
        ideal = base + members * adapter
        shown.add_row(
            labels[kind].format(members),
            f"{row['resident'] / MEBI:.0f}",
            f"{used[kind, members] / MEBI:.0f}",
            f"{used[kind, members] / base:.2f}",
            f"{used[kind, members] / ideal:.2f}" if kind == "adapters" else "",
            f"{1000 * row['swap']:.1f}" if "swap" in row else "",
            f"{row['swap'] / row['batch']:.2%}" if "swap" in row else "",
        )
    return shown


if __name__ == "__main__":
    main()
