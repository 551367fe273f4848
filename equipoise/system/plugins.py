"""The tables that environments and plug-ins add to the house, found without importing anything
else.

Every folder below `equipoise.environments` is a plug-in. Its file `plugin.py` holds plain mappings,
those of these that it adds to, and imports nothing:

    KINDS     base class's name -> {kind: "module:Class"}
    COMMANDS  the command's name of a game -> {verb: "module:function"}
    MODELS    name of a packaged model -> its folder, below the environment's own
    ADAPTERS  name of a packaged adapter -> its folder, likewise
    SERVING   field of a chat request -> {"extension": "module:function", …}, what
              serving gains (`equipoise.serve.engine`)
    TEACHERS  name of a packaged teacher -> the settings of its player

An installed package adds kinds by entry points in a group `equipoise.` with a base class's name,
such as `equipoise.Judge`: kind = "module:Class".
"""

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from equipoise.errors import ConfigError


@cache
def plugin_modules() -> tuple[ModuleType, ...]:
    """The `plugin` module of every environment, in the order of their folders' names."""
    home = importlib.import_module("equipoise.environments")
    folders = sorted(module.name for module in pkgutil.iter_modules(home.__path__) if module.ispkg)
    return tuple(importlib.import_module(f"{home.__name__}.{folder}.plugin") for folder in folders)


def plugin_table(table: str) -> dict[str, Any]:
    """The entries of all environments in one of their tables, such as COMMANDS."""
    tables = [getattr(plugin, table, {}) for plugin in plugin_modules()]
    return {name: value for entries in tables for name, value in entries.items()}


@cache
def installed_kinds() -> dict[str, dict[str, str]]:
    """Base class's name -> {kind: "module:Class"}, by the entry points of installed packages.

    A kind that several packages give has all their paths, with " or " between them.
    """
    tables: dict[str, dict[str, str]] = {}
    installed = entry_points()
    for room in sorted(installed.groups):
        if not room.startswith("equipoise."):
            continue
        kinds = tables.setdefault(room.removeprefix("equipoise."), {})
        for each in sorted(installed.select(group=room)):
            path = each.value.partition("[")[0].strip()
            known = kinds.get(each.name, path)
            kinds[each.name] = path if known == path else f"{known} or {path}"
    return tables


def neighbours(module: str) -> Any:
    """A module of the package that knows other programs. Raises ConfigError without it."""
    if find_spec("equipoise_neighbours") is None:
        raise ConfigError("this needs Equipoise's neighbours: pip install ./neighbours, its source")
    return importlib.import_module(f"equipoise_neighbours.{module}")
