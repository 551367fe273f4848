"""A row for every name in a run that any verb opens, reads, writes, makes or deletes.

Which names these are comes from tracing the verbs (strace). In a stranger's run each of them is then
a link to a file, to a folder and to nothing, a hard link, a FIFO, a socket, a device, a file of a
gigabyte without a line's end, an empty one, noise, and a journal that names a file of the user's;
each verb that reaches the name meets all of them. Nothing outside the run may change, and the verb
is to end in time, with a message and without a traceback.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.soak import _forked
from tests.soak._outcome import Outcome

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' own modules

SIZE = 1500  # commands
PATIENCE = 60.0  # seconds of a command
GAME = ("rock_paper_scissors", "-s", "generations=1")
VERBS: Mapping[str, Sequence[str]] = {
    "status": ["status", "run"],
    "report": ["report", "run"],
    "check": ["check", "run"],
    "check --mend": ["check", "run", "--mend"],
    "export": ["export", "run", "--to", "out"],
    "rate": ["rate", "run"],
    "resume": ["resume", "run"],
    "resume, longer": ["resume", "run", "-s", "generations=2"],
}
PATHS = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<folder>[^>]*)>, )?"(?P<path>(?:[^"\\]|\\.)*)"')
"""A path in a line of strace, after the folder that it is relative to."""
DRAFT = re.compile(r"^\.equipoise\.|\.draft\.\d+\.[0-9a-f]{16}")  # what nobody can foretell


def _hole(place: Path, outside: Any) -> None:
    with place.open("wb") as file:
        file.write(b'{"a": "')
        file.truncate(2**30)


def _empty(place: Path, outside: Any) -> None:
    place.write_bytes(b"")


def _noise(place: Path, outside: Any) -> None:
    place.write_bytes(random.Random(5).randbytes(5000))


def _journal(place: Path, outside: Any) -> None:
    from hostile_files import journal

    place.write_bytes(journal(outside.file))


CONTENTS: Mapping[str, Callable[[Path, Any], None]] = {
    "a gigabyte": _hole,
    "an empty file": _empty,
    "noise": _noise,
    "a journal that names a file": _journal,
}


def soak(size: int, minutes: float | None = None) -> Outcome:
    """`size` commands, in an order of chance that has all names and kinds in its first part."""
    from hostile_files import KINDS, can_make_devices

    if shutil.which("strace") is None:
        return Outcome([{"name": "skipped: there is no strace here"}])
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary).resolve()
        os.environ["XDG_STATE_HOME"] = str(home / "state")
        reached = trace(home)
        until = time.monotonic() + 60 * (minutes or 1e6)
        _forked.load()
        kinds = {**KINDS, **CONTENTS}
        if not can_make_devices(home):
            del kinds["a device"]
        jobs = [
            (verb, name, kind)
            for verb, names in reached.items()
            for name in names
            for kind in kinds
        ]
        random.Random(52).shuffle(jobs)
        rows: Counter[tuple[str, str]] = Counter()
        failures: list[str] = []
        for verb, name, kind in jobs[:size]:
            if time.monotonic() > until:
                break
            code, problems = _meet(home, verb, name, kinds[kind])
            rows[name, "refused" if code == 2 else "done"] += 1
            failures += [f"{verb}: {name} is {kind}: {problem}" for problem in problems]
    names = sorted({name for name, _ in rows})
    table = [
        {"name": name, **{how: rows[name, how] for how in ("refused", "done")}} for name in names
    ]
    return Outcome(table, failures)


def trace(home: Path) -> dict[str, list[str]]:
    """Verb -> the names in the run that it reaches, by what strace sees."""
    equipoise = [sys.executable, "-m", "equipoise"]
    made = [*equipoise, "run", *GAME, "--out", "run"]
    subprocess.run(made, cwd=home, check=True, capture_output=True)
    (home / "run").rename(home / "donor")
    reached = {}
    for verb, arguments in VERBS.items():
        there = home / "traced"
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(home / "donor", there / "run")
        log = home / "trace.txt"
        strace = [
            "strace",
            "-f",
            "--seccomp-bpf",
            "-y",
            "-s",
            "4096",
            "-e",
            "trace=%file",
            "-o",
            str(log),
        ]
        subprocess.run(
            [*strace, *equipoise, *arguments], cwd=there, capture_output=True, check=False
        )
        names: set[str] = set()
        for line in log.read_text(errors="replace").splitlines():
            names |= set(_names(line, there))
        reached[verb] = sorted(name for name in names if name and not DRAFT.search(name))
    return reached


def _names(line: str, there: Path) -> list[str]:
    """The names below the run's folder in a line of strace."""
    names = []
    for match in PATHS.finditer(line):
        whole = Path(os.path.normpath(Path(match["folder"] or there) / match["path"]))
        if whole.is_relative_to(there / "run"):
            names.append(whole.relative_to(there / "run").as_posix())
    return [name for name in names if name != "."]


def _meet(
    home: Path, verb: str, name: str, put: Callable[[Path, Any], None]
) -> tuple[int | None, list[str]]:
    """(exit code, what went wrong) of a verb on a run in which a name is something else."""
    from hostile_files import Outside

    there = home / "there"
    shutil.rmtree(there, ignore_errors=True)
    shutil.copytree(home / "donor", there / "run")
    outside = Outside(there / "outside")
    place = there / "run" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    put(place, outside)
    ended = _forked.command(VERBS[verb], there, _forked.Moment("at any time", PATIENCE))
    problems = [f"outside: {path}" for path in outside.changes()]
    if ended.code not in (0, 2):
        problems.append(f"ended with {ended.code}: {ended.output[-300:]}")
    if "Traceback" in ended.output:
        problems.append(ended.output[-600:])
    if ended.code == 2 and not ended.output.strip():
        problems.append("no message")
    return ended.code, problems
