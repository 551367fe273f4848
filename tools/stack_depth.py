"""Depth of the stack of the package's functions at three places of a quickstart.

    python -m tools.stack_depth

Prints, for the first call of the loss, of the model and of a curve of the report, the number of the
package's functions below it, and their names. Comprehensions and lambdas do not count.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import equipoise

PACKAGE = Path(equipoise.__file__).parent
MOST = {"loss": 11, "forward pass": 17, "curve": 8}  # functions, at most
SETTINGS = {"generations": 1, "prompts.per_generation": 24, "prompts.held_out": 16}


def package_functions(frame: FrameType | None) -> list[str]:
    """The package's functions below a frame, outermost first, as `file:function`."""
    names = []
    while frame is not None:
        code = frame.f_code
        path = Path(code.co_filename)
        if path.is_relative_to(PACKAGE) and not code.co_name.startswith("<"):
            names.append(f"{path.relative_to(PACKAGE)}:{code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


def stacks() -> dict[str, list[str]]:
    """Run a small quickstart; place -> the package's functions below its first call."""
    from transformers import PreTrainedModel

    from equipoise.blocks.section import Curve
    from equipoise.losses.preference import MNPO

    by_place: dict[str, list[str]] = {}

    def recorder(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            by_place.setdefault(label, package_functions(sys._getframe(1)))
            return function(*arguments, **settings)

        return call

    places = {
        "loss": (MNPO, "rows"),
        "forward pass": (PreTrainedModel, "__call__"),
        "curve": (Curve, "__init__"),
    }
    with ExitStack() as stack:
        for label, (owner, name) in places.items():
            stack.enter_context(patch.object(owner, name, recorder(label, getattr(owner, name))))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        equipoise.run("quickstart", SETTINGS, Path(folder) / "run", progress=False)
    return {label: by_place[label] for label in places}


def main() -> None:
    """Print the three figures and the stacks."""
    for label, names in stacks().items():
        print(f"{label}: {len(names)} (at most {MOST[label]})")
        print(*(f"    {name}" for name in names), sep="\n")


if __name__ == "__main__":
    main()
