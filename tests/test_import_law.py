"""Imports run downwards only. The order of the rooms is the order in which records flow."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "equipoise"
FOUNDATION = {"types", "answer", "errors", "seeds", "component", "question_template", "system"}
ORDER = [
    "prompts",
    "models",
    "sampling",
    "players",
    "games",
    "matches",
    "judges",
    "payoffs",
    "ratings",
    "solvers",
    "data",
    "losses",
    "learners",
    "blocks",
    "ledger",
    "evaluation",
    "runs",
    "planning",
    "people",
    "report",
    "api",
    "serve",
    "environments",
    "trl",
    "cli",
]
NUMBERS = {"payoffs", "ratings", "solvers", "losses"}  # pure: known to all


def files() -> list[Path]:
    names = ("__init__.py", "__main__.py")
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name not in names)


def module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Dotted names below `equipoise` that the file imports, at whatever depth."""
    targets = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("equipoise"):
            parent = str(node.module).removeprefix("equipoise").lstrip(".")
            targets |= {_target(parent, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            targets |= {
                alias.name.removeprefix("equipoise.")
                for alias in node.names
                if alias.name.startswith("equipoise.")
            }
    return frozenset(targets - {""})


def _target(parent: str, name: str) -> str:
    """The module that `from parent import name` reads: `parent.name` where it is one."""
    inner = PACKAGE.joinpath(*parent.split("."), name) if parent else PACKAGE / name
    is_module = inner.with_suffix(".py").exists() or inner.is_dir()
    return f"{parent}.{name}".lstrip(".") if is_module else parent


def allowed(source: str, target: str) -> bool:
    room, other = source.split(".")[0], target.split(".")[0]
    if other in FOUNDATION or room == other:
        return True
    if room not in ORDER or other not in ORDER:
        return False
    if room in NUMBERS:
        return other in NUMBERS
    return other in NUMBERS or ORDER.index(other) < ORDER.index(room)


@pytest.mark.long
def test_a_room_imports_only_earlier_rooms():
    wrong = {
        module(path): upward
        for path in files()
        if (upward := sorted(t for t in imports(path) if not allowed(module(path), t)))
        and module(path).split(".")[0] not in FOUNDATION
    }
    assert not wrong


def test_the_foundation_stands_on_itself():
    for path in files():
        if module(path).split(".")[0] in FOUNDATION:
            assert {target.split(".")[0] for target in imports(path)} <= FOUNDATION
    assert not imports(PACKAGE / "types.py") | imports(PACKAGE / "errors.py")


def test_no_room_outside_names_an_environment():
    folders = [path.name for path in (PACKAGE / "environments").iterdir() if path.is_dir()]
    names = re.compile(rf"\b({'|'.join(folders)})\b|environments\.")
    outside = [path for path in files() if not module(path).startswith("environments")]
    naming = {module(path) for path in outside for target in imports(path) if names.search(target)}
    assert not naming


def circles() -> list[tuple[str, ...]]:
    """Groups of modules that import each other when they are loaded."""
    graph = {module(path): top_level(path) for path in files()}
    order, low, stack, groups = {}, {}, [], []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph.get(name, ()):
            if other not in order and other in graph:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            group = tuple(stack[stack.index(name) :])
            del stack[stack.index(name) :]
            groups.append(group)

    for name in graph:
        if name not in order:
            visit(name)
    return [group for group in groups if len(group) > 1]


def top_level(path: Path) -> frozenset[str]:
    """What a file imports anywhere, under TYPE_CHECKING and within functions too."""
    return imports(path) - {module(path)}


def test_there_are_no_import_circles():
    assert not circles()


def test_the_loop_knows_only_the_open_run_and_its_stages():
    stages = {"make_examples", "judge_matches", "measure_players", "play_matches", "rate_players"}
    known = {f"runs.{stage}" for stage in (*stages, "train_learners", "open_run")}
    assert imports(PACKAGE / "runs" / "loop.py") == known


LIGHT = ("equipoise", "equipoise.cli", "equipoise.runs.config", "equipoise.runs.loop")
HEAVY = ("torch", "transformers", "datasets", "scipy.stats")


@pytest.mark.long
def test_importing_loads_nothing_heavy():
    code = (
        "import importlib, sys\n"
        f"for name in {LIGHT}:\n"
        "    importlib.import_module(name)\n"
        f"    heavy = [one for one in {HEAVY} if one in sys.modules]\n"
        "    if heavy:\n"
        "        sys.exit(f'{name} loads {heavy}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
