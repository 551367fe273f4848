"""The packaged recipes, listed without importing anything else, for completion in shells."""

import re
from importlib import resources
from importlib.resources.abc import Traversable


def recipe_folder() -> Traversable:
    """The folder of the files; no package of its own, for `equipoise.recipes` is a function."""
    return resources.files("equipoise") / "recipes"


def recipe_descriptions() -> dict[str, str]:
    """Packaged recipes: name -> the first comment line of the file."""
    return {name: text.partition("\n")[0].lstrip("# ") for name, text in _texts().items()}


def variants() -> dict[str, list[str]]:
    """Recipes -> the names of their variants: all that extend them without `listed: true`."""
    parents: dict[str, str] = {}
    texts = _texts()
    for name, text in texts.items():
        extended = re.search(r"^extends: (\S+)", text, re.MULTILINE)
        if extended and "\nlisted: true" not in text:
            parents[name] = extended[1]
    groups: dict[str, list[str]] = {name: [] for name in texts if name not in parents}
    for name in parents:
        parent = parents[name]
        while parent in parents:
            parent = parents[parent]
        groups[parent].append(name)
    return groups


def _texts() -> dict[str, str]:
    """name -> the file's text, in the order of the names."""
    files = [file for file in recipe_folder().iterdir() if file.name.endswith(".yaml")]
    texts = {file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8") for file in files}
    return dict(sorted(texts.items()))
