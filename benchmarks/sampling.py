"""The local player's sampler beside transformers' own `generate`: tokens a second.

    python -m benchmarks.sampling
    python -m benchmarks.sampling --shape qwen3-0.6b --device cuda --dtype bfloat16
        --rows 64 --new 256

Both sample from the same model of random weights, with the same prompts (padded on the left),
batch, temperature and cuts, and no end token, so that every row grows to the given length. They
alternate; the ratio is the median over the rounds. Ours returns the tokens' log-probabilities and
draws each row from its own random numbers; `generate` returns tokens alone. In the last three
workloads, which `generate` runs as its users would, the ratio is not of the loops:

* mixed lengths: rows end at their own lengths, between 1 and `--new`; `generate` keeps
  the finished rows in the batch.
* mixed lengths, several batches: of so many rows at once; `generate` ends a batch before
  the next, ours gives the places of finished rows to others, as in a run.
* four samples a prompt: `generate` reads a prompt four times (`num_return_sequences`).

Tokens are those of the answers, up to each row's end.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    StoppingCriteria,
    StoppingCriteriaList,
)

from benchmarks import preference_runs
from benchmarks.running import write_results
from equipoise.models.device import choose_device
from equipoise.models.loading import Dtype, load_model
from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.sampling import sample

BATCHES = 4  # of the workload that has several
SHAPES: dict[str, dict[str, Any]] = {
    "toy": {  # to see that a benchmark runs
        "model_type": "llama",
        "vocab_size": 3_000,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
    },
    "small": {
        "model_type": "llama",
        "vocab_size": 32_000,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 32,
    },
    **{
        name: {"model_type": preference_runs.SHAPES[name]["family"].lower()}
        | {key: size for key, size in preference_runs.SHAPES[name].items() if key != "family"}
        for name in ("smollm2", "qwen2.5-0.5b", "qwen3-0.6b")
    },
}
# Standard deviation of the logits: a next token about as uncertain as a trained model's.
SPREAD = 4.0


@dataclass(frozen=True)
class Workload:
    """A task for both. `limits` are the rows' lengths in tokens; `copies` how many answers each
    prompt gets; `at_once` the rows of a batch, None: all of them.
    """

    name: str
    settings: SamplingSettings
    prompts: list[list[int]] = field(repr=False)
    limits: list[int] = field(repr=False)
    copies: int = 1
    at_once: int | None = None


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    o = options(argv)
    if o.device == "cuda" and choose_device().type != "cuda":
        Console().print("sampling: no GPU here; --device cuda is ready to run where there is one")
        return
    torch.set_num_threads(o.threads)
    model = make(o)
    shown = Table(
        title=f"Sampling beside generate: {o.shape}, {o.rows} rows of {o.prompt[0]} "
        f"to {o.prompt[1]} tokens"
    )
    for heading in ("workload", "ours, tokens/s", "generate, tokens/s", "ratio", "least to most"):
        shown.add_column(heading, justify="left" if heading == "workload" else "right")
    raw: dict[str, dict[str, list[float]]] = {}
    for work in workloads(o):
        if o.only not in work.name:
            continue
        mine, theirs = compare(model, work, o.rounds)
        raw[work.name] = {"ours": mine, "generate": theirs}
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        speeds = (f"{statistics.median(speed):,.0f}" for speed in (mine, theirs))
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        shown.add_row(work.name, *speeds, f"{statistics.median(ratios):.2f}", spread)
    Console(width=110).print(shown)
    if o.json:
        settings = {key: value for key, value in vars(o).items() if key != "json"}
        write_results(o.json, raw, **settings)


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options; lengths are in tokens."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.sampling", description="Sampling beside generate."
    )
    parser.add_argument("--shape", choices=[*SHAPES], default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--rows", type=int, default=16, help="rows in a batch")
    parser.add_argument("--prompt", type=int, nargs=2, default=[48, 80], metavar=("FROM", "TO"))
    parser.add_argument("--new", type=int, default=32, help="tokens of an answer, at most")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="the workloads whose names hold this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every round's tokens a second here")
    return parser.parse_args(argv)


def make(o: argparse.Namespace) -> Any:
    """A model of random weights that never ends an answer by itself."""
    longest = o.prompt[1] + o.new
    config = AutoConfig.for_model(**SHAPES[o.shape], max_position_embeddings=longest)
    model = random_model(config, o.dtype, o.device)
    model.generation_config = GenerationConfig(pad_token_id=0)
    return model


def random_model(config: Any, dtype: Dtype, device: str) -> Any:
    """A model of random weights whose next token is uncertain, loaded as a player's is."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    with torch.no_grad():
        model.get_output_embeddings().weight.normal_(0, SPREAD / config.hidden_size**0.5)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_model(folder, dtype=dtype, device=device)


