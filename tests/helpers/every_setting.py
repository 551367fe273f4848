"""Every setting that a run's configuration can hold, and the effects that they declare."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from families import FAMILIES, descendants

from equipoise.component import Settings
from equipoise.system.effects import DeclaredEffect, declared, type_of

COMMAND_LINE = {"ServeSettings", "ChatSettings", "SamplerSettings", "Steering", "Limits"}
"""Settings that are given on the command line alone, and in no run."""
PUBLISHED = {"Published", "PublishedElement"}  # notes in packaged recipes


@cache
def all_settings() -> list[type[Settings]]:
    """Every group of settings of the package that a run's configuration can hold."""
    for family in FAMILIES.values():
        for kind in family.known_kinds():
            family.find(kind)
    ours = [kind for kind in descendants(Settings) if kind.__module__.startswith("equipoise.")]
    outside = COMMAND_LINE | PUBLISHED
    return [
        kind
        for kind in dict.fromkeys(ours)
        if not kind.__name__.endswith("StandIn") and kind.__name__ not in outside
    ]


def fields() -> Iterator[tuple[type[Settings], str, Any]]:
    """(settings, name, type) of every setting but the kinds."""
    for kind in all_settings():
        for name in kind.model_fields:
            if name != "kind":
                yield kind, name, type_of(kind, name)


def declarations() -> list[tuple[type[Settings], str, DeclaredEffect]]:
    """Every setting with each effect that it declares."""
    declarations = []
    for kind, name, type_ in fields():
        found = dict.fromkeys(declared(type_))
        declarations += [(kind, name, does) for does in found if does.verb != "nothing"]
    return declarations
