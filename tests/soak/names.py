"""A row for every name in a run that any verb opens, writes, makes or deletes.

Which names these are comes from tracing the verbs (strace), pages and servers with a client of
theirs. In a stranger's run each of them is then a link to a file, to a folder and to nothing, a hard
link, a FIFO, a socket, a device, a file of a gigabyte without a line's end, an empty one, noise, and
a journal that names a file of the user's; each verb that opens the name meets all of them. Nothing
outside the run may change, and the verb is to end in time, with a message and without a traceback.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.running import with_settings
from tests.soak import _forked
from tests.soak._outcome import Outcome
from tests.soak.kills import RECIPES, SMALL

HELPERS = Path(__file__).parents[1] / "helpers"
sys.path[:0] = [str(HELPERS), str(HELPERS.parent)]  # the tests' own modules

SIZE = 1000  # commands of some 9,000: of every name and kind one, and others by chance
PATIENCE = 120.0  # seconds of a command
RUNS: Mapping[str, Sequence[str]] = {
    "game": ["rock_paper_scissors", "-s", "generations=1"],
    "policy": [
        "quickstart",
        *with_settings([*SMALL, "generations=1", "prompts.per_generation=4", "prompts.count=20"]),
    ],
    "attack": [
        "gpo_clerks",
        *with_settings([*RECIPES["gpo_clerks"], "generations=2", "learner.save_every=1"]),
    ],
    "pool": [
        "sparta_clerks",
        *with_settings([*RECIPES["sparta_clerks"], "generations=1", "prompts.per_generation=2"]),
    ],
    "assistance": ["gtalign_clerks", *with_settings([*RECIPES["gtalign_clerks"], "generations=1"])],
}
"""Name -> recipe of a run that verbs are tried on: tabular, by pairs, by rewards, of adapters, of two
utilities.
"""
TRACES = ["assistance", "traces", "gtalign_clerks", "--teacher", "clerk", "--count", "2"]
TRACES += ["--candidates", "1", "--out", "run"]
START = ["warm-start", "forms", "builtin", *with_settings(["count=8", "training.epochs=0.5"])]
START += ["--out", "run"]
MADE: Mapping[str, Sequence[str]] = {"traces": TRACES, "start": START}
"""Name -> the command that makes a folder which is no run, and goes on with it when given again."""
OPENS = re.compile(
    r"(?:open|openat|creat|rename\w*|unlink\w*|mkdir\w*|rmdir|link\w*|symlink\w*|chmod|fchmodat)\("
)
PATHS = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<folder>[^>]*)>, )?"(?P<path>(?:[^"\\]|\\.)*)"')
"""A path in a line of strace, after the folder that it is relative to."""
DRAFT = re.compile(r"\.equipoise\.|\.draft\.\d+\.[0-9a-f]{16}")  # what nobody can foretell
PLAYER = re.compile(r"players/[^/]+")
MARK = "verb-begins"  # a folder that is not there; the trace shows that its parts are asked for


# -- the verbs


def _vote(page: httpx.Client) -> None:
    """Vote once."""
    shown = page.post("/api/question", json={"voter": "ann"}).json()["question"]
    sides = {
        side: {key: shown[side][key] for key in ("match", "seat")} for side in ("left", "right")
    }
    page.post("/api/vote", json={"voter": "ann", "choice": "left", **sides})


def _play(page: httpx.Client) -> None:
    """Play a match to its end."""
    begun = page.post("/api/begin", json={"name": "ann"}).json()
    move = {"name": "ann", "match": begun["match"], "text": "rock"}
    page.post("/api/move", json=move)


def _chat(server: httpx.Client) -> None:
    """Ask each player."""
    models = server.get("/v1/models").json()["data"]
    for model in models:
        body = {"model": model["id"], "messages": [{"role": "user", "content": "What is 1 + 1?"}]}
        server.post("/v1/chat/completions", json={**body, "max_tokens": 4})


@dataclass(frozen=True)
class Verb:
    """A command on one of `RUNS` or `MADE`; `visit`: what a client of its page does before it is ended."""

    run: str
    arguments: Sequence[str]
    visit: Callable[[httpx.Client], None] | None = None


PAGE = ("--port", "0", "--no-token")
READ = ("status", "report", "check")
VERBS: Mapping[str, Verb] = {
    **{f"{verb} ({run})": Verb(run, [verb, "run"]) for verb in READ for run in ("game", "policy")},
    "rate": Verb("policy", ["rate", "run"]),
    "export": Verb("policy", ["export", "run", "--to", "out"]),
    "export into the run": Verb("policy", ["export", "run", "--to", "run/out"]),
    "export votes": Verb("policy", ["export", "run", "--to", "out", "--votes"]),
    **{f"check --mend ({run})": Verb(run, ["check", "run", "--mend"]) for run in RUNS},
    **{f"resume ({run})": Verb(run, ["resume", "run"]) for run in RUNS},
    "rate the league": Verb("pool", ["rate", "run", "--of", "league"]),
    "resume, longer (game)": Verb("game", ["resume", "run", "-s", "generations=2"]),
    "resume, longer (policy)": Verb("policy", ["resume", "run", "-s", "generations=2"]),
    "resume, longer (attack)": Verb("attack", ["resume", "run", "-s", "generations=3"]),
    "resume, longer (pool)": Verb("pool", ["resume", "run", "-s", "generations=2"]),
    "run --overwrite": Verb("game", ["run", *RUNS["game"], "--out", "run", "--overwrite"]),
    "evaluate": Verb("policy", ["evaluate", "run", "--on", "sums.jsonl", "--judge", "exact"]),
    "judge": Verb("policy", ["judge", "run", "--with", "shorter"]),
    "merge": Verb("pool", ["merge", "run/players/sums/1", "--to", "merged"]),
    "sft of a generation": Verb(
        "policy",
        ["sft", "run/players/policy/1", "taught.jsonl", "--out", "run/tuned", "--overwrite"],
    ),
    "best-response (game)": Verb("game", ["best-response", "run@policy", "--overwrite"]),
    "best-response (policy)": Verb("policy", ["best-response", "run@policy", "--overwrite"]),
    "import-scores": Verb(
        "policy", ["import-scores", "run@policy", "scores.json", "--from", "lm_eval"]
    ),
    "chat": Verb("policy", ["chat", "run"]),
    "vote": Verb("policy", ["vote", "run", *PAGE], _vote),
    "play": Verb("game", ["play", "run", "--page", *PAGE], _play),
    "serve (policy)": Verb("policy", ["serve", "run", *PAGE], _chat),
    "serve (pool)": Verb("pool", ["serve", "run", *PAGE], _chat),
    "red-team export-attacks": Verb(
        "attack", ["red-team", "export-attacks", "run", "--to", "run/attacks.jsonl"]
    ),
    "report --leaderboard": Verb("policy", ["report", "run", "--leaderboard"]),
    "compare": Verb("policy", ["compare", "run@policy@0", "run@policy@1"]),
    "compare on a set": Verb(
        "policy",
        ["compare", "run@policy@0", "run@policy@1", "--on", "sums.jsonl", "--judge", "exact"],
    ),
    "attack-judge": Verb(
        "policy", ["attack-judge", "run", "--prompts", "taught.jsonl", "--limit", "2"]
    ),
    "assistance welfare": Verb("assistance", ["assistance", "welfare", "run@0", "run@1"]),
    "assistance dominance": Verb("assistance", ["assistance", "dominance", "run@0", "run@1"]),
    "assistance traces": Verb("traces", TRACES),
    "warm-start": Verb("start", START),
    "red-team crossplay": Verb("attack", ["red-team", "crossplay", "run"]),
}


def _command(verb: Verb, there: Path, patience: float = PATIENCE) -> tuple[int | None, str]:
    """(exit code, output) of a verb in a process of its own; None where it did not end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [str(port) if each == "0" else each for each in verb.arguments]
    log = there / "output.txt"
    log.write_bytes(b"")
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _forked._run(arguments, there, log, None)
    until = time.monotonic() + patience
    is_visited = verb.visit is None
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        time.sleep(0.02)
        if time.monotonic() > until:
            for process in [*psutil.Process(child).children(recursive=True), psutil.Process(child)]:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
        if not is_visited and f"http://127.0.0.1:{port}" in log.read_text(errors="replace"):
            is_visited = True
            _visit(verb, port)
            os.kill(child, signal.SIGINT)
    _, status = os.waitpid(child, 0)
    code = None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return code, log.read_text(errors="replace")


