"""The opening of a run: the files that a recipe passes between the command and the first match.

    python -m tools.opening [RECIPE]

Follows `equipoise.run(RECIPE)` until its first match is played. A file is passed when one of its
functions is called with the settings of the whole run: the recipe's name, a mapping with players,
a configuration. It is passed again when it is called so after all its functions had returned.
Prints the files in the order of their first visit, with the number of visits of each.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import equipoise
from equipoise.runs.config import RunConfig

PACKAGE = Path(equipoise.__file__).parent
SETTINGS = {"generations": 1, "prompts.per_generation": 24, "prompts.held_out": 16}
MOST_FILES = 10


class FirstMatch(Exception):  # noqa: N818
    """Ends the run where its first match would be played."""


class Opening:
    """Watches calls; `visits` names the files in the order in which the settings reached them."""

    def __init__(self, recipe: str) -> None:
        self.recipe = recipe
        self.visits: list[str] = []
        self._frames: list[tuple[FrameType, str]] = []  # calls with settings that have not returned

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Take a call or a return, as `sys.setprofile` reports it."""
        if event == "return" and self._frames and self._frames[-1][0] is frame:
            self._frames.pop()
        if event != "call":
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PACKAGE) or not self._has_settings(frame):
            return
        file = str(path.relative_to(PACKAGE))
        if file not in (other for _, other in self._frames):
            self.visits.append(file)
        self._frames.append((frame, file))

    def _has_settings(self, frame: FrameType) -> bool:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        arguments = {
            name: frame.f_locals.get(name) for name in names if name not in ("self", "cls")
        }
        if arguments.get("recipe") == self.recipe:
            return True
        return any(
            isinstance(value, RunConfig) or (isinstance(value, Mapping) and "players" in value)
            for value in arguments.values()
        )


def opening(recipe: str = "quickstart") -> list[str]:
    """The files that the settings of a recipe pass before its first match."""

    def stop(*_: Any) -> None:
        sys.setprofile(None)
        raise FirstMatch

    watched = Opening(recipe)
    first_stage = patch("equipoise.runs.loop.measure", stop)
    with tempfile.TemporaryDirectory() as folder, first_stage:
        sys.setprofile(watched.profile)
        try:
            equipoise.run(recipe, SETTINGS, Path(folder) / "run", progress=False)
        except FirstMatch:
            pass
        finally:
            sys.setprofile(None)
    return watched.visits


def main() -> None:
    """Print the files, their visits, and how many there are of both."""
    visits = Counter(opening(*sys.argv[1:2]))
    for file, count in visits.items():
        print(f"{count:4d}  {file}")
    again = sum(count > 1 for count in visits.values())
    print(f"{len(visits)} files (at most {MOST_FILES}), {again} of them more than once")


if __name__ == "__main__":
    main()
