"""Every figure that a page owes a GPU, in calls of ten minutes: each is a command of its own, whose
result is a file; a later call makes those that are missing.

    python -m benchmarks.gpu [FIGURE …] [--out benchmarks/results/gpu] [--minutes 10]
        [--smollm2 MODEL] [--qwen MODEL]        # folders, GGUF files or hub ids
        [--server http://127.0.0.1:8000]        # a vLLM that serves SmolLM2 (`equipoise sampler`)
    python -m benchmarks.gpu --tiny             # the same commands at a size for tests: without a GPU
                                                # on the CPU, with one a rehearsal of a minute or two

`tests` are those that need a GPU, before anything is measured on it. A figure is begun only where its
time still fits into the call, and ended, with all that it began, where it takes longer; it is then
named as missing, and why. A figure of a model or server that is not named waits. Beside each file
lies what the command printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table

from benchmarks.running import write_results

RESULTS = Path(__file__).parent / "results" / "gpu"
GIVEN = ("smollm2", "qwen", "server")


@dataclass(frozen=True)
class Figure:
    """A command that makes one figure.

    `command` runs on a GPU, `tiny` everywhere; `{result}` is its file, `{folder}` a place of its own,
    `{smollm2}` or `{qwen}` a model and `{server}` a vLLM. Where a command writes no result, its time
    is the figure.
    """

    minutes: float
    command: str
    tiny: str

    def rehearsal(self, on_gpu: bool) -> str:
        """The tiny command, on a GPU in the device and the numbers that the figure has there."""
        own = [given for given in ON_DEVICE if given in self.command] if on_gpu else []
        return " ".join([self.tiny, *own])


BENCHMARK = "-m benchmarks."
PREFERENCE = BENCHMARK + "preference_training --out {result} "
GRADIENT = BENCHMARK + "policy_gradient speed --json {result} "
SAMPLING = BENCHMARK + "sampling --json {result} "
ENGINES = BENCHMARK + "engines --out {result} "
ENGINES_ON_GPU = ENGINES + "--model {smollm2} --device cuda --rows 64 --new 32 --rounds 2"
ENGINES_TINY = ENGINES + "--shape toy --rows 8 --prompt 4 --new 4 --rounds 1 --without-trl"
LEAGUE = BENCHMARK + "league --json {result} "
PLANNED = BENCHMARK + "plan_accuracy --out {result} "
RUN = "-m equipoise run instructions -s judge=instructions --json --out {folder} "
ON_DEVICE = ("--device cuda", "--dtype bfloat16")
ON_GPU = " ".join(ON_DEVICE) + " "
TESTS = "-m pytest -q -m gpu -n 0 tests/models tests/scenarios/test_recipes.py"
SHORT_RUN = "-m equipoise run quickstart --json --out {folder} -s generations=1"

FIGURES = {
    "tests": Figure(4, TESTS, TESTS),
    "dpo": Figure(
        6,
        PREFERENCE + ON_GPU + "--shape qwen3-0.6b --pairs 256 --prompt 128 512 --answer 128 512",
        PREFERENCE + "--pairs 4 --batch 2 --repeats 1 --prompt 8 12 --answer 4 8",
    ),
    "dpo_lora": Figure(
        4,
        PREFERENCE + ON_GPU + "--shape qwen3-0.6b --pairs 256 --lora 16 --repeats 1",
        PREFERENCE + "--pairs 4 --batch 2 --repeats 1 --prompt 8 12 --answer 4 8 --lora 2",
    ),
    "grpo": Figure(
        5,
        GRADIENT
        + "--model {smollm2} --prompts 8 --group 8 --tokens 128 --steps 2 --repeats 1 --device cuda",
        GRADIENT + "--prompts 2 --group 2 --tokens 4 --steps 1 --repeats 1",
    ),
    "sampling": Figure(
        4,
        SAMPLING + ON_GPU + "--shape qwen3-0.6b --rows 64 --new 64 --rounds 2",
        SAMPLING + "--shape toy --rows 4 --rounds 1",
    ),
    "engines": Figure(4, ENGINES_ON_GPU, ENGINES_TINY),
    "vllm": Figure(5, ENGINES_ON_GPU + " --server {server}", ENGINES_TINY),
    "league": Figure(
        4,
        LEAGUE + "--device cuda --shapes smollm2 --rounds 2 --new 24",
        LEAGUE + "--shapes tiny --adapters 2 --new 2 --rounds 1 --prompt 4",
    ),
    "plan": Figure(3, PLANNED + "--device cuda --model {smollm2}", PLANNED + "--only tiny"),
    "smollm2_run": Figure(5, RUN + "-s policy.model={smollm2}", SHORT_RUN),
    "qwen_run": Figure(6, RUN + "-s policy.model={qwen}", SHORT_RUN),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the figures that are missing, as far as the time goes, and say what there is."""
    o = options(arguments)
    o.out.mkdir(parents=True, exist_ok=True)
    if not o.tiny and not has_gpu():
        print("gpu: no GPU here; these figures wait for a machine that has one")
        return
    end = time.monotonic() + 60 * o.minutes
    table = Table(title="figures of a GPU" if not o.tiny else "the commands, tiny: no figures")
    for heading in ("figure", "state", "seconds"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for name in o.figure or FIGURES:
        record = made(name, o, end)
        table.add_row(name, record["state"], f"{record.get('seconds', 0):.0f}")
    Console(width=100).print(table)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu")
    parser.add_argument("figure", nargs="*", metavar="FIGURE", help=f"of {', '.join(FIGURES)}")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--minutes", type=float, default=10, help="of this call")
    for given in GIVEN:
        parser.add_argument(f"--{given}", default="")
    parser.add_argument("--tiny", action="store_true")
    o = parser.parse_args(arguments)
    if unknown := set(o.figure) - set(FIGURES):
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    return o


def has_gpu() -> bool:
    """Whether torch sees a GPU."""
    import torch

    return torch.cuda.is_available()


def made(name: str, o: argparse.Namespace, end: float) -> dict[str, Any]:
    """The record of a figure, made now if it is not there and its time fits; `state` is "done", or
    why it is missing.
    """
    figure, path = FIGURES[name], o.out / f"{name}.json"
    if path.is_file():
        return json.loads(path.read_text())["figures"]
    command = figure.rehearsal(has_gpu()) if o.tiny else figure.command
    if waits := [given for given in GIVEN if f"{{{given}}}" in command and not vars(o)[given]]:
        return {"state": f"waits for --{waits[0]}"}
    left = end - time.monotonic()
    if left < (1 if o.tiny else 60 * figure.minutes):
        return {"state": "waits for the next call"}
    with tempfile.TemporaryDirectory(prefix="figure-") as folder:
        return finished(name, command, o, Path(folder), left)


def finished(
    name: str, command: str, o: argparse.Namespace, folder: Path, left: float
) -> dict[str, Any]:
    """Run the command of a figure for at most `left` seconds, and keep what it gave."""
    result, began = folder / "result.json", time.monotonic()
    places = {given: vars(o)[given] for given in GIVEN} | {"result": result}
    argv = [part.format(**places, folder=folder / "run") for part in command.split()]
    with (o.out / f"{name}.log").open("w") as log:
        code = run_for(left, argv, log)
    if code is None:
        return {"state": f"took longer than {left:.0f} s", "seconds": left}
    if code:
        return {"state": f"failed with code {code}: see {name}.log"}
    record = {"state": "done", "seconds": round(time.monotonic() - began, 1), **environment()}
    record["command"] = "python " + command
    record |= {"result": json.loads(result.read_text())} if result.is_file() else {}
    write_results(o.out / f"{name}.json", record)
    return record


def run_for(
    seconds: float, arguments: Sequence[str], log: IO[str], env: Mapping[str, str] | None = None
) -> int | None:
    """The exit code of this interpreter with these arguments; None where it took longer than so
    many seconds. It and all that it began have ended then, so that nothing disturbs the next.
    """
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=log, stderr=log, env=env, start_new_session=True
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def environment() -> dict[str, Any]:
    """The device and the versions of what computes on it."""
    import torch

    device = torch.cuda.get_device_name() if has_gpu() else "cpu"
    packages = ("torch", "transformers", "peft", "trl", "vllm")
    return {"device": device, "versions": dict(versions(packages))}


def versions(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name and version of those packages that are there."""
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield package, metadata.version(package)


if __name__ == "__main__":
    main()