def _visit(verb: Verb, port: int) -> None:
    assert verb.visit is not None
    address = f"http://127.0.0.1:{port}"
    # A run that is not as it should be is answered with an error, which the client need not read.
    with (
        httpx.Client(base_url=address, timeout=30, trust_env=False) as client,
        suppress(httpx.HTTPError, KeyError, TypeError, ValueError),
    ):
        verb.visit(client)


# -- what lies under the names


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


# -- the soak


def soak(size: int, minutes: float | None = None) -> Outcome:
    """`size` commands, in an order of chance that has all names and kinds in its first part."""
    from hostile_files import KINDS, can_make_devices

    if shutil.which("strace") is None:
        return Outcome([{"name": "skipped: there is no strace here"}])
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary).resolve()
        os.environ["XDG_STATE_HOME"] = str(home / "state")
        _forked.load()
        _make_runs(home)
        reached = trace(home)
        until = time.monotonic() + 60 * (minutes or 1e6)
        kinds = {**KINDS, **CONTENTS}
        if not can_make_devices(home):
            del kinds["a device"]
        jobs = _order(reached, list(kinds))
        met: Counter[tuple[str, str]] = Counter()
        rows = []
        failures: list[str] = []
        for verb, name, kind in jobs[:size]:
            if time.monotonic() > until:
                break
            code, problems = _meet(home, verb, name, kinds[kind])
            met[kind, "refused" if code == 2 else "done"] += 1
            rows.append({"verb": verb, "name": name, "kind": kind, "code": code})
            failures += [f"{verb}: {name} is {kind}: {problem}" for problem in problems]
    table = [
        {
            "what lies there": kind,
            "names": len({row["name"] for row in rows if row["kind"] == kind}),
            "verbs": len({row["verb"] for row in rows if row["kind"] == kind}),
            "commands": met[kind, "refused"] + met[kind, "done"],
            "of": sum(job[2] == kind for job in jobs),
            "refused": met[kind, "refused"],
            "harmed": sum(f" is {kind}: " in failure for failure in failures),
        }
        for kind in kinds
    ]
    return Outcome(table, failures, rows)


