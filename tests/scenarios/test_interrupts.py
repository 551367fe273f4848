"""Ctrl-C at any moment: exit code 130, no traceback; real processes, real signals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import FINITE, SMALL, settings, start, wait_for_record

PROC = Path("/proc")
RUNS = {"a language model": ["quickstart", *SMALL], "a finite game": FINITE}


def listening(process) -> bool:
    """Whether the process runs our code: it handles SIGTERM, as Python alone does not."""
    try:
        status = (PROC / str(process.pid) / "status").read_text()
    except OSError:
        return False
    (mask,) = (line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(mask.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def begun(process) -> None:
    while process.poll() is None and not listening(process):
        time.sleep(0.002)


def check_stopped(process, out: str, err: str) -> None:
    assert "Traceback" not in out + err, err
    assert "Exception ignored" not in err and "KeyboardInterrupt" not in err, err
    # A run that was quicker than the signal is a finished run.
    assert process.returncode in (0, 130), err
    assert process.returncode == 0 or "stopped" in err


@pytest.fixture(autouse=True)
def _with_proc():
    if not PROC.is_dir():
        pytest.skip("this system has no /proc to see a process's signals in")


def moments(*quick, slow=()):
    """Seconds, of which the tests in `slow` are left to the slow suite."""
    return [*quick, *(pytest.param(t, marks=pytest.mark.slow) for t in slow)]


@pytest.mark.long
@pytest.mark.parametrize("delay", moments(0.2, slow=[0, 0.1, 0.5, 0.8, 1.5, 3, 5, 8]))
def test_once_during_the_start(tmp_path, delay):
    process = start("run", *RUNS["a language model"], "--out", "run", cwd=tmp_path)
    begun(process)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    check_stopped(process, out, err)


@pytest.mark.long
@pytest.mark.parametrize("gap", moments(0.02, slow=[0, 0.2, 0.4]))
@pytest.mark.parametrize("delay", moments(0.5, slow=[2, 4, 6]))
def test_twice(tmp_path, delay, gap):
    process = start("run", *RUNS["a finite game"], "--out", "run", cwd=tmp_path)
    begun(process)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    time.sleep(gap)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    check_stopped(process, out, err)


@pytest.mark.slow
def test_what_was_recorded_can_be_resumed_after_two(tmp_path, command):
    """Adds the second Ctrl-C to the one of tests/cli/test_bad_input.py."""
    process = start(*["run", FINITE[0], *settings(generations=9000), "--out", "run"], cwd=tmp_path)
    wait_for_record(process, tmp_path / "run", "3/measure")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    check_stopped(process, out, err)
    done = command("status", "run", "--json")
    assert json.loads(done.out)["generation"] >= 3


def test_a_process_that_ignores_ctrl_c_goes_on_doing_so(tmp_path):
    """As what a shell starts in the background does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = os.posix_spawn(
            "/bin/sh",
            [
                "sh",
                "-c",
                "exec python3 -c 'import signal; from equipoise.system import interrupts; "
                "interrupts.stop_first(); "
                "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN'",
            ],
            {**os.environ, "PATH": f"{Path(os.sys.executable).parent}:/usr/bin:/bin"},
        )
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    finally:
        signal.signal(signal.SIGINT, before)


AT_IMPORT = """
import os, signal, sys

class Interrupting:
    '''Sends Ctrl-C to this process at the n-th import since the command's first statement.'''
    count, last = None, int(sys.argv[1])
    def find_spec(self, name, path=None, target=None):
        if name == "equipoise.__main__":
            self.count = 0
        elif self.count is not None:
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGINT)
        return None

for name in [*sys.modules]:  # what a start of Python has not loaded
    if name.partition(".")[0] in ("typing", "enum", "signal", "collections", "contextlib", "re"):
        if name not in ("signal", "_signal"):
            del sys.modules[name]
del sys.modules["signal"]
import _signal
signal = _signal
sys.argv[0] = "equipoise"
sys.meta_path.insert(0, Interrupting())
from equipoise.__main__ import main
sys.argv[1:] = ["recipes"]
main()
"""


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 2, 5, 20, 60])
def test_at_an_import_of_the_start(n, tmp_path):
    """Before the modules that handle signals are themselves imported, too."""
    done = subprocess.run(
        [sys.executable, "-c", AT_IMPORT, str(n)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "stopped" in done.stderr
