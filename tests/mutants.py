"""Planted bugs: whether the tests notice when one line of the package is wrong.

    python tests/mutants.py [--room ROOM] [--only TEXT] [--jobs N] [--again]

`tests/mutations/ROOM.yaml` lists single mutations as data: of a file of the package, a text that
occurs there exactly once, what takes its place, and the tests that should notice. Each mutation is
written into a copy of the checkout, never into the checkout itself, and its tests run there. Where
one is argued to change nothing that is promised it has a `why`: it then counts as equivalent when
it lives.

Results lie in `benchmarks/results/mutants.json` and are kept while the mutated file, the mutation
and the tests stay as they are, so that a run which was stopped goes on. A room's tests run once
without a mutation first: what is red by itself notices nothing.

Why not mutmut or cosmic-ray? Both derive mutants from operators (`+` to `-`, 1 to 2): tens of
thousands here, of which most say nothing, and none is "the reference at another temperature" or
"the bye goes to the best player", which are the bugs that lived. cosmic-ray starts an interpreter
for each mutant, and importing torch and transformers takes longer than most of these tests. mutmut
forks, as this does, but rewrites every function to carry all of its mutants, which changes what
introspection and pydantic read.

What the modules of others cost is paid once: this process imports them, and every mutation is tried
in a fork of it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import hashlib
import importlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
MUTATIONS = ROOT / "tests" / "mutations"
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
MARKS = "not slow and not gpu and not live"
# What may be imported before the fork: modules of others that start no thread.
PRELOADED = {
    *("numpy", "scipy", "pandas", "evalica", "openskill", "pyarrow", "nltk", "msgspec"),
    *("pydantic", "pydantic_core", "jinja2", "rich", "typer", "plotly", "yaml"),
    *("torch", "transformers", "tokenizers", "safetensors", "peft", "accelerate"),
    *("datasets", "huggingface_hub", "openai", "httpx", "starlette", "uvicorn"),
    *("hypothesis", "_pytest", "pytest", "sympy", "math_verify", "trl", "gguf"),
    *("nashpy", "krippendorff", "sklearn"),
}


@dataclass(frozen=True)
class Mutation:
    """One planted bug; `tests` are node ids of pytest, from the folder `tests/`."""

    room: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str = ""  # the argument that it is equivalent, where it is

    @property
    def name(self) -> str:
        return f"{self.file}: {self.what}"

    def fault(self) -> str:
        """What keeps it from being planted; "" where nothing."""
        count = (ROOT / "equipoise" / self.file).read_text().count(self.old)
        if count != 1:
            return f"its old text occurs {count} times in {self.file}"
        return "" if self.old != self.new else "it changes nothing"

    def digest(self) -> str:
        """Changes with the mutation, its file and its tests."""
        parts = [self.file, self.old, self.new, *self.tests, self.why]
        paths = {ROOT / "equipoise" / self.file}
        paths |= {ROOT / "tests" / test.partition("::")[0] for test in self.tests}
        parts += [path.read_text() for path in sorted(paths) if path.is_file()]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass
class Outcome:
    """How the tests took it: `killed`, `alive`, `equivalent`, `red` (none of its tests passes by
    itself) or `stale` (it cannot be planted).
    """

    verdict: str
    by: str = ""
    seconds: float = 0.0
    digest: str = ""


def mutations(rooms: Sequence[str] = (), only: str = "") -> list[Mutation]:
    """All mutations, or those of these rooms whose description has this text."""
    listed = []
    for path in sorted(MUTATIONS.glob("*.yaml")):
        if rooms and path.stem not in rooms:
            continue
        rooms_files = yaml.load(path.read_text(), yaml.BaseLoader)  # texts, never numbers
        for file, entry in rooms_files.items():
            for row in entry["mutations"]:
                tests = row.pop("tests", entry.get("tests", ""))
                row = Mutation(path.stem, file=file, tests=(*tests.split(),), **row)
                listed.append(row)
    names = Counter(row.name for row in listed)
    assert len(names) == len(listed), [n for n, count in names.items() if count > 1]
    return [row for row in listed if only.casefold() in row.name.casefold()]


@dataclass
class Trial:
    """A fork that runs tests in a copy of the checkout."""

    pid: int
    report: Path
    started: float
    limit: float

    def poll(self) -> dict[str, Any] | None:
        """What it reported, once it has ended; it ends when its time is over."""
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
class Recorder:
    """A plugin of pytest: runs the quickest tests first, and notes which passed, in how many
    seconds, and which failed.
    """

    seconds: Mapping[str, float]  # as measured before
    passed: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def pytest_collection_modifyitems(self, items):
        if self.seconds:  # what is red or skipped by itself notices nothing
            items[:] = [item for item in items if item.nodeid in self.seconds]
            items.sort(key=lambda item: self.seconds[item.nodeid])

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed[report.nodeid] = report.duration

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed.append(report.nodeid)


@dataclass
class Tree:
    """A copy of the checkout, where one mutation at a time is planted."""

    folder: Path

    @classmethod
    def copied(cls, folder: Path) -> Tree:
        """All files that git knows or would add, and what is compiled of them."""
        names = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
        for path in filter(Path.is_file, (ROOT / name for name in names if name)):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
                (target.parent / "__pycache__").mkdir(exist_ok=True)
                shutil.copy2(compiled, target.parent / "__pycache__")
        return cls(folder)

    def write(self, file: str, text: str) -> None:
        """This text in place of a file's, and nothing compiled of the one before."""
        path = self.folder / "equipoise" / file
        path.write_text(text)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def plant(self, mutation: Mutation) -> None:
        text = (ROOT / "equipoise" / mutation.file).read_text()
        self.write(mutation.file, text.replace(mutation.old, mutation.new))

    def restore(self, mutation: Mutation) -> None:
        self.write(mutation.file, (ROOT / "equipoise" / mutation.file).read_text())

    def start(
        self, tests: Sequence[str], limit: float, seconds: Mapping[str, float] | None
    ) -> Trial:
        """Run the tests in a fork: all of them where it is not known yet how long each takes, else
        the quick ones first, until one fails.
        """
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            os.setsid()
            try:
                self._test(tests, seconds, report)
            finally:
                os._exit(0)
        return Trial(pid, report, time.monotonic(), limit)

    def _test(
        self, tests: Sequence[str], seconds: Mapping[str, float] | None, report: Path
    ) -> None:
        import pytest

        with (self.folder / "output.txt").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.chdir(self.folder)
        checkout = {str(ROOT), str(ROOT / "tests"), ""}
        sys.path[:] = [place for place in sys.path if place not in checkout]
        sys.path.insert(0, str(self.folder))
        os.environ["PYTHONPATH"] = str(self.folder)
        recorder = Recorder(seconds or {})
        options = ["-o", "addopts=", "-m", MARKS, "-p", "no:cacheprovider"]
        options += ["-p", "no:xdist", "-q", "--tb=short", "--rootdir=."]
        code = pytest.main(
            [*options, *["-x"][: seconds is not None], *(f"tests/{test}" for test in tests)],
            plugins=[recorder],
        )
        package = sys.modules.get("equipoise")
        assert package is None or Path(str(package.__file__)).is_relative_to(self.folder), package
        facts = {
            "code": int(code),
            "failed": recorder.failed,
            "passed": recorder.passed,
            "loaded": [n for n in sys.modules if n.partition(".")[0] in PRELOADED],
        }
        report.with_suffix(".part").write_text(json.dumps(facts))
        report.with_suffix(".part").rename(report)


