"""Planted bugs, drawn by a seed: which of them do the tests notice?

    python tools/mutants.py --seed 1 [--per-module 2] [--room runs] [--jobs 2] [--no-long]

Operators on the syntax tree (a comparison turned, arguments exchanged, a statement or a seed
dropped, …) draw bugs in every module of 20 lines or more; another seed draws others. Each is
planted in a copy of the checkout, where the tests that run through its line are run, the quick ones
first, then the long ones, until one fails. Which test runs through which line is measured once for
the state of the checkout (`--coverage` measures it anew).

The raw results, one row a bug, go to `benchmarks/results/mutants_SEED.json`: a run that was stopped
goes on from there, and what it tried is a fair sample. `--page` makes `tests/drawn_bugs.md` of
them. A bug that lives and changes nothing that is promised is argued for in
`tests/equivalent_mutants.yaml`, by its digest.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime
import gc
import hashlib
import importlib
import json
import os
import platform
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "equipoise"
STATE = ROOT / ".venv" / "mutants"
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.yaml"
PAGE = ROOT / "tests" / "drawn_bugs.md"
PLANTED = ROOT / "tests" / "planted_bugs.yaml"
LEAST_LINES = 20
FAST = "not long and not slow and not gpu and not live"
LONG = "long and not slow and not gpu and not live"
# What may be imported before the fork: modules of others that start no thread.
PRELOADED = {
    *("numpy", "scipy", "pandas", "evalica", "openskill", "pyarrow", "nltk", "msgspec"),
    *("pydantic", "pydantic_core", "jinja2", "rich", "typer", "plotly", "yaml"),
    *("torch", "transformers", "tokenizers", "safetensors", "peft", "accelerate"),
    *("datasets", "huggingface_hub", "openai", "httpx", "starlette", "uvicorn"),
    *("hypothesis", "_pytest", "pytest", "sympy", "math_verify", "trl", "gguf"),
    *("nashpy", "krippendorff", "sklearn"),
}

# -- drawing


@dataclass(frozen=True)
class Mutation:
    """One bug: in `file` (below the package), at `line`, the text from `start` to `end` (offsets in
    bytes) becomes `new`.
    """

    file: str
    operator: str
    line: int
    start: int
    end: int
    old: str
    new: str
    around: str = ""

    @property
    def digest(self) -> str:
        """Stays while the change, its line and the lines beside it do."""
        parts = (self.file, self.operator, self.old, self.new, self.around)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    @property
    def room(self) -> str:
        """The folder of the package, `foundation` for loose files."""
        return room_of(self.file)

    def row(self) -> dict[str, Any]:
        """The bug as it stands in the raw results."""
        places = ("file", "line", "operator", "old", "new", "room", "digest")
        return {name: getattr(self, name) for name in places}

    def planted(self, source: bytes) -> bytes:
        """The source with the bug."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def room_of(file: str) -> str:
    """The folder of the package that a file lies in, `foundation` for loose files."""
    return file.partition("/")[0] if "/" in file else "foundation"


