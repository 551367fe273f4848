"""A league in one batch: eight adapters with two rows each, sampled together.

    python -m benchmarks.league
    python -m benchmarks.league --shapes tiny --rounds 2 --new 8

Beside it: one adapter after the other (swapping), PEFT's own mixed batch (`generate` with
`adapter_names`), and sixteen rows of a single adapter, which no league can beat. All sample the
same number of tokens on a base of random weights in the given shape. The ways alternate within a
round, so that a busy machine slows all of them alike; medians over the rounds, with the least and
the most, of wall time and of processor time.

Then the steps that the sampler takes on rows of mixed lengths, as a multiple of those of full
batches, with and without other rows in the places of finished ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig

from benchmarks.running import load, provenance
from benchmarks.sampling import random_model
from equipoise.models.adapters import Lora
from equipoise.models.shared_base import SharedBase
from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.sampling import sample
from equipoise.sampling.sampling_batch import RowAdapters

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "vocab_size": 2000,
        "hidden_size": 96,
        "intermediate_size": 256,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
    "smollm2": {
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "tie_word_embeddings": True,
    },
}
MIXED, SWAPPED = "together", "swapping"
PEFT, SINGLE = "PEFT's mixed batch", "all rows, one adapter"
SETTINGS = SamplingSettings(0.8)
RESULT = Path(__file__).parent / "results" / "league.json"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark, print its tables, and write the raw result with --json."""
    o = options(argv)
    torch.set_num_threads(o.threads)
    console = Console(width=110)
    console.print(f"load before: {load()}, threads: {o.threads}")
    result: dict[str, Any] = {"provenance": provenance(), "settings": vars(o).copy()}
    result["settings"].pop("json")
    for shape in o.shapes:
        league = League(shape, o)
        result[shape] = {"ways": compare(league, o.rounds), "equal": league.equal()}
        console.print(table(shape, result[shape], o))
    result["steps"] = steps(League("tiny", o), o)
    console.print(
        f"steps on mixed lengths, of those of full batches: "
        f"{result['steps']['batch after batch']:.2f} batch after batch, "
        f"{result['steps']['refilled']:.2f} refilled; "
        f"{result['steps']['equal']:.1%} of rows with the same tokens"
    )
    if o.json:
        o.json.write_text(json.dumps(result, indent=1) + "\n")


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options; lengths are in tokens."""
    parser = argparse.ArgumentParser(prog="benchmarks.league")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=[*SHAPES])
    parser.add_argument("--adapters", type=int, default=8)
    parser.add_argument("--rows", type=int, default=2, help="rows of each adapter")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--new", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--json", type=Path, nargs="?", const=RESULT, help="write the raw result here"
    )
    return parser.parse_args(argv)


class League:
    """A base with adapters of random weights, and the prompts of all rows."""

    def __init__(self, shape: str, o: argparse.Namespace) -> None:
        self.o = o
        config = AutoConfig.for_model("llama", **SHAPES[shape], eos_token_id=None)
        self.base = SharedBase(shape, random_model(config, "float32", o.device))
        self.names = [f"member_{n}" for n in range(o.adapters)]
        lora = Lora.model_validate({"r": o.rank, "alpha": 2 * o.rank})
        for name in self.names:
            self.base.add(name, lora, None)
        with torch.no_grad():
            for name, weight in self.base.peft.named_parameters():
                if "lora_B" in name:
                    weight.normal_(0, 0.05)
        self.vocabulary = config.vocab_size
        dice = np.random.default_rng(1)
        shape_RT = (o.adapters * o.rows, o.prompt)
        self.prompts = dice.integers(3, self.vocabulary, shape_RT).tolist()
        self.of_row = [row // o.rows for row in range(len(self.prompts))]

    def ways(self) -> dict[str, Callable[[], list[list[int]]]]:
        """What is compared; each gives the tokens of all rows."""
        return {
            MIXED: self.together,
            SWAPPED: self.swapping,
            PEFT: self.by_peft,
            SINGLE: self.single,
        }

    def together(self) -> list[list[int]]:
        """All rows in one batch."""
        with self.base.lend_mixed(self.names) as (model, mixed):
            adapters = RowAdapters(mixed, self.of_row)
            return self._sample(model, range(len(self.prompts)), adapters)

    def swapping(self) -> list[list[int]]:
        """A batch for each adapter, one after the other."""
        tokens: list[list[int]] = []
        for place, name in enumerate(self.names):
            rows = [row for row, own in enumerate(self.of_row) if own == place]
            with self.base.lend(name) as model:
                tokens += self._sample(model, rows)
        return tokens

    def single(self) -> list[list[int]]:
        """All rows with the first adapter."""
        with self.base.lend(self.names[0]) as model:
            return self._sample(model, range(len(self.prompts)))

    @torch.inference_mode()
    def by_peft(self) -> list[list[int]]:
        """`generate` of transformers with the adapters' names, row by row."""
        tokens = self.base.peft.generate(
            input_ids=torch.tensor(self.prompts, device=self.o.device),
            adapter_names=[self.names[own] for own in self.of_row],
            do_sample=True,
            temperature=SETTINGS.temperature,
            top_k=0,
            max_new_tokens=self.o.new,
            pad_token_id=0,
        )
        return tokens[:, self.o.prompt :].tolist()

    def equal(self) -> float:
        """The share of rows whose tokens are those that the adapter gives by itself."""
        pairs = list(zip(self.together(), self.swapping(), strict=True))
        return statistics.fmean(one == other for one, other in pairs)

    def _sample(
        self, model: Any, rows: Sequence[int], adapters: RowAdapters | None = None
    ) -> list[list[int]]:
        answers = sample(
            model,
            [self.prompts[row] for row in rows],
            list(rows),
            [self.o.new] * len(rows),
            SETTINGS,
            stop_ids=[],
            pad_id=0,
            batch_size=len(rows),
            adapters=adapters,
        )
        return [answer.token_ids for answer in answers]