def _order(
    reached: Mapping[str, Sequence[str]], kinds: Sequence[str]
) -> list[tuple[str, str, str]]:
    """(verb, name, kind) in an order of chance, in which every name and kind come first together."""
    jobs = [
        (verb, name, kind) for verb, names in reached.items() for name in names for kind in kinds
    ]
    random.Random(52).shuffle(jobs)
    seen: set[tuple[str, str]] = set()
    first, others = [], []
    for job in jobs:
        (others if job[1:] in seen else first).append(job)
        seen.add(job[1:])
    return first + others


def _make_runs(home: Path) -> None:
    """A run of each kind, with people's votes and matches where there can be some."""
    runs = {name: ["run", *recipe, "--out", "run"] for name, recipe in RUNS.items()}
    for name, command in (runs | MADE).items():
        place = home / name
        place.mkdir()
        _prepare(place)
        made = _forked.command(command, place)
        # A start that its model did not learn is kept, too.
        assert made.code == 0 or (name == "start" and made.code == 2), made.output
    for verb in ("vote", "play"):
        code, output = _command(VERBS[verb], home / VERBS[verb].run)
        assert code in (0, 130), output
        assert (home / VERBS[verb].run / "run" / "people").is_dir(), output
    for name in ("game", "policy"):
        _command(VERBS[f"best-response ({name})"], home / name)


