"""Names say what they hold; files have names of their own; docstrings open as a colleague would;
lines and functions are short.
"""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "equipoise"
EMPTY = {"found", "said", "told", "word", "words", "heard", "asked", "one", "who"}
MOST_EMPTY = 50
WIDEST = 100
LONGEST_FUNCTION = 60
OFTEN = {"__init__", "__main__", "base", "plugin", "judge", "game", "measures"}
CLAUSE = re.compile(r"(What|Who|Whom|Whose|How|Whether|That|Those|Where|Which)\b")
MOST_CLAUSES = 30


@cache
def sources() -> list[tuple[str, str]]:
    return [
        (str(path.relative_to(PACKAGE)), path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))
    ]


@cache
def trees() -> list[tuple[str, ast.Module]]:
    return [(name, ast.parse(text)) for name, text in sources()]


def bound(node: ast.AST) -> str | None:
    """The name that a node binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else None


@pytest.mark.long
def test_few_names_are_empty():
    counts = Counter(
        name for name, tree in trees() for node in ast.walk(tree) if bound(node) in EMPTY
    )
    assert counts.total() <= MOST_EMPTY, counts.most_common(5)


def test_no_file_name_stands_twice():
    stems = Counter(Path(name).stem for name, _ in sources())
    assert not {stem for stem, count in stems.items() if count > 1} - OFTEN


@pytest.mark.long
def test_docstrings_open_with_a_verb_or_a_thing():
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    clauses = [
        f"{name}:{getattr(node, 'name', '')}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, kinds) and CLAUSE.match(ast.get_docstring(node) or "")
    ]
    assert len(clauses) <= MOST_CLAUSES, clauses


def test_lines_are_short():
    wide = {
        f"{name}:{number}"
        for name, text in sources()
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > WIDEST
    }
    total = sum(len(text.splitlines()) for _, text in sources())
    assert len(wide) <= 0.01 * total, sorted(wide)


@pytest.mark.long
def test_functions_are_short():
    """Signature and docstring, which say what options there are, do not count."""
    long = {
        f"{name}:{node.name}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and lines_of_code(node) > LONGEST_FUNCTION
    }
    assert not long


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From the first statement after the docstring to the end."""
    has_docstring = ast.get_docstring(function) is not None
    code = function.body[1:] if has_docstring else function.body
    if not code:
        return 0
    return (function.end_lineno or function.lineno) - code[0].lineno
