"""Families of components: every base class with kinds of its own, and where a recipe names one."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import equipoise
from equipoise.component import Component

SETTING = {
    "Player": "players.policy",
    "Prompts": "prompts",
    "Game": "game",
    "Schedule": "schedule",
    "Judge": "judge",
    "PairMaker": "pairs",
    "Shaping": "shaping",
    "PreferenceLoss": "loss",
    "Learner": "learner",
    "Turns": "turns",
    "Solver": "solver",
    "Ratings": "league_ratings",
    "Evaluation": "evaluate",
    "Measure": "measures",
    "Executor": "executor",
}
"""Base class -> where a recipe names one of its kinds."""


def families() -> dict[str, type[Component]]:
    """Every base class with kinds of its own, by its name."""
    root = Path(equipoise.__file__).parent
    for path in root.rglob("*.py"):
        if "KINDS: ClassVar" in path.read_text():
            import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))
    bases = [base for base in descendants(Component) if "KINDS" in base.__dict__]
    return {base.__name__: base for base in bases}


def descendants(base: type) -> Iterator[type]:
    for child in base.__subclasses__():
        yield child
        yield from descendants(child)


FAMILIES = families()
