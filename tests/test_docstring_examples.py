"""The examples in the docstrings of the number world's public functions."""

import doctest
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

import equipoise

PACKAGE = Path(equipoise.__file__).parent
MODULES = [
    f"{room}.{path.stem}"
    for room in ("payoffs", "ratings", "solvers", "losses")
    for path in sorted((PACKAGE / room).glob("[!_]*.py"))
] + ["data.advantages"]


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_has_an_example_that_holds(name):
    module = importlib.import_module(f"equipoise.{name}")
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    tests = finder.find(module, extraglobs={"np": np, "torch": torch})
    results = [runner.run(test) for test in tests]
    assert not sum(result.failed for result in results)
    functions = inspect.getmembers(module, inspect.isfunction)
    bare = [
        function
        for function, defined in functions
        if defined.__module__ == module.__name__
        and not function.startswith(("_", "check", "find_punkt"))
        and ">>>" not in (defined.__doc__ or "")
    ]
    assert bare == []