def workloads(o: argparse.Namespace) -> list[Workload]:
    """Equal lengths under three sampling settings, then three other workloads."""
    rng = np.random.default_rng(1)
    many = [
        rng.integers(3, 3000, rng.integers(*o.prompt, endpoint=True)).tolist()
        for _ in range(BATCHES * o.rows)
    ]
    prompts = many[: o.rows]
    full = [o.new] * o.rows
    lengths = np.clip(rng.geometric(min(1.0, 3 / o.new), len(many)), 1, o.new).tolist()
    mixed = lengths[: o.rows]
    return [
        Workload("temperature 0.8", SamplingSettings(0.8), prompts, full),
        Workload("temperature 0.8, top-p 0.95", SamplingSettings(0.8, top_p=0.95), prompts, full),
        Workload("top-k 50, top-p 0.9", SamplingSettings(1.0, top_k=50, top_p=0.9), prompts, full),
        Workload(
            f"mixed lengths, {sum(mixed) / o.rows:.0f} on average",
            SamplingSettings(0.8),
            prompts,
            mixed,
        ),
        Workload(
            f"mixed lengths, {BATCHES} batches of {o.rows}",
            SamplingSettings(0.8),
            many,
            lengths,
            at_once=o.rows,
        ),
        Workload(
            "four samples a prompt", SamplingSettings(0.8), prompts[: o.rows // 4], full, copies=4
        ),
    ]


def compare(model: Any, work: Workload, rounds: int) -> tuple[list[float], list[float]]:
    """Tokens a second of ours and of `generate`, for each round after a first that does not count."""
    speeds: tuple[list[float], list[float]] = ([], [])
    for n in range(rounds + 1):
        for speed, run in zip(speeds, (ours, theirs), strict=True):
            speed.append(sum(work.limits) / timed(model, lambda run=run: run(model, work)))
        if n == 0:
            for speed in speeds:
                speed.clear()
    return speeds


def timed(model: Any, run: Callable[[], None]) -> float:
    """Seconds that `run` takes, the device's work included."""
    wait = torch.cuda.synchronize if model.device.type == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - start


def ours(model: Any, work: Workload) -> None:
    """The local player's sampler."""
    prompts = [prompt for prompt in work.prompts for _ in range(work.copies)]
    rows = len(prompts)
    answers = sample(
        model,
        prompts,
        range(rows),
        work.limits,
        work.settings,
        stop_ids=[],
        pad_id=0,
        batch_size=work.at_once or rows,
    )
    assert [len(answer.token_ids) for answer in answers] == work.limits


class RowEnds(StoppingCriteria):
    """Ends each row of `generate` at its own length."""

    def __init__(self, limits: Sequence[int], start: int, device: torch.device) -> None:
        self.end_B = torch.tensor(limits, device=device) + start

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """Which rows are done, [B]."""
        return self.end_B <= input_ids.shape[1]


def theirs(model: Any, work: Workload) -> None:
    """transformers' `generate`, batch after batch."""
    rows = work.at_once or len(work.limits)
    for first in range(0, len(work.limits), rows):
        prompts = work.prompts[first // work.copies :][: rows // work.copies]
        _generate(model, work, prompts, work.limits[first : first + rows])


def _generate(model: Any, work: Workload, prompts: list[list[int]], limits: list[int]) -> None:
    width = max(map(len, prompts))
    padding = [[0] * (width - len(prompt)) for prompt in prompts]
    rows = list(zip(padding, prompts, strict=True))
    ids = torch.tensor([left + prompt for left, prompt in rows], device=model.device)
    shown = torch.tensor([left + [1] * len(prompt) for left, prompt in rows], device=model.device)
    longest = max(limits)
    tokens = model.generate(
        ids,
        attention_mask=shown,
        do_sample=True,
        temperature=work.settings.temperature,
        top_k=work.settings.top_k,
        top_p=work.settings.top_p,
        max_new_tokens=longest,
        num_return_sequences=work.copies,
        stopping_criteria=StoppingCriteriaList([RowEnds(limits, width, model.device)]),
    )
    assert tokens.shape == (len(limits), width + longest)


if __name__ == "__main__":
    main()
