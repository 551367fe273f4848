"""All figures of a GPU that fit into one call of eight minutes, without a network, trl or pytest.

    python -m benchmarks.gpu_short [--out FOLDER] [--minutes 8]
    python -m benchmarks.gpu_short --tiny          # the same steps at a size for tests, on a CPU, too

One step after the other, each in a process of its own that ends at its limit:

    doctor       what the machine has, and how long the imports take
    quickstart   one generation of the built-in model by the command
    dpo_lora     DPO in bfloat16 of an adapter on a random 0.6 B model, with activation checkpoints
    dpo_whole    DPO in bfloat16 of all its weights, without
    sampling     its tokens a second at 1, 64 and 512 rows
    grpo         one update of GRPO from prompt to weights
    plan         the memory that `plan` expects of quickstart beside what it takes

FOLDER holds two files whatever happens: `figures.json`, written anew after each step, and
`log.txt`, what the steps printed. `share` is the share of the card's own matrix products in
bfloat16 that the step's useful ones come to, from its beginning to its end: a published GRPO of NeMo
RL on an H100 comes to some 10 % (2,161 tokens a second and GPU, 8 B, from prompt to update).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu import RESULTS, environment, has_gpu, run_for
from benchmarks.running import write_results

Figures = dict[str, Any]
MODEL_SHAPE = "qwen3-0.6b"


class Step(NamedTuple):
    """What a step does, and the seconds after which it is ended."""

    measure: Callable[[argparse.Namespace], Figures]
    seconds: float


def doctor(o: argparse.Namespace) -> Figures:
    """What `equipoise doctor` finds, and the seconds that the imports of a training take."""
    began = time.perf_counter()
    _command("-c", "import equipoise.learners.answer_trainer, equipoise.players.local")
    imports = time.perf_counter() - began
    return {"imports_seconds": imports, "doctor": _command("-m", "equipoise", "doctor")}


def quickstart(o: argparse.Namespace) -> Figures:
    """Seconds of one generation of quickstart, and what it measured."""
    few = ["-s", "prompts.per_generation=12", "-s", "prompts.held_out=8"] if o.tiny else []
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        began = time.perf_counter()
        out = _command(
            *("-m", "equipoise", "run", "quickstart", "--json", "--out", run),
            *("-s", "generations=1", *few),
        )
    return {"seconds": time.perf_counter() - began, "run": json.loads(out)}


def dpo_lora(o: argparse.Namespace) -> Figures:
    """DPO of an adapter, activations recomputed."""
    return _preferences(o, lora=4 if o.tiny else 16, recompute=True)


def dpo_whole(o: argparse.Namespace) -> Figures:
    """DPO of all weights."""
    return _preferences(o, lora=0, recompute=False)


def _preferences(o: argparse.Namespace, lora: int, recompute: bool) -> Figures:
    from benchmarks import preference_training

    sizes = {"pairs": 8, "batch": 4, "prompt": [8, 16], "answer": [4, 8]}
    if not o.tiny:
        sizes = {"pairs": 96, "batch": 16, "prompt": [128, 512], "answer": [128, 512]}
    settings = preference_training.options([])
    vars(settings).update(sizes, lora=lora, recompute=recompute, **_device(o))
    with tempfile.TemporaryDirectory() as folder:
        settings.folder = folder
        preference_training.call("make", settings)
        run = preference_training.call("ours", settings)
    return {**run, "share": _share(run["flops"], run["seconds"], o), "settings": sizes}


def sampling(o: argparse.Namespace) -> Figures:
    """Tokens a second of the sampler and of `generate` at three sizes of a batch."""
    from benchmarks import sampling as benchmark

    shape = "toy" if o.tiny else MODEL_SHAPE
    rates: Figures = {}
    for rows in (1, 4) if o.tiny else (1, 64, 512):
        new = 4 if o.tiny else 64
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rates.json"
            arguments = ["--shape", shape, "--rows", str(rows), "--new", str(new)]
            arguments += ["--rounds", "2", "--only", "temperature 0.8", "--json", str(file)]
            for name in ("device", "dtype"):
                arguments += [f"--{name}", _device(o)[name]]
            benchmark.main(arguments)
            rates[f"{rows} rows"] = json.loads(file.read_text())["figures"]
    return rates


def grpo(o: argparse.Namespace) -> Figures:
    """Seconds of an update after a first one, with its tokens, from prompts to new weights."""
    from benchmarks import preference_runs
    from benchmarks.policy_gradient_runs import trainer_of, update
    from equipoise.types import Prompt, user

    prompts, group, tokens = (2, 2, 4) if o.tiny else (16, 16, 256)
    shape = _device(o)["shape"]
    lengths = [8, 16] if o.tiny else [128, 256]
    model = argparse.Namespace(shape=shape, pairs=prompts, prompt=lengths, answer=[1, 1])
    with tempfile.TemporaryDirectory() as folder:
        model.folder = folder
        preference_runs.make(model)
        texts = [text for text, _, _ in preference_runs.texts(model)]
        asked = [Prompt(str(n), (user(text),)) for n, text in enumerate(texts)]
        player = {"model": folder, "device": _device(o)["device"], "max_new_tokens": tokens}
        player |= {"max_length": 1024, "batch_size": 512}
        trainer = trainer_of(
            player,
            5,
            precision="bf16" if has_gpu() else "fp32",
            max_disagreement=1.0,
            batch_size=16,
            estimator="group_relative",
        )
        figures: Figures = {}
        for number in range(2):
            began = time.perf_counter()
            facts = update(trainer, asked, group, number, _parity)
            figures = {"seconds": time.perf_counter() - began, "answer_tokens": facts["length"]}
        parameters = sum(weight.numel() for weight in trainer.model.parameters())
    answers = prompts * group
    read = sum(len(text.split()) for text in texts) * group
    written = figures["answer_tokens"] * answers
    # Two products a weight and token to sample, and six to learn.
    useful = parameters * (8 * written + 6 * read)
    figures |= {"tokens": read + written, "answers": answers, "parameters": parameters}
    figures["tokens_per_second"] = figures["tokens"] / figures["seconds"]
    figures["share"] = _share(useful, figures["seconds"], o)
    return figures


def _parity(prompt: Any, move: Any) -> float:
    return float(len(move.token_ids) % 2)


def plan(o: argparse.Namespace) -> Figures:
    """Memory and time of a short run beside what `plan` said."""
    from benchmarks import plan_accuracy

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        device = _device(o)["device"]
        plan_accuracy.main(["--only", "tiny", "--device", device, "--out", str(file)])
        return json.loads(file.read_text())


STEPS: Mapping[str, Step] = {
    "doctor": Step(doctor, 40),
    "quickstart": Step(quickstart, 60),
    "dpo_lora": Step(dpo_lora, 90),
    "dpo_whole": Step(dpo_whole, 90),
    "sampling": Step(sampling, 90),
    "grpo": Step(grpo, 90),
    "plan": Step(plan, 90),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the steps as long as the time lasts; exit code 1 where one failed."""
    o = options(argv)
    if o.step:
        figures = STEPS[o.step].measure(o)
        Path(o.result).write_text(json.dumps(figures))
        return
    if not o.tiny and not has_gpu():
        print("gpu_short: no GPU here; --tiny rehearses the steps without one")
        return
    o.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * o.minutes
    figures: Figures = {"environment": environment(), "steps": {}}
    with (o.out / "log.txt").open("w") as log:
        for name, step in STEPS.items():
            left = min(step.seconds * (4 if o.tiny else 1), end - time.monotonic())
            figures["steps"][name] = ended_in_time(name, o, left, log)
            write_results(o.out / "figures.json", figures, minutes=o.minutes, tiny=o.tiny)
            state = figures["steps"][name]
            print(f"{name:12}{state['state']:40}{state.get('took', 0):6.1f} s", flush=True)
    states = [step["state"] for step in figures["steps"].values()]
    sys.exit(0 if set(states) == {"done"} else 1)


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.gpu_short",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "short")
    parser.add_argument("--minutes", type=float, default=8, help="of this call")
    parser.add_argument("--tiny", action="store_true", help="rehearse: sizes of a test")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--result", default="", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def ended_in_time(name: str, o: argparse.Namespace, left: float, log: Any) -> Figures:
    """A step's figures with its state: done, failed, or out of time."""
    if left < 5:
        return {"state": "no time was left"}
    print(f"== {name}", file=log, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        arguments = ["-m", "benchmarks.gpu_short", "--step", name, "--result", str(result)]
        arguments += ["--tiny"] if o.tiny else []
        offline = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        began = time.monotonic()
        code = run_for(left, arguments, log, offline)
        if code is None:
            return {"state": f"took longer than {left:.0f} s", "took": left}
        took = time.monotonic() - began
        if code or not result.is_file():
            return {"state": f"failed with code {code}; see log.txt", "took": took}
        return {"state": "done", "took": took, **json.loads(result.read_text())}


def _device(o: argparse.Namespace) -> dict[str, str]:
    shape = "small" if o.tiny else MODEL_SHAPE
    if has_gpu():
        return {"device": "cuda", "dtype": "bfloat16", "shape": shape}
    return {"device": "cpu", "dtype": "float32", "shape": shape}


def _share(flops: float, seconds: float, o: argparse.Namespace) -> float | None:
    """Of the card's matrix products; None without a card."""
    if not has_gpu():
        return None
    from benchmarks.preference_runs import peak

    dtype = argparse.Namespace(dtype=_device(o)["dtype"])
    return flops / seconds / peak(dtype)["flops_per_second"]


def _command(*arguments: str) -> str:
    """What a command of this interpreter prints. Ends the step where it fails."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
