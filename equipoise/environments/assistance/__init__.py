"""The assistant and its user: rules, judges, measures, report, commands, additions to serving.

`parse(text)` takes an output apart, `reward(parsed, quality_user, quality_llm, variant)` gives its
utilities, `named_on_frontier(analyze, front)` says whether its <analyze> names an action of the
frontier; they are loaded at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.environments.assistance.blocks import parse
    from equipoise.environments.assistance.responses import named_on_frontier
    from equipoise.environments.assistance.utilities import reward

__all__ = ["named_on_frontier", "parse", "reward"]

_HOMES = {"named_on_frontier": "responses", "parse": "blocks", "reward": "utilities"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
