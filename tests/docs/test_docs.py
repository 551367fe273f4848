"""The pages that map papers and rooms to code name files and functions that are there."""

import ast
import functools
import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from equipoise.cli import USAGE_ERROR, app

ROOT = Path(__file__).resolve().parents[2]
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
    assert len(kept) > 30
    assert set(kept) <= set(promises)
    unnamed = [row for row in kept if not re.search(r"`(tests/|soak )|the same", row)]
    parts = re.findall(r"`soak ([a-z]+)`", text)
    missing = [part for part in parts if not (ROOT / "tests" / "soak" / f"{part}.py").is_file()]
    assert not unnamed
    assert not missing


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


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
HERE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)
VARIABLES = {"$R": "mnpo_one_gpu", "$W": "-s policy.model=Qwen/Qwen3-0.6B"}
# A command may open with one of these; the command that follows is looked at.
PREFIXES = re.compile(r"^(?:[A-Z_]+=\S+ )+")


def commands(page: Path, program: str) -> list[str]:
    """The command lines of a page's blocks that call `program`, whole and without comments."""
    lines = [
        PREFIXES.sub("", line.strip())
        for block in BLOCK.findall(page.read_text())
        for line in HERE.sub("", block).replace("\\\n", " ").splitlines()
    ]
    return [line for line in lines if line.startswith(f"{program} ")]


def words(line: str) -> list[str]:
    for name, value in VARIABLES.items():
        line = line.replace(name, value)
    return shlex.split(line, comments=True)


def bind(arguments: list[str]) -> None:
    """Have the command read its arguments, as it does before it does anything."""
    verbs = typer.main.get_command(app())
    assert isinstance(verbs, TyperGroup)
    context = verbs.make_context("equipoise", list(arguments))
    name, verb, rest = verbs.resolve_command(context, arguments)
    if isinstance(verb, TyperGroup):
        name, verb, rest = verb.resolve_command(verb.make_context(str(name), list(rest)), rest)
    assert verb is not None
    with verb.make_context(name, list(rest)):  # its options of the machine end with it
        pass


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_has_its_verb_and_options(page: Path):
    for line in commands(page, "equipoise"):
        try:
            bind(words(line)[1:])
        except USAGE_ERROR as error:
            pytest.fail(f"{line}\n{error.format_message()}")


def test_a_command_that_is_none_is_found():
    for wrong in (["runn", "mnpo"], ["run", "mnpo", "--generations", "2"], ["evaluate"]):
        with pytest.raises(USAGE_ERROR):
            bind(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_target_and_module_of_a_page_is_there(page: Path):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {line.split()[1] for line in commands(page, "make")}
    modules = set(re.findall(r"python -m ((?:benchmarks|tools|tests)[.\w]*)", page.read_text()))
    gone = {name for name in modules if not importlib.util.find_spec(name)}
    assert named <= targets
    assert not gone
