"""The recipes that come with the package: one YAML file each, listed without loading anything else,
so that a shell completes their names at once.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable


def recipe_folder() -> Traversable:
    """Where the files are; no package of its own, for `equipoise.recipes` is a function."""
    return resources.files("equipoise") / "recipes"


def packaged() -> dict[str, str]:
    """Packaged recipes: name -> the first comment line of the file."""
    texts = {
        file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8")
        for file in recipe_folder().iterdir()
        if file.name.endswith(".yaml")
    }
    return {name: texts[name].partition("\n")[0].lstrip("# ") for name in sorted(texts)}
