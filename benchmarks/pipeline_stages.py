"""Stages of two pipelines, compared number by number; and a release's own process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TOLERANCE = 1e-5
"""Of numbers that are sums of float32; ids, labels and texts are equal or not."""
LONG = 500
"""Values of a stage beyond which a test keeps their digest."""
MADE, ARRAYS = "made.json", "arrays.json"


@dataclass(frozen=True)
class Stage:
    """A stage's numbers or texts compared, how many differ, and the largest difference.

    Where some differ, `why`, and what that `changes` in a figure.
    """

    name: str
    compared: int
    different: int
    largest: float
    why: str = ""
    changes: str = ""


@dataclass
class Comparison:
    """All stages of a release, the repairs without which it does not run, and its arrays."""

    stages: list[Stage] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    released: dict[str, Any] = field(default_factory=dict)

    def add(
        self,
        name: str,
        theirs: Any,
        ours: Any,
        *,
        tolerance: float = TOLERANCE,
        why: str = "",
        changes: str = "",
    ) -> None:
        """Compare a stage's nested arrays. `why` and `changes` are kept where they differ."""
        compared, different, largest = 0, 0, 0.0
        for first, second in leaves(theirs, ours):
            compared += 1
            distance = distance_of(first, second)
            largest = max(largest, distance)
            different += distance > tolerance
        if not different:
            why = changes = ""
        self.stages.append(Stage(name, compared, different, largest, why, changes))

    def not_compared(self, name: str, why: str, changes: str) -> None:
        """Note a stage that two programs cannot have alike."""
        self.stages.append(Stage(name, 0, 0, 0.0, why, changes))

    def figures(self) -> dict[str, Any]:
        """The raw result."""
        return {"stages": [asdict(stage) for stage in self.stages], "repairs": self.repairs}


def leaves(theirs: Any, ours: Any) -> Iterator[tuple[Any, Any]]:
    """Values in the same place of two nested arrays; one that is missing is None."""
    if isinstance(theirs, Mapping) or isinstance(ours, Mapping):
        theirs, ours = theirs or {}, ours or {}
        for key in {**theirs, **ours}:
            yield from leaves(theirs.get(key), ours.get(key))
    elif isinstance(theirs, list | tuple) or isinstance(ours, list | tuple):
        theirs, ours = theirs or [], ours or []
        for place in range(max(len(theirs), len(ours))):
            first = theirs[place] if place < len(theirs) else None
            second = ours[place] if place < len(ours) else None
            yield from leaves(first, second)
    else:
        yield theirs, ours


def distance_of(first: Any, second: Any) -> float:
    """How far two values are apart: relative to 1 or more of numbers; 1 of others that differ."""
    numbers = all(isinstance(value, int | float) for value in (first, second))
    if not numbers or isinstance(first, bool) or isinstance(second, bool):
        return float(first != second)
    if first == second:
        return 0.0
    return abs(first - second) / max(1.0, abs(first), abs(second))


def run_release(module: str, checkout: Path, folder: Path, made: Any) -> dict[str, Any]:
    """The arrays that `module`, in a process of its own, makes of the made batch with the files of
    a checkout; ends the benchmark where it fails.
    """
    (folder / MADE).write_text(json.dumps(made))
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", str(checkout), str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{checkout} does not run as it stands:\n{done.stderr[-3000:]}")
    return json.loads((folder / ARRAYS).read_text())


def golden(arrays: Any) -> Any:
    """The arrays as a test keeps them: long ones without fractions by count and digest."""
    if isinstance(arrays, Mapping):
        return {key: golden(value) for key, value in arrays.items()}
    values = [first for first, _ in leaves(arrays, arrays)]
    if len(values) <= LONG or any(isinstance(value, float) for value in values):
        return arrays
    text = json.dumps(arrays)
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return {"count": len(values), "digest": digest}
