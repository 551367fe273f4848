"""Imports run to the left only. The order of the rooms is the order in which records flow."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "equipoise"
FOUNDATION = {"types", "errors", "seeds", "component", "template"}
ORDER = [
    "prompts", "players", "games", "matches", "judges", "payoffs", "ratings", "solvers",
    "data", "losses", "learners", "evaluate", "report",
]  # fmt: skip
NUMBERS = {"payoffs", "ratings", "solvers", "losses"}
# What a room may take from another beyond its base.py: (room, what) -> why.
DOORS = {
    ("learners", "players"): "a learner trains what a player loads, and reads text as the player does",
    ("prompts", "worlds.clerk"): "the built-in world is a source of prompts",
    ("prompts", "worlds.siege"): "and so is its siege",
    ("prompts", "worlds.desk"): "and what a simulated user wants of it",
    ("judges", "players"): "a judge that is a model is loaded, and reads chats, as a player's model does",
    ("matches.roles", "games.red_team"): "who plays the roles, and whose text is asked, is one question",
    ("judges.red_team", "games.red_team"): "the judge of this game knows who answered whom",
    ("judges.embedding", "payoffs.hashing"): "what is on topic and what is diverse is measured by the same vectors",
    ("judges", "worlds.clerk"): "the built-in world knows its best answers",
    ("judges.desk", "worlds.desk"): "and, as an assistant's game, what was asked",
    ("judges.assistance", "payoffs.welfare"): "what two utilities come to is a setting of the judge that pays them",
    ("judges.ambiguity", "games.four_blocks"): "whether a response asks or answers is read in one place",
    ("judges.writing", "payoffs.bleu"): "a user is paid the nearness of a text to the ideal one",
    ("judges.frontier", "games.four_blocks"): "the judge of choices reads what the assistant wrote",
    ("judges.frontier", "payoffs.pareto"): "and holds its choice against the frontier",
    ("data", "ledger"): "log-probabilities are kept in the ledger, and the ledger is exported",
    ("learners.estimation", "data.advantages"): "advantages are made where values and log-probabilities are known",
    ("data.shaping", "judges.embedding"): "texts are compared by their embeddings, as topics are judged",
    ("evaluate.red_team", "games.red_team"): "which prompts are there to be attacked with is the game's to say",
    ("evaluate.red_team", "judges.embedding"): "attacks are compared as they were when they were rewarded",
    ("judges.assistance", "games"): "the judge of this game takes its outputs apart and pays by its rules",
    ("evaluate.assistance", "games"): "so does its measure, which says besides what was done and written",
    ("evaluate.written_game", "games.four_blocks"): "a written matrix is solved by the names of its cells",
    ("report", "evaluate.statistics"): "a report shows intervals",
    ("report.collect", "run"): "one file reads the run for the report",
    ("report.collect", "arena"): "and tells played matches from recorded answers that were set side by side",
    ("report.collect", "games.assistance"): "and knows by its game what there is to show",
    ("report.assisted", "evaluate.written_game"): "and tells solutions of the whole game from those of what is left",
    ("report.assisted", "games"): "the report shows the four blocks one by one, as the game takes them apart",
    ("report.collect", "evaluate.judges"): "a report says how well its judges judge",
    ("worlds", "learners.sft"): "the built-in model is made by supervised training",
    ("worlds", "players"): "the built-in model is measured by sampling from it",
    ("worlds", "prompts"): "a corpus is read as prompts are",
    ("worlds", "games.four_blocks"): "the built-in world writes what the assistant's game reads",
    ("worlds", "judges"): "the built-in model is measured by the world's judge",
}


def files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))


def name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def imports(path: Path) -> set[str]:
    """Dotted names below `equipoise` that the file imports, at whatever depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "equipoise":
            module = node.module.removeprefix("equipoise").lstrip(".")
            for alias in node.names:
                inner = PACKAGE.joinpath(*module.split("."), alias.name) if module else PACKAGE / alias.name
                is_module = inner.with_suffix(".py").exists() or inner.is_dir()
                found.add(f"{module}.{alias.name}".lstrip(".") if is_module else module)
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("equipoise.") for a in node.names if a.name.startswith("equipoise.")}
    return found - {""}


def allowed(source: str, target: str) -> bool:
    room, other = source.split(".")[0], target.split(".")[0]
    if target in FOUNDATION or room == other:
        return True
    if any(
        (source == s or source.startswith(f"{s}.")) and (target == t or target.startswith(f"{t}.")) for s, t in DOORS
    ):
        return True
    if room not in ORDER or other not in ORDER or ORDER.index(other) >= ORDER.index(room):
        return False
    return target == f"{other}.base" or other in NUMBERS


@pytest.mark.parametrize("path", [p for p in files() if name(p).split(".")[0] in {*ORDER, "worlds"}], ids=name)
def test_a_room_imports_only_what_lies_to_its_left(path: Path):
    wrong = sorted(target for target in imports(path) if not allowed(name(path), target))
    assert not wrong, f"{name(path)} imports {wrong}"


@pytest.mark.parametrize("path", [p for p in files() if name(p) in FOUNDATION], ids=name)
def test_the_foundation_stands_on_itself(path: Path):
    assert imports(path) <= FOUNDATION


def test_types_and_errors_import_nothing_of_ours():
    assert not imports(PACKAGE / "types.py")
    assert not imports(PACKAGE / "errors.py")


def test_the_loop_knows_only_records():
    assert imports(PACKAGE / "loop.py") <= {"types", "ledger"}


@pytest.mark.parametrize("path", [p for p in files() if not name(p).startswith("cli")], ids=name)
def test_nothing_imports_recipes_or_the_command(path: Path):
    assert not {t for t in imports(path) if t.split(".")[0] in ("cli", "recipes")}


@pytest.mark.parametrize("path", [p for p in files() if name(p).split(".")[0] not in ("cli", "serve")], ids=name)
def test_only_the_command_imports_the_server(path: Path):
    assert not {t for t in imports(path) if t.split(".")[0] == "serve"}


@pytest.mark.parametrize("module", ["equipoise", "equipoise.cli", "equipoise.config", "equipoise.stages"])
def test_importing_loads_no_torch(module: str):
    code = f"import sys, {module}; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'datasets')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
