"""What is measured of players: every generation as a recipe says, and named sets.

The package is callable: `equipoise.evaluate("runs/first", "gsm8k")` measures players on
named sets, as `equipoise.run.api.evaluate` says.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class EvaluatePackage(ModuleType):
    """This package, which can also be called, for the reason that `equipoise.run` can be."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Measure a run's players, a model or an endpoint on named sets.

        The arguments are those of `equipoise.run.api.evaluate`.
        """
        return import_module("equipoise.run.api").evaluate(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        # What is pickled by value, such as a notebook's functions, holds it by name.
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = EvaluatePackage
