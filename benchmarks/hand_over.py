"""How small a change of weights an engine's hand-over still tells apart (`sampling.arrival_check`).

    python -m benchmarks.hand_over
    equipoise sampler MODEL -s cpu=true -s rank=8 -s max_length=512 -s dtype=float32
    python -m benchmarks.hand_over --model MODEL --server http://127.0.0.1:8000 --out FILE

An adapter takes a few steps of AdamW; then, at each learning rate, one step more. The receiver
scores the probes of a sampler (8 answers of 32 tokens) with the adapter before and the one after.
For each rate: the mean change in nats a token, the share of it that is played with its standard
error, whether new weights can be told from old ones, and what the check says to a receiver that
still has the old ones. Receivers without a server are the model here in another order of rows
(float32) and with products in bfloat16.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.running import provenance
from equipoise.errors import ModelError
from equipoise.models.adapters import Lora, add_adapter
from equipoise.models.loading import load_model
from equipoise.models.resources import Resources
from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.arrival_check import FINEST, HandOver, Scores, check_arrival
from equipoise.sampling.engines.base import EngineAdapter
from equipoise.sampling.engines.remote_engine import EngineProbes, open_engine
from equipoise.sampling.engines.vllm import Vllm
from equipoise.sampling.sampling import retrace, sample

RATES = (1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 1e-4, 3e-4)
FIRST_STEPS, FIRST_RATE = 5, 1e-4
PROBES, TOKENS = 8, 32
BOUND = 1.0  # nats a token; the check of the gap is not what is measured

Receiver = Callable[[Path, Any], np.ndarray]
"""(an adapter's folder, the model here with it) -> log-probabilities of the probes' tokens."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure each receiver at each rate, print a table, and write the figures where asked."""
    o = options(argv)
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    model = add_adapter(load_model(o.model, dtype="float32"), Lora(r=8, alpha=16))
    prompts = np.random.default_rng(1).integers(3, 300, (PROBES, 12)).tolist()
    with model.disable_adapter():
        seeds = list(range(PROBES))
        sampled = sample(
            model.get_base_model(),
            prompts,
            seeds,
            [TOKENS] * PROBES,
            SamplingSettings(0.7),
            stop_ids=[],
            pad_id=0,
            batch_size=PROBES,
        )
    probes = EngineProbes(prompts, [answer.token_ids for answer in sampled], {})
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="equipoise-adapters-") as home:
        for name, receiver in receivers(o, probes).items():
            figures += measured(name, receiver, model, probes, Path(home))
    table = Table(title=f"{Path(o.model).name}: one step at a rate, {PROBES} probes")
    for heading in ("receiver", "rate", "nats a token", "share", "told", "old weights"):
        table.add_column(heading)
    for row in figures:
        share = f"{row['share']:.3f} ± {row['error']:.3f}"
        change = f"{row['change']:.1e}"
        table.add_row(
            row["receiver"], f"{row['rate']:g}", change, share, str(row["told"]), row["old"]
        )
    Console(width=110).print(table)
    if o.out:
        record = {**provenance(), "model": Path(o.model).name, "figures": figures}
        o.out.write_text(json.dumps(record, indent=1) + "\n")


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="benchmarks.hand_over")
    parser.add_argument("--model", default="builtin", help="a folder or id")
    parser.add_argument("--server", help="where a vLLM of that model answers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file for the raw figures")
    return parser.parse_args(argv)


def receivers(o: argparse.Namespace, probes: EngineProbes) -> dict[str, Receiver]:
    """The receivers by name."""

    def backwards(folder: Path, model: Any) -> np.ndarray:
        rows = retrace(model.get_base_model(), probes.prompts[::-1], probes.answers[::-1], 1.0, 0)
        return np.concatenate(rows[::-1])

    def short(folder: Path, model: Any) -> np.ndarray:
        with torch.autocast("cpu", torch.bfloat16):
            return scores(model, probes)

    chosen: dict[str, Receiver] = {"float32": backwards, "bfloat16": short}
    if o.server:
        sampler = Vllm.model_validate({"base_url": o.server})
        engine = open_engine(sampler, Resources())
        assert engine is not None

        def vllm(folder: Path, model: Any) -> np.ndarray:
            return engine.score(EngineAdapter.of(folder.name, folder), probes)

        chosen["vllm"] = vllm
    return chosen


def scores(model: Any, probes: EngineProbes) -> np.ndarray:
    """What the model here gives the probes' tokens."""
    return np.concatenate(retrace(model.get_base_model(), probes.prompts, probes.answers, 1.0, 0))


def measured(
    name: str, receiver: Receiver, model: Any, probes: EngineProbes, home: Path
) -> list[dict[str, Any]]:
    """The figures of one receiver at each rate."""
    trained = {n: w for n, w in model.named_parameters() if "lora_" in n}
    dice = torch.Generator().manual_seed(3)
    first = {n: w.detach().clone() for n, w in trained.items()}
    batch = torch.randint(3, 300, (4, 24), generator=dice)
    for _ in range(FIRST_STEPS):
        step(model, trained, batch, FIRST_RATE)
    before = {n: w.detach().clone() for n, w in trained.items()}
    old = both(receiver, model, probes, home / f"{name}-old")
    figures: list[dict[str, Any]] = []
    for rate in RATES:
        restore(trained, before)
        step(model, trained, batch, rate)
        new = both(receiver, model, probes, home / f"{name}-{rate:g}")
        _, untold = check_arrival("new", new, {"old": old}, BOUND, exact=True)
        tokens = len(new.sent_A)
        hand_over = HandOver.between(old, new, tokens, FINEST, still=FINEST, floor=old.noise)
        try:
            still_old = Scores(new.sent_A, old.received_A)
            check_arrival("new", still_old, {"old": old}, BOUND, exact=True)
            verdict = "pass"
        except ModelError:
            verdict = "refused"
        figures.append(
            {
                "receiver": name,
                "rate": rate,
                "change": float(np.abs(new.sent_A - old.sent_A).mean()),
                "gap": hand_over.gap,
                "noise": old.noise,
                "share": hand_over.share,
                "error": hand_over.share_error,
                "told": not untold,
                "old": verdict,
            }
        )
    restore(trained, first)
    return figures


def step(model: Any, trained: dict[str, Any], batch: torch.Tensor, rate: float) -> None:
    """One step of AdamW on the likelihood of random tokens."""
    for weight in trained.values():
        weight.requires_grad_(True)
    optimizer = torch.optim.AdamW(trained.values(), lr=rate)
    model(input_ids=batch, labels=batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def restore(trained: dict[str, Any], values: dict[str, torch.Tensor]) -> None:
    """Put earlier weights back."""
    with torch.no_grad():
        for name, weight in trained.items():
            weight.copy_(values[name])


def both(receiver: Receiver, model: Any, probes: EngineProbes, folder: Path) -> Scores:
    """The probes' scores here in float32 and by the receiver."""
    model.save_pretrained(str(folder))
    return Scores(scores(model, probes), receiver(folder, model))


if __name__ == "__main__":
    main()
