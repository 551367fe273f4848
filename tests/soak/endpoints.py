"""A run whose judge answers on a server that fails in twenty ways one time in five, and which is
killed twenty times by SIGKILL. `--size` is the number of questions.

No vote may be invented, no traceback shown, no call be paid beyond the budget, no reply be paid
twice but those in flight at a kill, and the key be nowhere.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from equipoise.ledger.ledger import Ledger
from tests.soak._faulty_server import HONEST, LONGEST_REPLY, FaultyServer, Trap
from tests.soak._outcome import Outcome

SIZE = 10_000
KILLS = 20
SHARE = 0.2  # of the replies that are faulty
CONCURRENCY = 8
KEY = "sk-soak-0123456789abcdef"
ACCOUNT = "judge"


def recipe(url: str, questions: int, calls: int | None) -> dict[str, Any]:
    """Two scripted players and a judge behind the server: one question a prompt."""
    endpoint = {
        "kind": "endpoint",
        "base_url": url,
        "model": "tiny",
        "api_key_env": "EQUIPOISE_SOAK_KEY",
        "concurrency": CONCURRENCY,
        "longest_reply": LONGEST_REPLY,
        "account": ACCOUNT,
        "budget": {"calls": calls},
    }
    return {
        "name": "endpoints",
        "generations": 1,
        "players": {
            "first": {"kind": "scripted", "text": "I think it is seven."},
            "second": {"kind": "scripted", "text": "No."},
        },
        "prompts": {
            "kind": "clerk_questions",
            "count": questions,
            "per_generation": questions,
            "held_out": 1,
            "test": 0,
        },
        "game": {"kind": "answers", "samples": 1},
        "schedule": "round_robin",
        "judge": {"kind": "rubric", "model": endpoint},
        "evaluate": {"judge": {"kind": "shorter"}},
        "max_unjudged": 1.0,
    }


class AttackedRun:
    """A run in a folder of its own, started again after each kill."""

    def __init__(self, folder: Path, server: FaultyServer, trap: Trap) -> None:
        self.folder, self.server, self.trap = folder, server, trap
        self.out, self.logs = folder / "run", folder / "output.txt"

    def start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """The command in a process of its own; its output is added to the log."""
        proxies = dict.fromkeys(("HTTP_PROXY", "ALL_PROXY", "http_proxy"), self.trap.url)
        environment = os.environ | proxies | {"EQUIPOISE_SOAK_KEY": KEY}
        environment |= {"NO_PROXY": "", "no_proxy": "", "OMP_NUM_THREADS": "1"}
        with self.logs.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "equipoise", *arguments],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def again(self, questions: int, calls: int | None) -> subprocess.Popen[bytes]:
        """Begin the run, or go on with it."""
        if (self.out / "ledger.sqlite").exists():
            return self.start(["resume", str(self.out)])
        source = self.folder / "endpoints.yaml"
        source.write_text(yaml.safe_dump(recipe(self.server.url, questions, calls)))
        return self.start(["run", str(source), "--out", str(self.out)])

    def attacked(self, questions: int, kills: int, seed: int = 0) -> tuple[int, int]:
        """Kill it after so many replies, again and again, and then let it end.

        (Its exit code, the kills that met it alive.)
        """
        dice = random.Random(seed)
        done = 0
        for number in range(kills):
            goal = questions * (number + dice.random()) / kills
            process = self.again(questions, None)
            while process.poll() is None and self.server.sent.total() < goal:
                time.sleep(0.005)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                done += 1
            process.wait()
        return self.again(questions, None).wait(), done


def holds_key(folder: Path) -> list[str]:
    """The files below a folder that hold the key."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if KEY.encode() in path.read_bytes()]


def soak(size: int) -> Outcome:
    """`size` questions at SHARE faults with KILLS kills, and a run with a small budget."""
    trap = Trap()
    server = FaultyServer(SHARE, trap.url)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        run = AttackedRun(folder, server, trap)
        code, kills = run.attacked(size, KILLS if size >= 1000 else 3)
        tracebacks = run.logs.read_bytes().count(b"Traceback")
        with Ledger.open(run.out / "ledger.sqlite") as ledger:
            matches = [match.id for match in ledger.matches("train")]
            votes = Counter(
                vote.value
                for judgement in ledger.judgements_of(matches).values()
                for vote in judgement.votes
            )
            spent = ledger.spent(ACCOUNT)
        with_key = holds_key(folder)
        budget = size // 20
        asked = FaultyServer(SHARE, trap.url, 1)
        small = AttackedRun(folder / "small", asked, trap)
        small.folder.mkdir()
        stopped = small.again(size, budget).wait()
        with Ledger.open(small.out / "ledger.sqlite") as ledger:
            small_spent = ledger.spent(ACCOUNT)
    invented = sum(n for value, n in votes.items() if value not in (None, HONEST))
    twice = sum(n - 1 for n in server.answered.values() if n > 1)
    faults = server.sent.total() - server.sent["sound"]
    facts = {
        "requests at the server": server.sent.total(),
        "of them faulty": f"{faults} of {len(server.sent) - 1} kinds",
        "kills": kills,
        "votes": votes.total(),
        "missing, with a reason": votes[None],
        "invented votes": invented,
        "tracebacks": tracebacks,
        "calls in the ledger": spent.calls,
        "replies paid twice": f"{twice} (in flight at a kill: at most {kills * CONCURRENCY})",
        "calls at a budget of": f"{small_spent.calls} of {budget}",
        "requests at that budget": asked.sent.total(),
        "files that hold the key": len(with_key),
        "calls at proxies and redirects": trap.calls,
    }
    broken = {
        f"exit code {code}": code != 0,
        f"{invented} votes were invented": invented > 0,
        f"{tracebacks} tracebacks": tracebacks > 0,
        f"{twice} replies were paid twice": twice > kills * CONCURRENCY,
        f"the budget stopped with {stopped}": stopped != 130,
        f"{small_spent.calls} calls at a budget of {budget}": small_spent.calls != budget,
        f"{asked.sent.total()} requests at a budget of {budget}": asked.sent.total() > budget,
        f"the key is in {with_key}": bool(with_key),
        f"{trap.calls} calls went elsewhere": trap.calls > 0,
        f"{votes.total()} votes of {size}": votes.total() < size,
    }
    table = [{"what": what, "count": count} for what, count in facts.items()]
    return Outcome(table, [what for what, is_so in broken.items() if is_so])