TURNED: dict[type, str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
ARITHMETIC: dict[type, str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Pow: "*",
}
AXES = ("axis", "dim", "keepdims")
TYPES = {  # a subscript of these is a type
    *("dict", "list", "set", "tuple", "type", "Annotated", "Callable", "ClassVar", "Generator"),
    *("Iterable", "Iterator", "Literal", "Mapping", "Sequence"),
}
NOT_CODE = ("description", "title", "help", "examples", "metavar")  # keywords that hold prose
# `strict` of a zip asserts what the lines before it made so: without it nothing else happens.
ASSERTING = ("strict",)
SEEDED = ("seeds.child", "seeds.generator", "child", "generator")  # of a seed and what it is for
GENERATION = ("t", "g", "generation")  # names of a generation's number
COUNTING = ("range", "enumerate")  # what a loop counts by
LISTED = "EQUIPOISE_MUTANTS_TESTS"  # in the environment: where the tests are listed
DECLARED = "tests/test_declared.py"  # reads all declarations: runs for each line run by imports


class Operators(ast.NodeVisitor):
    """Collects the mutations of one file."""

    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.bytes = source.encode()
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line.encode()))
        self.lines = ["", *source.splitlines(), ""]
        self.found: list[Mutation] = []
        self.parameters: list[dict[str, list[str]]] = []  # annotation -> names, by function
        self.counters: list[set[str]] = [set()]  # names that loops count with, by function

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.bytes[start:end].decode()

    def span(self, node: Any) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def add(self, operator: str, node: Any, new: str) -> None:
        start, end = self.span(node)
        self.change(operator, node.lineno, start, end, new)

    def change(self, operator: str, line: int, start: int, end: int, new: str) -> None:
        old = self.bytes[start:end].decode()
        if old != new:
            around = "\n".join(self.lines[line - 1 : line + 2])
            self.found.append(Mutation(self.file, operator, line, start, end, old, new, around))

    # prose, annotations and messages are no code

    def visit_Raise(self, node: ast.Raise) -> None:
        return

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:  # frozen, slots and the like are for readers
            self.visit(statement)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self.text(node.test):
            return
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise):
            self.add("a guard left out", node.test, "False")
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        by_type: dict[str, list[str]] = defaultdict(list)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None:
                by_type[self.text(argument.annotation)].append(argument.arg)
        self.parameters.append(by_type)
        self.counters.append(counters(node))
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.parameters.pop()
        self.counters.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and (turned := TURNED.get(type(node.ops[0]))):
            left, right = self.text(node.left), self.text(node.comparators[0])
            self.add("a comparison turned", node, f"{left} {turned} {right}")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = (self.text(node.left), self.text(node.right))
        prose = any(t.lstrip("rbf")[:1] in ("'", '"', "(") for t in texts)
        if not prose and (other := ARITHMETIC.get(type(node.op))):
            self.add("arithmetic", node, f"{texts[0]} {other} {texts[1]}")
        if isinstance(node.op, ast.Mult) and "mask" in texts[1]:
            self.add("a mask dropped", node, texts[0])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = " or " if isinstance(node.op, ast.And) else " and "
        self.add("and for or", node, "(" + word.join(map(self.text, node.values)) + ")")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self.add("a sign or not dropped", node, self.text(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add("a constant", node, str(not value))
        elif isinstance(value, int):
            self.add("off by one", node, str(value + 1))
        elif isinstance(value, float) and value:
            self.add("a constant", node, repr(value * 2))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        value, index = self.text(node.value), node.slice
        if value in TYPES:
            return
        if isinstance(node.ctx, ast.Load):
            if isinstance(index, ast.Tuple) and all(isinstance(e, ast.Name) for e in index.elts):
                texts = [self.text(element) for element in index.elts]
                self.add("an index", node, f"{value}[{', '.join(['0', *texts[1:]])}]")
            elif isinstance(index, ast.Slice) and index.upper is not None:
                lower = self.text(index.lower) if index.lower else ""
                self.add("an index", node, f"{value}[{lower}:{self.text(index.upper)} + 1]")
            elif isinstance(index, ast.Name) and "mask" in index.id:
                self.add("a mask dropped", node, value)
            elif isinstance(index, ast.Name) and index.id in self.counters[-1]:
                self.add("the first for all", index, "0")
            elif is_generation(index):
                self.add("a generation before", index, f"max(0, {self.text(index)} - 1)")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self.text(node.func)
        texts = [self.text(argument) for argument in node.args]
        plain = not any(isinstance(a, ast.Starred) for a in node.args)
        if name in SEEDED:
            self._seed(node, name, texts)
        if plain and name not in ("isinstance", "issubclass", "cast"):
            self._exchange(node.args, texts)
        values = [keyword.value for keyword in node.keywords]
        for one, two in pairwise(values):
            if self._of_one_kind(one, two):
                self._exchange_two(one, two)
        for argument in (*node.args, *values):
            if name not in COUNTING and is_generation(argument):
                self.add("a generation before", argument, f"max(0, {self.text(argument)} - 1)")
        for keyword in node.keywords:
            if keyword.arg in AXES and isinstance(keyword.value, ast.Constant):
                value = keyword.value.value
                if isinstance(value, int) and not isinstance(value, bool):
                    self.add("an axis", keyword.value, str(0 if value else 1))
            elif keyword.arg == "mask" and not isinstance(keyword.value, ast.Constant):
                self.add("a mask dropped", keyword.value, "None")
        self.visit(node.func)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            asserts = name == "zip" and keyword.arg in ASSERTING
            if keyword.arg not in NOT_CODE and not asserts:
                self.visit(keyword.value)

    def _seed(self, node: ast.Call, name: str, texts: Sequence[str]) -> None:
        """A seed for fewer things than it should be for, or the seed that it is made of."""
        if len(texts) > 2:
            self.add("a seed's part dropped", node, f"{name}({', '.join(texts[:-1])})")
        if name.endswith("child") and texts:
            self.add("a seed reused", node, texts[0])

    def _exchange(self, arguments: Sequence[ast.expr], texts: Sequence[str]) -> None:
        for i, (one, two) in enumerate(pairwise(arguments)):
            if self._of_one_kind(one, two):
                start, end = self.span(one)[0], self.span(two)[1]
                new = f"{texts[i + 1]}, {texts[i]}"
                self.change("arguments exchanged", one.lineno, start, end, new)

    def _exchange_two(self, one: ast.expr, two: ast.expr) -> None:
        """Exchange the values of two keywords; what stands between them stays."""
        start, end = self.span(one)[0], self.span(two)[1]
        between = self.bytes[self.span(one)[1] : self.span(two)[0]].decode()
        new = f"{self.text(two)}{between}{self.text(one)}"
        self.change("arguments exchanged", one.lineno, start, end, new)

    def _of_one_kind(self, one: ast.expr, two: ast.expr) -> bool:
        """True for two names, for results of one function, and for parts of one value."""
        if isinstance(one, ast.Call) and isinstance(two, ast.Call):
            return self.text(one.func) == self.text(two.func)
        if isinstance(one, ast.Subscript) and isinstance(two, ast.Subscript):
            return self.text(one.value) == self.text(two.value)
        names = ast.Name | ast.Attribute
        return isinstance(one, names) and isinstance(two, names)

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> None:
        first, *others = node.generators
        if not others and not first.ifs and not first.is_async:
            every = self.text(first.iter)
            new = f"(lambda every: every[:1] * len(every))([*({every})])"
            self.add("the first for all", first.iter, new)
        self.generic_visit(node)

    visit_GeneratorExp = visit_ListComp

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and self.parameters:
            for annotation, names in self.parameters[-1].items():
                if node.id in names and len(names) > 1 and annotation != "Any":
                    other = names[(names.index(node.id) + 1) % len(names)]
                    self.add("names exchanged", node, other)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call):
            self.add("a statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add("a statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.add("a statement dropped", node, "pass")


def counters(function: ast.AST) -> set[str]:
    """The names that loops of a function count with, by `range` or `enumerate`."""
    names: set[str] = set()
    for node in ast.walk(function):
        if not isinstance(node, ast.For | ast.comprehension) or not isinstance(node.iter, ast.Call):
            continue
        called = node.iter.func
        if isinstance(called, ast.Name) and called.id in COUNTING:
            target = node.target
            number = target.elts[0] if isinstance(target, ast.Tuple) else target
            if isinstance(number, ast.Name):
                names.add(number.id)
    return names


def is_generation(node: ast.expr) -> bool:
    """True for the number of a generation: `t`, `player.generation`."""
    if isinstance(node, ast.Attribute):
        return node.attr == "generation"
    return isinstance(node, ast.Name) and node.id in GENERATION


def candidates(path: Path) -> list[Mutation]:
    """Every mutation that the operators find in a file, that compiles."""
    source = path.read_text()
    operators = Operators(str(path.relative_to(PACKAGE)), source)
    operators.visit(ast.parse(source))
    return operators.found


def draw(seed: int, per_module: int, rooms: Sequence[str] = ()) -> list[Mutation]:
    """Draw `per_module` mutations of each module of 20 lines or more: an operator, then a place."""
    drawn = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        file = str(path.relative_to(PACKAGE))
        if source.count(b"\n") < LEAST_LINES or (rooms and room_of(file) not in rooms):
            continue
        rng = random.Random(f"{seed} {file}")
        by_operator: dict[str, list[Mutation]] = defaultdict(list)
        for mutation in candidates(path):
            by_operator[mutation.operator].append(mutation)
        lines: set[int] = set()
        while len(lines) < per_module and by_operator:
            operator = rng.choice(sorted(by_operator))
            mutation = by_operator[operator].pop(rng.randrange(len(by_operator[operator])))
            if not by_operator[operator]:
                del by_operator[operator]
            if mutation.line not in lines and _compiles(mutation, source):
                lines.add(mutation.line)
                drawn.append(mutation)
    return drawn


def _compiles(mutation: Mutation, source: bytes) -> bool:
    try:
        compile(mutation.planted(source), mutation.file, "exec")
    except SyntaxError:
        return False
    return True


# -- which tests run through a line


def measure_coverage(folder: Path) -> None:
    """Run the fast and the long tests once, noting for each test the lines that it ran."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "coveragerc"
    config.write_text(
        f"[run]\nsource = {PACKAGE}\ndata_file = {folder / 'coverage'}\ncore = ctrace\n"
    )
    cores = str(len(os.sched_getaffinity(0)))
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:randomly", "-q"]
    command += ["-n", cores, "--dist", "worksteal"]
    command += ["-m", "not slow and not gpu and not live", "--durations=0", "--durations-min=0"]
    command += ["--cov", f"--cov-config={config}", "--cov-context=test", "--cov-report="]
    command += ["-p", "mutants"]  # this file, for the hook below
    here = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")])}
    here[LISTED] = str(folder / "tests.json")
    with (folder / "durations.txt").open("w") as output:
        subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | here,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )


def pytest_collection_finish(session: Any) -> None:
    """As a plugin of pytest: which tests are long, and which of our fixtures of the session each
    test uses.
    """
    used = {
        item.nodeid: [
            name
            for name, found in item._fixtureinfo.name2fixturedefs.items()
            if found[-1].scope == "session" and found[-1].func.__module__.startswith("fixtures.")
        ]
        for item in session.items
    }
    listed = {
        "long": [item.nodeid for item in session.items if item.get_closest_marker("long")],
        "fixtures": {test: fixtures for test, fixtures in used.items() if fixtures},
    }
    Path(os.environ[LISTED]).write_text(json.dumps(listed))


class Coverage:
    """Tests by the lines that they run."""

    def __init__(self, folder: Path) -> None:
        self._lines: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._by_file: dict[str, set[str]] = defaultdict(set)
        with contextlib.closing(sqlite3.connect(folder / "coverage")) as db:
            rows = db.execute(
                "SELECT path, context, numbits FROM line_bits "
                "JOIN file ON file.id = file_id JOIN context ON context.id = context_id"
            )
            for path, context, bits in rows:
                if context:
                    file = str(Path(path).relative_to(PACKAGE))
                    self._by_file[file].add(context.partition("|")[0])
                    for line in _numbers(bits):
                        self._lines[file, line].add(context)
        self._seconds = _durations((folder / "durations.txt").read_text())
        listed = json.loads((folder / "tests.json").read_text())
        self._fixtures: dict[str, list[str]] = listed["fixtures"]
        self.long = frozenset(listed["long"])
        self._users: dict[str, set[str]] = defaultdict(set)
        for test, fixtures in self._fixtures.items():
            for fixture in fixtures:
                self._users[fixture].add(test)

    def tests(self, mutation: Mutation) -> list[str]:
        """Test ids, the quickest first: those that run the line, and where it is run by a fixture
        that several share, all tests of that file and all that use the session's same fixtures.
        Where a line is run by imports, those that run any line of its module, after the record of
        what is declared. Where none runs it, others may in processes of their own: those that run
        any line of the module, and the files of tests that name it.
        """
        chosen: set[str] = set()
        last = mutation.line + mutation.old.count("\n")
        for line in range(mutation.line, last + 1):
            for context in self._lines.get((mutation.file, line), ()):
                test, _, phase = context.partition("|")
                chosen.add(test)
                if phase == "setup":
                    file = test.partition("::")[0]
                    chosen |= {t for t in self._seconds if t.startswith(f"{file}::")}
                    for fixture in self._fixtures.get(test, ()):
                        chosen |= self._users[fixture]
        if _is_at_import(mutation.file, mutation.line):
            chosen |= self._by_file[mutation.file]  # which of them imported it first is chance
            chosen |= {t for t in self._seconds if t.startswith(f"{DECLARED}::")}
        if not chosen:
            chosen = self._by_file[mutation.file] | self._naming(mutation.file)
        known = chosen & self._seconds.keys()
        return sorted(known, key=lambda t: (not t.startswith(DECLARED), self._seconds[t]))

    def _naming(self, file: str) -> set[str]:
        """Tests of the files that name a module of the package."""
        name = Path(file).with_suffix("").as_posix().replace("/", ".").removesuffix(".__main__")
        dotted = f"equipoise.{name}" if name != "__main__" else '"-m", "equipoise"'
        files = {test.partition("::")[0] for test in self._seconds}
        naming = {each for each in files if dotted in (ROOT / each).read_text()}
        return {test for test in self._seconds if test.partition("::")[0] in naming}

    def seconds(self, test: str) -> float:
        return self._seconds.get(test, 1.0)


def _is_at_import(file: str, line: int) -> bool:
    """True if the line is in no function's body."""
    return not any(
        node.body[0].lineno <= line <= (node.end_lineno or 0)
        for node in ast.walk(ast.parse((PACKAGE / file).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _numbers(bits: bytes) -> Iterator[int]:
    for i, byte in enumerate(bits):
        for bit in range(8):
            if byte & (1 << bit):
                yield i * 8 + bit


def _durations(text: str) -> dict[str, float]:
    """Test -> its seconds, of the tests that passed, from pytest's own list."""
    seconds: dict[str, float] = defaultdict(float)
    failed = {line.split()[1] for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))}
    for line in text.splitlines():
        parts = line.split(maxsplit=2)
        if len(parts) == 3 and parts[0].endswith("s") and parts[1] in ("call", "setup"):
            with contextlib.suppress(ValueError):
                seconds[parts[2]] += float(parts[0][:-1])
    return {test: value for test, value in seconds.items() if test not in failed}


# -- trying


@dataclass
class Outcome:
    """`killed` (by which test, and whether by none but the long ones), `alive`, or `uncovered`,
    where no test runs it.
    """

    verdict: str
    by: str = ""
    seconds: float = 0.0
    long: bool = False


@dataclass
class Trial:
    """A fork that runs tests in a copy of the checkout."""

    pid: int
    report: Path
    started: float
    limit: float

    def poll(self) -> dict[str, Any] | None:
        """Its report, once it has ended; it is ended when its time is over."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        late = time.monotonic() - self.started > self.limit
        if not pid and not late:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # and what the tests have started
        if not pid:
            os.waitpid(self.pid, 0)
            return {"code": 1, "failed": ["the time limit"]}
        if not self.report.exists():
            return {"code": 1, "failed": [f"a crash, status {status}"]}
        return json.loads(self.report.read_text())


@dataclass(eq=False)  # pytest keeps its plugins in a set
class Watcher:
    """A plugin of pytest: keeps an order of tests, and notes which failed."""

    order: Mapping[str, int]
    failed: list[str] = field(default_factory=list)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid in self.order]
        items.sort(key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


@dataclass
class Tree:
    """A copy of the checkout, where one mutation at a time is planted."""

    folder: Path

    @classmethod
    def copied(cls, folder: Path) -> Tree:
        """All files that git knows or would add, and what is compiled of them."""
        command = ["git", "ls-files", "-coz", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        for path in (ROOT / name for name in listed.stdout.split("\0") if name):
            if path.is_file():
                target = folder / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
        return cls(folder)

    @property
    def temporary(self) -> Path:
        """Where its tests make temporary files."""
        return self.folder.with_suffix(".tmp")

    def write(self, mutation: Mutation, *, planted: bool) -> None:
        """The mutation's file, with the bug or without it; nothing compiled of the one before."""
        path = self.folder / "equipoise" / mutation.file
        source = (PACKAGE / mutation.file).read_bytes()
        path.write_bytes(mutation.planted(source) if planted else source)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def start(self, tests: Sequence[str], limit: float) -> Trial:
        """Run the tests in a fork, in this order, until one fails."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        shutil.rmtree(self.temporary, ignore_errors=True)  # a fork leaves what its tests made
        self.temporary.mkdir()
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            os.setsid()
            try:
                self._test(tests, report)
            finally:
                os._exit(0)
        return Trial(pid, report, time.monotonic(), limit)

    def _test(self, tests: Sequence[str], report: Path) -> None:
        import pytest

        with (self.folder / "output.txt").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.chdir(self.folder)
        checkout = {
            str(ROOT),
            str(ROOT / "tests"),
            str(ROOT / "tests" / "helpers"),
            str(ROOT / "tools"),
            "",
        }
        sys.path[:] = [place for place in sys.path if place not in checkout]
        sys.path.insert(0, str(self.folder))
        os.environ |= {"PYTHONPATH": str(self.folder), "TMPDIR": str(self.temporary)}
        tempfile.tempdir = None
        watcher = Watcher({test: n for n, test in enumerate(tests)})
        options = ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-x"]
        files = sorted({test.partition("::")[0] for test in tests})
        code = pytest.main([*options, "--tb=short", "--rootdir=.", *files], plugins=[watcher])
        report.with_suffix(".part").write_text(
            json.dumps({"code": int(code), "failed": watcher.failed})
        )
        report.with_suffix(".part").rename(report)


def preload() -> None:
    """Import what the tests need of others, once for all forks."""
    for name in sorted(PRELOADED):
        with contextlib.suppress(Exception):  # a fork imports it anew
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def attempt(
    mutations: Sequence[Mutation], coverage: Coverage, jobs: int, most: float
) -> Iterator[tuple[Mutation, Outcome]]:
    """Each mutation with its outcome, `jobs` at a time; at most so many seconds of tests each."""
    preload()
    with tempfile.TemporaryDirectory(prefix="mutants.") as home:
        idle = [Tree.copied(Path(home, str(job))) for job in range(jobs)]
        waiting = list(mutations)
        running: dict[int, tuple[Tree, Mutation, Trial]] = {}
        while waiting or running:
            while waiting and idle:
                mutation = waiting.pop(0)
                tests = _within(coverage, mutation, most)
                if not tests:
                    yield mutation, Outcome("uncovered")
                    continue
                tree = idle.pop()
                tree.write(mutation, planted=True)
                trial = tree.start(tests, 60 + 3 * sum(map(coverage.seconds, tests)))
                running[trial.pid] = (tree, mutation, trial)
            for pid, (tree, mutation, trial) in list(running.items()):
                facts = trial.poll()
                if facts is not None:
                    del running[pid]
                    tree.write(mutation, planted=False)
                    idle.append(tree)
                    seconds = round(time.monotonic() - trial.started, 1)
                    by = facts["failed"][0] if facts["failed"] else ""
                    verdict = "killed" if facts["code"] else "alive"
                    yield mutation, Outcome(verdict, by, seconds, by in coverage.long)
            time.sleep(0.02)


def _within(coverage: Coverage, mutation: Mutation, most: float) -> list[str]:
    """The quickest of the tests that run through the mutation, up to so many seconds in all, the
    long ones last.
    """
    tests, total = [], 0.0
    for test in coverage.tests(mutation):
        total += coverage.seconds(test)
        if tests and total > most:
            break
        tests.append(test)
    return sorted(tests, key=coverage.long.__contains__)


# -- what is said of them


VERDICTS = ("killed", "equivalent", "alive", "uncovered")
UNNOTICED = ("alive", "uncovered")


def argued(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows, with those that live and are argued for as `equivalent`, `by` the argument."""
    why: dict[str, str] = yaml.safe_load(EQUIVALENT.read_text()) or {}
    return [
        {**row, "verdict": "equivalent", "by": why[row["digest"]]}
        if row["verdict"] in UNNOTICED and row["digest"] in why
        else row
        for row in rows
    ]


def rates(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each room, and one for all: how many of each verdict, and the share noticed with
    its 95 % interval (Wilson); equivalent bugs do not count.
    """
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for room in (row["room"], "all"):
            rooms[room][row["verdict"]] += 1
    table = []
    for room in sorted(rooms, key=lambda name: (name == "all", name)):
        counts = rooms[room]
        real = counts.total() - counts["equivalent"]
        noticed = "–"
        if real:
            low, high = binomtest(counts["killed"], real).proportion_ci(method="wilson")
            noticed = f"{counts['killed'] / real:.0%} ({low:.0%} to {high:.0%})"
        table.append([room, *(str(counts[verdict]) for verdict in VERDICTS), noticed])
    return table


def here(file: str) -> str:
    """A file of the package, where it lies now: the only one of its name, if it was moved."""
    if (PACKAGE / file).is_file():
        return file
    found = [path for path in sorted(PACKAGE.rglob(Path(file).name)) if path.is_file()]
    if len(found) != 1:
        return f"{file} (no longer there)"
    return str(found[0].relative_to(PACKAGE))


def described(row: Mapping[str, Any]) -> str:
    """A mutation in one line."""
    place = f"{here(row['file'])}:{row['line']}"
    return f"{row['digest']} {place} {row['operator']}: {row['old']!r} -> {row['new']!r}"


def page(results: Mapping[str, Any]) -> str:
    """What raw results say, by room and by module, as Markdown."""
    rows, drawn = results["rows"], results["drawn"]
    by_module: dict[str, Counter[str]] = {file: Counter() for file in sorted(drawn)}
    for row in rows:
        by_module[row["file"]][row["verdict"]] += 1
    of = sum(drawn.values())
    lines = [
        "# Drawn bugs",
        "",
        f"`{results['command']}` at `{results['commit']}`, {results['date']}: {len(rows)} of {of} "
        "drawn bugs were tried, in a drawn order, against the fast and the long tests.",
        "",
        f"| room | {' | '.join(VERDICTS)} | noticed |",
        f"|{'---|' * (len(VERDICTS) + 2)}",
        *(f"| {' | '.join(cells)} |" for cells in rates(rows)),
    ]

    def told(title: str, said: Iterable[str]) -> None:
        lines.extend(["", f"## {title}", "", *(f"* {each}" for each in said)])

    told("Unnoticed", (f"`{described(row)}`" for row in rows if row["verdict"] in UNNOTICED))
    only = [row for row in rows if row["verdict"] == "killed" and row.get("long")]
    told("Noticed by long tests alone", (f"`{described(row)}`: `{row['by']}`" for row in only))
    same = [row for row in rows if row["verdict"] == "equivalent"]
    told("Equivalent", (f"`{described(row)}`: {row['by']}" for row in same))
    told("By module", (_counted(file, counts) for file, counts in by_module.items() if counts))
    told("Modules of which none was tried", map(here, (f for f, n in by_module.items() if not n)))
    lines += planted_by_hand(yaml.safe_load(PLANTED.read_text()))
    return "\n".join(lines) + "\n"


def planted_by_hand(bugs: Sequence[Mapping[str, str]]) -> list[str]:
    """The part of the page on bugs that were chosen and not drawn."""
    noticed = [bug for bug in bugs if "noticed" in bug]
    low, high = binomtest(len(noticed), len(bugs)).proportion_ci(method="wilson")
    rooms: dict[str, Counter[bool]] = defaultdict(Counter)
    for bug in bugs:
        rooms[room_of(bug["file"])]["noticed" in bug] += 1
    by_room = [f"{room} {n[True]} of {n.total()}" for room, n in sorted(rooms.items())]
    return [
        *("", "## Planted by hand", ""),
        f"{len(bugs)} bugs, planted at commit `b38470e0` (`tests/{PLANTED.name}`) by somebody who "
        "had read no test: each alone against the fast tests that name its module, then those that "
        "lived together against the fast suite without the tests of pages and tools (the seeds of "
        f"16 bits alone, against seven rooms). {len(noticed)} were noticed, "
        f"{len(noticed) / len(bugs):.0%} ({low:.0%} to {high:.0%}), where 25 were hoped for. "
        f"By room: {', '.join(by_room)}. For each of the others a fast test was added since that "
        "fails with it.",
        "",
        *(
            f"* {here(bug['file'])}: {bug['bug']}: "
            + (f"`{bug['noticed']}`" if "noticed" in bug else f"unnoticed; now `{bug['added']}`")
            for bug in bugs
        ),
    ]


def _counted(file: str, counts: Counter[str]) -> str:
    """`file: 2 killed, 1 alive`."""
    return f"{here(file)}: {', '.join(f'{counts[v]} {v}' for v in VERDICTS if counts[v])}"


def main() -> int:
    """Draw, try what is not tried yet, and print the table; 1 where bugs live."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-module", type=int, default=2)
    parser.add_argument("--room", action="append", default=[], help="may be repeated")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--most", type=float, default=90, help="seconds of tests a bug")
    parser.add_argument("--coverage", action="store_true", help="measure it anew")
    parser.add_argument("--list", action="store_true", help="print what is drawn, and try nothing")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}, and try nothing")
    options = parser.parse_args()
    results = ROOT / "benchmarks" / "results" / f"mutants_{options.seed}.json"
    if options.page:
        told = json.loads(results.read_text())
        PAGE.write_text(page({**told, "rows": argued(told["rows"])}))
        return 0
    drawn = draw(options.seed, options.per_module, options.room)
    if options.list:
        for each in drawn:
            print(described(each.row()))
        return 0
    if options.coverage or not (STATE / "coverage").is_file():
        measure_coverage(STATE)
    kept = json.loads(results.read_text()) if results.is_file() else {"rows": []}
    outcomes = {row["digest"]: row for row in kept["rows"]}
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    origin = {
        "commit": done.stdout.strip(),
        "command": " ".join(["python", "tools/mutants.py", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "machine": f"{len(os.sched_getaffinity(0))} cores of {platform.machine()}",
        "python": platform.python_version(),
        "drawn": Counter(each.file for each in drawn),
    }
    left = [each for each in drawn if each.digest not in outcomes]
    random.Random(options.seed).shuffle(left)  # so that those of a run that is stopped are a sample
    for mutation, outcome in attempt(left, Coverage(STATE), options.jobs, options.most):
        outcomes[mutation.digest] = mutation.row() | asdict(outcome)
        rows = [outcomes[each.digest] for each in drawn if each.digest in outcomes]
        results.write_text(json.dumps(origin | {"rows": rows}, indent=1) + "\n")
        place = f"{mutation.file}:{mutation.line}"
        print(f"{outcome.verdict:10} {outcome.seconds:6.1f} s  {place} {outcome.by}", flush=True)
    rows = argued([outcomes[each.digest] for each in drawn])
    print("\n".join(" ".join(f"{cell:>12}" for cell in cells) for cells in rates(rows)))
    unnoticed = [row for row in rows if row["verdict"] in UNNOTICED]
    print("\n".join(map(described, unnoticed)))
    return bool(unnoticed)


if __name__ == "__main__":
    sys.exit(main())
