"""Places that a run cannot be made in, systems without locks, a hub that is not there: one message
each, code 2.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import FINITE


@pytest.mark.long
@pytest.mark.parametrize(
    "out", ["new/run", pytest.param("run", marks=pytest.mark.slow)]
)  # slow: without a folder between
def test_a_read_only_folder(tmp_path, out):
    """A real file system, mounted for reading alone in a namespace of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o ro tmpfs {disk}"
    inside = ["unshare", "-rm", "sh", "-c"]
    probe = subprocess.run([*inside, mount], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip(f"this machine does not let a test mount: {probe.stderr.decode()}")
    command = f"{sys.executable} -m equipoise run {FINITE[0]} --out {out}"
    done = subprocess.run(
        [*inside, f"{mount} && cd {disk} && {command}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().splitlines() == [
        f"error: {disk}: cannot be written (Read-only file system); choose another --out"
    ]


def test_a_system_without_locks(command, monkeypatch):
    """As Windows is: Python has no module fcntl there."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    done = command("run", *FINITE, "--out", "run")
    assert done.code == 2
    assert "no file locks" in done.err
    assert "WSL 2" in done.err
    assert not Path("run").exists()


def test_doctor_says_so_too(monkeypatch):
    from equipoise.planning import machine_checks as doctor

    monkeypatch.setitem(sys.modules, "fcntl", None)
    checks = doctor.checks()
    assert doctor.run_check("this folder", checks["this folder"]).ok
    locks = doctor.run_check("locks", checks["locks"])
    assert not locks.ok
    assert "WSL 2" in locks.finding