def wait_for(trial: Trial) -> dict[str, Any]:
    while (facts := trial.poll()) is None:
        time.sleep(0.02)
    return facts


@dataclass
class Baseline:
    """The tests that pass without a mutation, and in how many seconds."""

    passed: dict[str, float]

    def fault(self, tests: Sequence[str]) -> str:
        """Why these tests cannot notice anything; "" where they can."""
        for test in tests:
            name = f"tests/{test}"
            prefixes = (f"{name}[", f"{name}::", f"{name}/")
            if not any(n == name or n.startswith(prefixes) for n in self.passed):
                return f"no test of {test} passes without the mutation"
        return ""


def baseline(tree: Tree, listed: Sequence[Mutation]) -> Baseline:
    """Run all tests that these mutations name, and import what they import."""
    tests = sorted({test for mutation in listed for test in mutation.tests})
    tests = [t for t in tests if (ROOT / "tests" / t.partition("::")[0]).is_file()]
    within = [t for t in tests if "::" not in t or t.partition("::")[0] not in tests]
    facts = wait_for(tree.start(within, limit=1800, seconds=None))
    if not facts.get("passed"):
        sys.exit(f"the tests do not run:\n{(tree.folder / 'output.txt').read_text()}")
    for name in facts.get("loaded", ()):
        if name not in sys.modules:
            with contextlib.suppress(Exception):  # a fork imports it anew
                importlib.import_module(name)
    gc.collect()
    gc.freeze()
    for test in facts["failed"]:
        print(f"left out, since it fails without a mutation: {test}")
    return Baseline(facts["passed"])


def outcome(mutation: Mutation, facts: dict[str, Any], seconds: float) -> Outcome:
    if facts["code"]:
        by = facts["failed"][0] if facts["failed"] else f"pytest's code {facts['code']}"
        return Outcome("killed", by, round(seconds, 1))
    return Outcome("equivalent" if mutation.why else "alive", "", round(seconds, 1))


