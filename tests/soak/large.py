"""A tabular run of `size` matches, really played, and the seconds and memory of each verb that
reads it. A verb that fails, or whose memory grows with the matches, is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.running import with_settings
from tests.soak._outcome import Outcome

SIZE = 100_000
GENERATIONS = 100
MOST = 2**30  # bytes of memory of a verb
VERBS: Mapping[str, Sequence[str]] = {
    "status": ["status", "run"],
    "report": ["report", "run"],
    "check": ["check", "run"],
    "export": ["export", "run", "--to", "tables"],
    "resume": ["resume", "run"],
}


def soak(size: int) -> Outcome:
    """Play the run, then read it by every verb."""
    each = max(1, size // GENERATIONS)
    recipe = with_settings([f"generations={GENERATIONS}", f"prompts.per_generation={each}"])
    rows: list[Mapping[str, object]] = []
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary).resolve()
        os.environ["XDG_STATE_HOME"] = str(home / "state")
        verbs = {"run": ["run", "rock_paper_scissors", *recipe, "--out", "run"], **VERBS}
        for verb, arguments in verbs.items():
            code, seconds, memory, output = _measured(home, arguments)
            rows.append(
                {
                    "verb": verb,
                    "matches": size,
                    "seconds": round(seconds, 1),
                    "memory, MiB": round(memory / 2**20),
                }
            )
            if code != 0 or "Traceback" in output:
                failures.append(f"{verb}: ended with {code}: {output[-400:]}")
            if memory > MOST:
                failures.append(f"{verb}: took {memory:,} bytes of memory")
        ledger = (home / "run" / "ledger.sqlite").stat().st_size
        page = (home / "run" / "report.html").stat().st_size
    rows.append({"verb": "(bytes of the ledger, of the page)", "matches": f"{ledger:,}, {page:,}"})
    return Outcome(rows, failures)


def _measured(home: Path, arguments: Sequence[str]) -> tuple[int, float, int, str]:
    """(exit code, seconds, most bytes of memory, output) of the whole command."""
    started = time.monotonic()
    log = home / "output.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "equipoise", *arguments], cwd=home, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    return process.returncode, seconds, usage.ru_maxrss * 1024, log.read_text()