def _prepare(there: Path) -> None:
    """What verbs read beside the run."""
    sums = ({"prompt": f"What is {n} plus 1?", "answer": str(n + 1)} for n in range(4))
    (there / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sums))
    taught = ({"prompt": f"What is {n} plus 1?", "completion": str(n + 1)} for n in range(4))
    (there / "taught.jsonl").write_text("".join(json.dumps(row) + "\n" for row in taught))
    scores = {
        "results": {"arc_easy": {"alias": "arc_easy", "acc,none": 0.5, "acc_stderr,none": 0.1}},
        "n-samples": {"arc_easy": {"original": 24, "effective": 24}},
        "config": {"model": "hf", "model_args": "pretrained=policy"},
        "versions": {"arc_easy": 1.0},
    }
    (there / "scores.json").write_text(json.dumps(scores))


def trace(home: Path) -> dict[str, list[str]]:
    """Verb -> the names in the run that it opens, makes or deletes, by what strace sees."""
    log = home / "trace.txt"
    here = f"from tests.soak import names; names._do_all({str(home)!r})"
    strace = ["strace", "-f", "--seccomp-bpf", "-y", "-s", "4096", "-e", "trace=%file"]
    command = [*strace, "-o", str(log), sys.executable, "-c", here]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True)
    reached: dict[str, set[str]] = {verb: set() for verb in VERBS}
    verb = ""
    with log.open(errors="replace") as lines:
        for line in lines:
            if MARK in line:
                verb = line.partition(MARK)[2].partition('"')[0].strip("/")
            elif verb and OPENS.search(line):
                reached[verb] |= set(_names(line, home / "traced"))
    return {verb: _of_one_player(names) for verb, names in reached.items()}


def _of_one_player(names: set[str]) -> list[str]:
    """The names without drafts, and of files that differ in the player's name alone the first."""
    by_kind: dict[str, str] = {}
    for name in sorted(names):
        if not DRAFT.search(name):
            by_kind.setdefault(PLAYER.sub("players/NAME", name), name)
    return list(by_kind.values())


def _do_all(home: str) -> None:
    """Do each verb on a copy of its run, under strace."""
    _forked.load()
    there = Path(home, "traced")
    for name, verb in VERBS.items():
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(Path(home, verb.run), there)
        Path(home, MARK, name).exists()
        code, output = _command(verb, there, 5 * PATIENCE)
        Path(home, MARK, "").exists()
        print(f"{name}: {code} {output[-300:] if code not in (0, 130) else ''}", flush=True)


def _names(line: str, there: Path) -> list[str]:
    """The names below the run's folder in a line of strace."""
    names = []
    for match in PATHS.finditer(line):
        whole = Path(os.path.normpath(Path(match["folder"] or there) / match["path"]))
        if whole.is_relative_to(there / "run"):
            names.append(whole.relative_to(there / "run").as_posix())
    return [name for name in names if name != "."]


def _meet(
    home: Path, name: str, path: str, put: Callable[[Path, Any], None]
) -> tuple[int | None, list[str]]:
    """(exit code, what went wrong) of a verb on a run in which a path is something else."""
    from hostile_files import Outside

    verb = VERBS[name]
    there = home / "there"
    shutil.rmtree(there, ignore_errors=True)
    shutil.copytree(home / verb.run, there)
    outside = Outside(there / "outside")
    place = there / "run" / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    put(place, outside)
    code, output = _command(verb, there)
    problems = [f"outside: {path}" for path in outside.changes()]
    if code not in ((0, 2) if verb.visit is None else (0, 2, 130)):
        problems.append(f"ended with {code}: {output[-300:]}")
    if "Traceback" in output:
        problems.append(output[-600:])
    if code == 2 and not output.strip():
        problems.append("no message")
    return code, problems
