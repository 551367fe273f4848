"""The pages that map papers and rooms to code name files and functions that are there."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "equipoise"
PLACE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|txt|yaml))(?::([\w.]+))?")


@functools.cache
def names(path: Path) -> set[str]:
    """Names that a file defines: functions, classes with their members, constants."""
    defined = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
    return defined


@pytest.mark.parametrize("page", ["papers.md", "map.md", "trust.md"])
def test_the_places_that_a_page_names_are_there(page: str):
    wrong = []
    for file, name in PLACE.findall((ROOT / "docs" / page).read_text()):
        if file == "config.yaml":
            continue  # a run's
        homes = [home / file for home in (PACKAGE, ROOT) if (home / file).is_file()]
        parts = name.split(".") if name else []
        if not homes or (parts and not set(parts) <= names(homes[0])):
            wrong.append(f"{file}:{name}")
    assert not wrong


def test_every_promise_names_a_test_that_is_there():
    text = (ROOT / "docs" / "trust.md").read_text().split("## What may differ")[0]
    promises = [row for row in text.splitlines() if row.startswith("| ") and row.count("|") == 3]
    tables = text.split("| promised | tests |")[1:]
    kept = [row for part in tables for row in part.split("\n\n")[0].splitlines()[2:]]
    assert len(kept) > 30 and set(kept) <= set(promises)
    unnamed = [row for row in kept if not re.search(r"`(tests/|soak )|the same", row)]
    parts = re.findall(r"`soak ([a-z]+)`", text)
    missing = [part for part in parts if not (ROOT / "tests" / "soak" / f"{part}.py").is_file()]
    assert not unnamed and not missing


@pytest.mark.parametrize("method", ["MNPO", "SPARTA", "GPO", "GTAlign"])
def test_what_is_the_same_as_published_names_the_test_that_shows_it(method: str):
    [section] = [
        part
        for part in (ROOT / "docs" / "papers.md").read_text().split("\n## ")
        if part.startswith(f"{method},")
    ]
    cells = [line.split(" | ")[-1] for line in section.splitlines() if line.startswith("| ")]
    same = [cell for cell in cells if re.match(r"same(?!, or)", cell)]
    assert len(same) > 7
    assert not [cell for cell in same if not re.search(r"`tests/[a-z_/]+\.py:test_\w+`", cell)]
