"""Benchmarks whose arms and seeds all begin with one taught start: its options and its gates."""

import argparse
from pathlib import Path

from benchmarks.experiment import Options
from equipoise.api.warm_start import TaughtStart, WarmStart, check_gates, warm_start


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the model and where its start is kept."""
    parser.add_argument("--model", required=True, help="a folder, a GGUF file or a hub id")
    parser.add_argument("--starts", type=Path, default=Path("runs/starts"))


def taught(start: WarmStart, o: Options) -> TaughtStart:
    """The start of this model, taught now or read."""
    return warm_start(start, o.model, o.starts)


def need_start(start: WarmStart, o: Options) -> None:
    """Teach the start, or read it; ends where a gate is not met."""
    check_gates(taught(start, o))
