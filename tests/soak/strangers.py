"""One hostile run for every setting with an effect, opened by another user with every verb and
without consent. Canaries count what is executed, read, sent, written or deleted unasked, which is
to be nothing. The same run resumed with `--trust` shows that its canary works.

What notices: an audit hook in each command's process (processes started, addresses called, files
written, renamed and deleted outside the run), inotify on the user's files, modules that leave a
mark where they are imported, and the state of the user's folders before and after.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.running import with_settings
from tests.soak import _forked
from tests.soak._canaries import KINDS, Canaries
from tests.soak._hostile import Hostile, hostile_runs
from tests.soak._outcome import Outcome

SIZE = 1500  # commands
QUESTION = "was not begun here by you"
# By name, before anything is asked: what lies in the run, and a setting that its part never reads.
REFUSED = ("so nothing in it was opened", "so these have no effect")
PATIENCE = 40.0  # seconds of a command; one of a page stays until it says where it is
DONOR = (
    "quickstart",
    *with_settings(
        [
            "generations=1",
            "prompts.per_generation=4",
            "prompts.held_out=4",
            "prompts.count=20",
            "evaluate.samples=1",
            "evaluate.sets=null",
            "learner.epochs=0.5",
        ]
    ),
)
CONTROL = "resume --trust"
OPTIONS: Mapping[str, Sequence[str]] = {"export": ["--to", "run/out"], "vote": ["--port", "0"]}
"""Verb -> what it needs beside a run."""
SONGS: Mapping[str, Sequence[str]] = {
    "executes": ("executed",),
    "sends": ("sent",),
    "key": ("sent",),
    "fetches": ("sent", "read"),
    "reads": ("read",),
    "writes": ("written",),
}
"""Effect -> what its canary notices."""


def verbs() -> dict[str, list[str]]:
    """Name -> arguments, {run} for the run, of all verbs that take a run; the control's last."""
    from run_verbs import DOORS, READERS

    readers = {name: [name, "{run}", *OPTIONS.get(name, ())] for name in READERS}
    readers["rate"] += ["--of", "matches"]
    readers |= {
        "rate the league": ["rate", "{run}", "--of", "league"],
        "export answers": ["export", "{run}", "--to", "run/out", "--answers"],
        "export votes": ["export", "{run}", "--to", "run/out", "--votes"],
        "export-attacks": ["red-team", "export-attacks", "{run}", "--to", "run/attacks.jsonl"],
        "welfare": ["assistance", "welfare", "{run}", "{run}"],
        "dominance": ["assistance", "dominance", "{run}", "{run}"],
    }
    known = {**DOORS, **readers, CONTROL: [*DOORS["resume"], "--trust"]}
    return {name: [str(each) for each in arguments] for name, arguments in known.items()}


def soak(size: int, minutes: float | None = None) -> Outcome:
    """`size` commands: of each setting `resume` and its control first, then the others by chance."""
    _forked.load()
    until = time.monotonic() + 60 * (minutes or 1e6)
    with tempfile.TemporaryDirectory() as home, Canaries(Path(home).resolve()) as canaries:
        donors = _donors(canaries)
        hostile = hostile_runs(canaries)
        tried: list[_Tried] = []
        for each, verb in _order(hostile)[:size]:
            if time.monotonic() > until:
                break
            tried.append(_try(each, verb, donors, canaries))
    return _outcome(hostile, tried)


def _order(hostile: Sequence[Hostile]) -> list[tuple[Hostile, str]]:
    dice = random.Random(28)
    first = [each for each in hostile if each.first]
    dice.shuffle(first)
    begin = [(each, verb) for each in first for verb in ("resume", CONTROL)]
    rest = [
        pair
        for pair in ((each, verb) for each in hostile for verb in verbs())
        if pair not in begin and pair[1] != CONTROL
    ]
    dice.shuffle(rest)
    return begin + rest


def _donors(canaries: Canaries) -> Mapping[str, Path]:
    """A finished run and one that has just begun, by their user."""
    from equipoise.planning.new_run import new_run
    from equipoise.runs import recipe_loader

    owner = canaries.world / "owner"
    owner.mkdir()
    made = _forked.command(["run", *DONOR, "--out", "finished"], owner)
    assert made.code == 0, made.output
    config = recipe_loader.load(DONOR[0], [each for each in DONOR[1:] if each != "-s"])
    with new_run(config, owner / "begun"):
        pass
    return {name: owner / name for name in ("finished", "begun")}


# -- a command


@dataclass(frozen=True)
class _Tried:
    hostile: Hostile
    verb: str
    code: int | None
    asked: bool
    noticed: Mapping[str, Sequence[str]]
    output: str

    @property
    def says(self) -> str:
        """How it ended, in a word or a message."""
        if self.asked:
            return "asked"
        if self.code in (None, 0):
            return "done"
        errors = [line for line in self.output.splitlines() if line.startswith("error")]
        return (errors or self.output.splitlines()[-1:] or [""])[0][:200]


