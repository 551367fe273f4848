"""The oracles: what lies beside them is what they compute, and they compute it alone."""

import ast
import json
from math import isclose

import pytest
from oracles.write import FOLDER, NAMES, text


def alike(one, other) -> bool:
    """Whether two JSON values differ in the last digits of their numbers at most."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float):
        return isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_the_oracles(name):
    written = json.loads((FOLDER / f"{name}.json").read_text())
    assert alike(json.loads(text(name)), written), "python -m oracles.write"


@pytest.mark.parametrize("name", NAMES)
def test_an_oracle_does_not_ask_the_package(name):
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    modules = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules
    assert not any("equipoise" in str(module) for module in modules)
