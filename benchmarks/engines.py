"""Tokens a second of the engines that may play for a learner, beside raw `generate`, in one run.

    python -m benchmarks.engines
    equipoise sampler MODEL -s cpu=true -s rank=8 -s max_length=512
    python -m benchmarks.engines --model MODEL --server http://127.0.0.1:8000 --out FILE

Rows of equal length, temperature 1, no end token, so that all make the same number of tokens. The
systems alternate; a ratio is the median over the rounds. Measured are:

* the local sampler and transformers' `generate`, the base model;
* trl's GRPOTrainer, by the method with which it samples for its own updates;
* PEFT's mixed batch: `generate` on 8 adapters × 2 rows (`adapter_names`);
* vLLM by our client: the base, one adapter × all rows, 8 adapters sharing the batch,
  and the same 8 one after the other.

Without a server (or without a model that it could serve) vLLM's figures are missing, and it says
so. trl's own vLLM needs CUDA; one update of trl beside ours is in `benchmarks.policy_gradient
speed`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import GenerationConfig

from benchmarks.running import load, provenance
from benchmarks.sampling import SHAPES, make
from benchmarks.sampling import options as sampling_options
from equipoise.models.adapters import Lora, add_adapter
from equipoise.models.loading import load_model
from equipoise.models.resources import Resources
from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.engines.base import EngineAdapter, EngineRow
from equipoise.sampling.engines.remote_engine import Engine, open_engine
from equipoise.sampling.engines.vllm import Vllm
from equipoise.sampling.sampling import sample

ADAPTERS = 8
SETTINGS = SamplingSettings(1.0)
System = Callable[[int], None]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is there, print a table, and write the raw figures where asked."""
    o = options(argv)
    torch.set_num_threads(o.threads)
    busy = load()
    with tempfile.TemporaryDirectory(prefix="equipoise-adapters-") as folder:
        seconds = measured(systems(o, Path(folder)), o.rounds)
    tokens = o.rows * o.new
    shape = Path(o.model).name if o.model else f"random weights, {o.shape}"
    table = Table(
        title=f"{shape}: {o.rows} rows × {o.new} tokens after {o.prompt}; load before: {busy}"
    )
    for heading in ("system", "tokens/s", "× generate"):
        table.add_column(heading, justify="left" if heading == "system" else "right")
    figures: dict[str, Any] = {}
    for name, times in seconds.items():
        ratios = [g / t for g, t in zip(seconds["generate"], times, strict=True)]
        figures[name] = {
            "tokens_per_second": round(tokens / statistics.median(times), 2),
            "times_generate": round(statistics.median(ratios), 3),
            "seconds": [round(t, 3) for t in times],
        }
        speed = f"{figures[name]['tokens_per_second']:,.1f}"
        table.add_row(name, speed, f"{figures[name]['times_generate']:.2f}")
    Console(width=100).print(table)
    one, eight = seconds.get("vllm, one adapter"), seconds.get("vllm, 8 adapters")
    if one is None or eight is None:
        print("vLLM: the figure is missing; start a server and name it with --server")
    else:
        ratio = statistics.median(a / b for a, b in zip(one, eight, strict=True))
        figures["8 adapters over one"] = round(ratio, 3)
        print(f"8 adapters × {o.rows // ADAPTERS} rows: {ratio:.2f} × 1 × {o.rows}")
    if o.out:
        record = {**provenance(), "options": shown(o), "figures": figures}
        o.out.write_text(json.dumps(record, indent=1) + "\n")


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options; lengths are in tokens."""
    parser = argparse.ArgumentParser(prog="benchmarks.engines")
    parser.add_argument("--model", help="a folder or id; default: random weights")
    parser.add_argument("--shape", choices=SHAPES, default="small", help="without one")
    parser.add_argument("--without-trl", action="store_true")
    parser.add_argument("--server", help="where a vLLM of that model answers")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--new", type=int, default=32, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, help="a file for the raw figures")
    return parser.parse_args(argv)


def shown(o: argparse.Namespace) -> dict[str, Any]:
    """The options without places of this machine."""
    values = {k: v for k, v in vars(o).items() if k not in ("out", "server")}
    return values | {"model": o.model and Path(o.model).name}


def systems(o: argparse.Namespace, folder: Path) -> dict[str, System]:
    """Name -> what makes all rows once, from a seed."""
    base = opened(o)
    most = min(3000, base.config.vocab_size)
    prompts = np.random.default_rng(1).integers(3, most, (o.rows, o.prompt)).tolist()
    engine = None
    if o.server and o.model:
        sampler = Vllm.model_validate({"base_url": o.server, "adapters": ADAPTERS})
        engine = open_engine(sampler, Resources())
    adapted = with_adapters(base, folder)

    def local(seed: int) -> None:
        with adapted.disable_adapter():
            sample(
                adapted.get_base_model(),
                prompts,
                [seed * 1000 + n for n in range(o.rows)],
                [o.new] * o.rows,
                SETTINGS,
                stop_ids=[],
                pad_id=0,
                batch_size=o.rows,
            )

    def generate(seed: int) -> None:
        torch.manual_seed(seed)
        with adapted.disable_adapter():
            generated(adapted, prompts, o.new)

    def mixed(seed: int) -> None:
        torch.manual_seed(seed)
        names = [f"a{n % ADAPTERS}" for n in range(o.rows)]
        generated(adapted, prompts, o.new, adapter_names=names)

    chosen: dict[str, System] = {
        "generate": generate,
        "local sampler": local,
        **({} if o.without_trl else {"trl, GRPOTrainer": trl(o, prompts, folder)}),
        "PEFT, 8 adapters": mixed,
    }
    if engine is not None:
        chosen |= on_engine(engine, prompts, o.new, folder)
    return chosen


def opened(o: argparse.Namespace) -> Any:
    """The model that is named, or one of random weights."""
    shape = ["--shape", o.shape, "--prompt", str(o.prompt), str(o.prompt)]
    given = [*shape, "--new", str(o.new)]
    given += ["--device", o.device]
    base = load_model(o.model, device=o.device) if o.model else make(sampling_options(given))
    base.generation_config = GenerationConfig(pad_token_id=0)
    return base


def trl(o: argparse.Namespace, prompts: list[list[int]], folder: Path) -> System:
    """What trl's trainer samples for an update."""
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from equipoise.models.adapters import resolve

    arguments = GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=o.rows,
        num_generations=2,
        max_completion_length=o.new,
        generation_kwargs={"min_new_tokens": o.new},
        temperature=1.0,
        use_cpu=o.device == "cpu",
        bf16=False,
        report_to="none",
    )
    trainer = GRPOTrainer(
        opened(o),
        lambda prompts, **_: [0.0] * len(prompts),
        arguments,
        Dataset.from_dict({"prompt": ["Say."] * o.rows}),
        processing_class=AutoTokenizer.from_pretrained(resolve(o.model or "builtin")),
    )

    def sampled(seed: int) -> None:
        torch.manual_seed(seed)
        answers, *_ = trainer._generate_single_turn(prompts, None, {}, 1)
        assert [len(ids) for ids in answers] == [o.new] * o.rows

    return sampled


