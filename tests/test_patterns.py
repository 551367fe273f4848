"""Patterns of the source, as a reader of hostile texts must write them."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "equipoise"


def line_patterns() -> list[tuple[str, str]]:
    """(place, pattern) of every pattern in the source that looks at line after line."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if "MULTILINE" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and "MULTILINE" in ast.unparse(node):
                written = [ast.unparse(argument) for argument in node.args[:1]]
                found += [(f"{file.name}:{node.lineno}", text) for text in written]
    return found


def test_no_pattern_of_lines_takes_the_lines_after_it():
    """`^\\s*` runs to the end of many empty lines from each of them: time by their square."""
    patterns = line_patterns()
    assert len(patterns) > 10
    assert [place for place, text in patterns if "^\\\\s*" in text or "^\\\\s+" in text] == []
