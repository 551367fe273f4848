"""A run: its loop, its settings, its directory, what is read from it.

Start reading at `equipoise.run.loop`. The package is callable: `equipoise.run("quickstart")`
makes and plays out a run, as `equipoise.run.api.run` says.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.run.handle import Run


class RunPackage(ModuleType):
    """This package, which can also be called.

    `equipoise.run` has to be two things: the function that a person calls, and the
    package below which `equipoise.run.config` lies. Importing any part of the package
    binds the name `run` of `equipoise` to the package, so a function of that name
    would vanish at the first such import. A module whose class has `__call__` is both.
    """

    def __call__(
        self,
        recipe: str | Path | Mapping[str, Any],
        settings: Mapping[str, Any] | Sequence[str] | None = None,
        out: str | Path | None = None,
        *,
        overwrite: bool = False,
        progress: bool = True,
    ) -> Run:
        """Play a recipe, train its learners, and return the finished run.

        The arguments are those of `equipoise.run.api.run`.
        """
        from equipoise.run import api

        return api.run(recipe, settings, out, overwrite=overwrite, progress=progress)

    def __reduce__(self) -> tuple[Any, ...]:
        # What is pickled by value, such as a notebook's functions, holds it by name.
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = RunPackage