def tried(
    listed: Sequence[Mutation], trees: Sequence[Tree], limit: float
) -> Iterator[tuple[Mutation, Outcome]]:
    """Each mutation with what came of it, side by side in so many trees."""
    before = baseline(trees[0], listed)
    waiting, idle = list(listed), list(trees)
    running: dict[int, tuple[Tree, Mutation, Trial]] = {}
    while waiting or running:
        while waiting and idle:
            mutation = waiting.pop(0)
            if fault := mutation.fault():
                yield mutation, Outcome("stale", fault)
            elif fault := before.fault(mutation.tests):
                yield mutation, Outcome("red", fault)
            else:
                tree = idle.pop()
                tree.plant(mutation)
                trial = tree.start(mutation.tests, limit, before.passed)
                running[trial.pid] = (tree, mutation, trial)
        for pid, (tree, mutation, trial) in list(running.items()):
            facts = trial.poll()
            if facts is not None:
                del running[pid]
                idle.append(tree)
                tree.restore(mutation)
                taken = time.monotonic() - trial.started
                yield mutation, outcome(mutation, facts, taken)
        time.sleep(0.02)


def by_room(listed: Sequence[Mutation], outcomes: Mapping[str, Outcome]) -> dict[str, Counter[str]]:
    """Room -> verdict -> how many."""
    rooms: dict[str, Counter[str]] = {}
    for row in listed:
        known = outcomes.get(row.name)
        counts = rooms.setdefault(row.room, Counter())
        counts[known.verdict if known else "not run"] += 1
    return rooms


def table(listed: Sequence[Mutation], outcomes: Mapping[str, Outcome]) -> str:
    """The verdicts by room, and what is not killed."""
    verdicts = ("killed", "equivalent", "alive", "red", "stale", "not run")
    rooms = by_room(listed, outcomes)
    rooms["all"] = sum(rooms.values(), Counter())
    lines = [f"{'room':14}" + "".join(f"{v:>11}" for v in verdicts) + f"{'rate':>8}"]
    for room, counts in rooms.items():
        real = counts["killed"] + counts["alive"]
        rate = f"{counts['killed'] / real:8.1%}" if real else "       –"
        lines.append(f"{room:14}" + "".join(f"{counts[v]:11}" for v in verdicts) + rate)
    for row in listed:
        known = outcomes.get(row.name)
        if known and known.verdict not in ("killed", "equivalent"):
            lines.append(f"{known.verdict}: {row.name} {known.by}".rstrip())
    return "\n".join(lines)


def provenance() -> dict[str, Any]:
    """What other raw results carry, too; this process must not import the package."""
    describe = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=True)
    return {
        "commit": done.stdout.strip(),
        "command": " ".join(["python", "tests/mutants.py", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "machine": f"{len(os.sched_getaffinity(0))} cores of {platform.machine()}",
        "python": platform.python_version(),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--room", action="append", default=[], help="may be repeated")
    parser.add_argument("--only", default="", help="those whose description has this")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=float, default=180, help="seconds a mutation")
    parser.add_argument("--again", action="store_true", help="known results count not")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    everything = mutations()
    chosen = mutations(options.room, options.only)
    outcomes: dict[str, Outcome] = {}
    if options.results.exists():
        kept = json.loads(options.results.read_text())["mutations"]
        outcomes = {name: Outcome(**facts) for name, facts in kept.items()}
    fresh = {row.name: row.digest() for row in everything}
    outcomes = {n: o for n, o in outcomes.items() if o.digest == fresh.get(n)}

    origin = provenance()  # before the results are written, which a commit may hold

    def save() -> None:
        record = origin | {
            "rooms": by_room(everything, outcomes),
            "mutations": {name: asdict(outcomes[name]) for name in sorted(outcomes)},
        }
        options.results.write_text(json.dumps(record, indent=1) + "\n")

    left = [row for row in chosen if options.again or row.name not in outcomes]
    with tempfile.TemporaryDirectory(prefix="mutants.") as folder:
        jobs = min(options.jobs, max(1, len(left)))
        trees = [Tree.copied(Path(folder, str(job))) for job in range(jobs) if left]
        for room in dict.fromkeys(row.room for row in left):
            rows = [row for row in left if row.room == room]
            for row, result in tried(rows, trees, options.limit):
                result.digest = fresh[row.name]
                print(f"{result.verdict:10} {result.seconds:6.1f} s  {row.name}", result.by)
                outcomes[row.name] = result
                if result.verdict not in ("red", "stale"):
                    save()
    print(table(chosen, outcomes))
    bad = [row for row in chosen if outcomes[row.name].verdict not in ("killed", "equivalent")]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
