"""The assistant and its user: rules, judges, measures, report and commands of the game,
and what it adds to serving.

`parse(text)` takes an output apart, `reward(parsed, quality_user, quality_llm,
variant)` gives its utilities; both are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.environments.assistance.blocks import parse
    from equipoise.environments.assistance.utilities import reward

__all__ = ["parse", "reward"]

_HOMES = {"parse": "blocks", "reward": "utilities"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
