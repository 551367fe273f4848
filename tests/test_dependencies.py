"""What the tests import is declared: a clone with the extras installed can run them."""

import ast
import re
import sys
import tomllib
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

TESTS = Path(__file__).parent
PROJECT = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"].values()
OWN = {"equipoise", "benchmarks", "examples", "equipoise_neighbours"}
# Large, or run by hand: tests that need them are skipped where they are absent.
SKIPPED = {"wandb", "mlflow", "alpaca_eval", "verifiers", "inspect_ai", "textarena"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    lines = [*PROJECT["dependencies"], *(line for extra in EXTRAS for line in extra)]
    return {canonical(re.split(r"[\[<>=!~; ]", line)[0]) for line in lines}


def imported(path: Path) -> set[str]:
    """The first parts of the modules that a file imports, at whatever depth."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("orskip"):
            given = [arg for arg in node.args if isinstance(arg, ast.Constant)]
            names |= {str(arg.value).split(".")[0] for arg in given}
    return names


@pytest.mark.long
def test_what_the_tests_import_is_declared():
    files = sorted(TESTS.rglob("*.py"))
    near = [*files, *(TESTS.parent / "examples").rglob("*.py")]
    own = OWN | {path.stem for path in near} | {path.parent.name for path in near}
    known = own | SKIPPED | set(sys.stdlib_module_names)
    packages = packages_distributions()
    missing = {
        f"{path.relative_to(TESTS)}: {name}"
        for path in files
        for name in imported(path) - known
        if not {canonical(p) for p in packages.get(name, [name])} & declared()
    }
    assert not missing, sorted(missing)


def test_every_pin_admits_the_oldest_python_that_is_promised():
    """One pin that does not sends pip on a search without end, on that Python only."""
    pins = TESTS.parent / "constraints.txt"
    pinned = {canonical(line.split("==")[0]) for line in pins.open() if "==" in line}
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    needs = {
        f"{package.name} {package.version}: {wanted}"
        for package in distributions()
        if (wanted := package.metadata["Requires-Python"])
        if canonical(package.name) in pinned and oldest not in SpecifierSet(wanted)
    }
    assert not needs, sorted(needs)