def with_adapters(base: Any, folder: Path) -> Any:
    """The model with 8 adapters of random weights, which lie in `folder`, too."""
    model = base
    for n in range(ADAPTERS):
        torch.manual_seed(n)
        model = add_adapter(model, Lora(r=8, alpha=16), f"a{n}")
        model.set_adapter(f"a{n}")
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if f"lora_B.a{n}" in name:
                    weight.normal_(0, 0.02)
        model.save_pretrained(str(folder), selected_adapters=[f"a{n}"])
    return model.eval().requires_grad_(False)


@torch.inference_mode()
def generated(model: Any, prompts: list[list[int]], new: int, **more: Any) -> None:
    """transformers' `generate`."""
    ids = torch.tensor(prompts, device=model.device)
    tokens = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        max_new_tokens=new,
        **more,
    )
    assert tokens.shape == (len(prompts), ids.shape[1] + new)


def on_engine(
    engine: Engine, prompts: list[list[int]], new: int, folder: Path
) -> dict[str, System]:
    """What vLLM makes by our client."""
    adapters = [EngineAdapter.of(f"a@{n}", folder / f"a{n}") for n in range(ADAPTERS)]

    def rows(seed: int, places: Sequence[int]) -> list[EngineRow]:
        return [EngineRow(prompts[n], seed * 1000 + n, new) for n in places]

    every = range(len(prompts))
    shares = [every[n::ADAPTERS] for n in range(ADAPTERS)]

    def together(seed: int) -> None:
        work = [
            engine.submit(adapter, rows(seed, share), SETTINGS, [])
            for adapter, share in zip(adapters, shares, strict=True)
        ]
        for part in work:
            engine.wait(part)

    def in_turn(seed: int) -> None:
        for adapter, share in zip(adapters, shares, strict=True):
            engine.sample(adapter, rows(seed, share), SETTINGS, [])

    return {
        "vllm, base": lambda s: _all(engine, None, rows(s, every)),
        "vllm, one adapter": lambda s: _all(engine, adapters[0], rows(s, every)),
        "vllm, 8 adapters": together,
        "vllm, 8 adapters in turn": in_turn,
    }


def _all(engine: Engine, adapter: EngineAdapter | None, rows: list[EngineRow]) -> None:
    engine.sample(adapter, rows, SETTINGS, [])


def measured(chosen: dict[str, System], rounds: int) -> dict[str, list[float]]:
    """Seconds of each system in each round, after a first that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    for seed in range(rounds + 1):
        for name, system in chosen.items():
            began = time.perf_counter()
            system(seed)
            if seed:
                seconds[name].append(time.perf_counter() - began)
    return seconds


if __name__ == "__main__":
    main()