def compare(league: League, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Way -> seconds of wall time and of processor time, round by round; a first round does not
    count.
    """
    seconds = {way: {"wall": [], "processor": []} for way in league.ways()}
    for n in range(rounds + 1):
        for way, run in league.ways().items():
            wall, processor = time.perf_counter(), time.process_time()
            tokens = run()
            assert all(len(row) == league.o.new for row in tokens)
            if n:
                seconds[way]["wall"].append(time.perf_counter() - wall)
                seconds[way]["processor"].append(time.process_time() - processor)
    return seconds


def steps(league: League, o: argparse.Namespace, rows: int = 256) -> dict[str, float]:
    """Steps on rows of mixed lengths, over those of full batches of 16, without and with other rows
    in the places of finished ones.
    """
    dice = np.random.default_rng(2)
    limits = np.clip(dice.geometric(3 / 64, rows), 1, 64).tolist()
    lengths = dice.integers(8, 40, rows).tolist()
    prompts = [dice.integers(3, league.vocabulary, length).tolist() for length in lengths]
    ideal = max(sum(limits) / 16, max(limits))
    counts: dict[str, float] = {}
    tokens = []
    for name, refill in (("batch after batch", False), ("refilled", True)):
        widths: list[int] = []
        hook = league.base.model.register_forward_pre_hook(
            lambda model, args, kwargs, seen=widths: seen.append(kwargs["input_ids"].shape[1]),
            with_kwargs=True,
        )
        answers = sample(
            league.base.model,
            prompts,
            range(rows),
            limits,
            SETTINGS,
            stop_ids=[],
            pad_id=0,
            batch_size=16,
            refill=refill,
        )
        hook.remove()
        tokens.append([answer.token_ids for answer in answers])
        counts[name] = sum(width == 1 for width in widths) / ideal
    pairs = zip(*tokens, strict=True)
    return counts | {"equal": statistics.fmean(one == other for one, other in pairs)}


def table(shape: str, result: dict[str, Any], o: argparse.Namespace) -> Table:
    """A row for each way: tokens a second, and how often it is as fast as swapping."""
    shown = Table(
        title=f"{shape}: {o.adapters} adapters x {o.rows} rows, {o.new} tokens each; "
        f"{result['equal']:.0%} of rows with the tokens of their adapter alone"
    )
    for heading in ("", "tokens/s", "of swapping, wall", "least to most", "processor"):
        shown.add_column(heading, justify="right" if heading else "left")
    ways = result["ways"]
    tokens = o.adapters * o.rows * o.new
    for way, seconds in ways.items():
        ratios = {
            clock: [
                own / other for own, other in zip(ways[SWAPPED][clock], seconds[clock], strict=True)
            ]
            for clock in ("wall", "processor")
        }
        shown.add_row(
            way,
            f"{tokens / statistics.median(seconds['wall']):,.0f}",
            f"{statistics.median(ratios['wall']):.2f}",
            f"{min(ratios['wall']):.2f} to {max(ratios['wall']):.2f}",
            f"{statistics.median(ratios['processor']):.2f}",
        )
    return shown


if __name__ == "__main__":
    main()