def _try(hostile: Hostile, verb: str, donors: Mapping[str, Path], canaries: Canaries) -> _Tried:
    there = canaries.there
    canaries.reset()
    donor = donors["begun" if verb.startswith("resume") else "finished"]
    run = there / "run"
    shutil.copytree(donor, run)
    _alter(run, hostile.changes)
    for name, target in hostile.links.items():
        (run / name).symlink_to(target)
    if verb == "merge":
        (run / "players" / "policy" / "1" / "adapter_config.json").write_text("{}")
    arguments = [each.format(run="run") for each in verbs()[verb]]
    canaries.begin()
    code, output = _command(arguments, canaries, SONGS[hostile.effect] if verb == CONTROL else ())
    noticed = canaries.noticed()
    return _Tried(hostile, verb, code, QUESTION in output, noticed, output)


def _alter(run: Path, changes: Mapping[str, Any]) -> None:
    """Write settings into the configuration and the ledger, as from the start."""
    from equipoise.ledger.ledger import Ledger

    recorded = yaml.safe_load((run / "config.yaml").read_text())
    for key, value in changes.items():
        *path, last = key.split(".")
        inner = recorded
        for name in path:
            inner[name] = inner.get(name) or {}
            inner = inner[name]
        inner[last] = value
    (run / "config.yaml").write_text(yaml.safe_dump(recorded, sort_keys=False))
    with Ledger.open(run / "ledger.sqlite") as ledger:
        ledger.note("settings", json.dumps(recorded))


def _command(
    arguments: Sequence[str], canaries: Canaries, song: Sequence[str]
) -> tuple[int | None, str]:
    """The exit code, None where it was ended: it waited, or its canary sang."""
    log = canaries.world / "output.txt"
    log.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.environ.update(canaries.environment())
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.chdir(canaries.there)
        canaries.listen_in()
        _forked._run(arguments, canaries.there, log, None)
    started = time.monotonic()
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        time.sleep(0.02)
        is_there = log.exists() and "http://127.0.0.1" in log.read_text(errors="replace")
        waits = is_there and arguments[0] in ("vote", "serve")
        if waits or time.monotonic() - started > PATIENCE or canaries.sang(song):
            _end(child)
            break
    _, status = os.waitpid(child, 0)
    code = None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return code, log.read_text(errors="replace") if log.exists() else ""


def _end(child: int) -> None:
    for process in [*psutil.Process(child).children(recursive=True), psutil.Process(child)]:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)


# -- what came of it


def _outcome(hostile: Sequence[Hostile], tried: Sequence[_Tried]) -> Outcome:
    unasked = [each for each in tried if each.verb != CONTROL]
    failures = [
        f"{each.hostile.name}: {each.verb}: {kind}: {', '.join(things)[:200]}"
        for each in unasked
        for kind, things in each.noticed.items()
        if things
    ]
    failures += [
        f"{each.hostile.name}: {each.verb} did not ask: {each.says}"
        for each in unasked
        if each.verb == "resume"
        and not each.asked
        and not any(words in each.output for words in REFUSED)
    ]
    failures += [
        f"{each.hostile.name}: {each.verb}: {each.output[-400:]}"
        for each in tried
        if "Traceback" in each.output
    ]
    effects = list(dict.fromkeys(each.effect for each in hostile))
    table = [_row(verb, effects, [t for t in tried if t.verb == verb]) for verb in verbs()]
    rows = []
    for each in hostile:
        own = {t.verb: t for t in tried if t.hostile == each}
        control = own.pop(CONTROL, None)
        rows.append(
            {
                "setting": each.setting,
                "effect": each.effect,
                "variant": each.variant,
                "verbs": {verb: t.says for verb, t in own.items()},
                "unasked": sum(len(x) for t in own.values() for x in t.noticed.values()),
                "trusted": _sung(control) if control else "not tried",
            }
        )
    return Outcome(table, failures, [row for row in rows if row["verbs"]])


def _sung(control: _Tried) -> str:
    expected = SONGS[control.hostile.effect]
    return ", ".join(kind for kind in expected if control.noticed[kind]) or control.says


def _row(verb: str, effects: Sequence[str], tried: Sequence[_Tried]) -> Mapping[str, Any]:
    runs = Counter(each.hostile.effect for each in tried)
    row: dict[str, Any] = {"verb": verb, "asked": sum(each.asked for each in tried)}
    row |= {effect: runs[effect] for effect in effects}
    return row | {kind: sum(bool(t.noticed[kind]) for t in tried) for kind in KINDS}
