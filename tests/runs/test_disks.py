"""Disks that are full or cannot be written, and a limit on the size of files: one message, nothing
lost, and what is there can be read. Real file systems, in a namespace of their own.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from small_runs import FINITE

import equipoise
from equipoise.runs.directory import RunDirectory

pytestmark = pytest.mark.long  # each starts the command anew
COMMAND = f"{sys.executable} -m equipoise"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of a finite game."""
    folder = tmp_path_factory.mktemp("disks") / "run"
    equipoise.run(FINITE[0], {"generations": 12}, out=folder, progress=False)
    return folder


def shell(script: str, folder: Path) -> subprocess.CompletedProcess:
    """Run a script that may mount, where this machine allows it."""
    inside = ["unshare", "-rm", "sh", "-c"]
    probe = subprocess.run(
        [*inside, f"mount -t tmpfs tmpfs {folder}"], capture_output=True, check=False
    )
    if probe.returncode:
        pytest.skip(f"this machine does not let a test mount: {probe.stderr.decode()}")
    return subprocess.run(
        [*inside, script], capture_output=True, text=True, check=False, env={**os.environ}
    )


def numbers(run: Path) -> list:
    with RunDirectory.read(run) as opened:
        return [stage[:4] for stage in opened.ledger.stages("measure")]


@pytest.mark.parametrize("state", ["killed", "closed"])
def test_a_run_is_read_on_a_disk_that_cannot_be_written(finished, tmp_path, state):
    """Also one whose process was killed, and whose journal holds records."""
    run = shutil.copytree(finished, tmp_path / "run")
    if state == "killed":
        script = (
            "import os, sys; from pathlib import Path; "
            "from equipoise.ledger.ledger import Ledger; "
            "ledger = Ledger.open(Path(sys.argv[1])); "
            "ledger.finish('late', 12, 'late', {}, 0.0); os._exit(0)"
        )
        subprocess.run([sys.executable, "-c", script, run / "ledger.sqlite"], check=True)
        assert (run / "ledger.sqlite-wal").stat().st_size
    before = {path.name for path in run.iterdir()}
    done = shell(
        f"mount --bind {run} {run} && mount -o remount,ro,bind {run} && "
        f"{COMMAND} status {run} --json && {COMMAND} check {run} >&2; "
        f"{COMMAND} resume {run} >&2; echo $? >&2",
        tmp_path / "run",
    )
    facts = json.loads(done.stdout)
    assert facts["finished"]
    assert facts["last_stage"] == ("late" if state == "killed" else "12/measure")
    assert "Traceback" not in done.stderr and done.stderr.endswith("2\n"), done.stderr
    assert {path.name for path in run.iterdir()} == before


def test_a_full_disk_loses_nothing(finished, tmp_path):
    """The run stops with one message, is read on the full disk, and goes on when there is space
    again.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    run = f"{COMMAND} run {FINITE[0]} -s generations=12 --out {disk}/run"
    done = shell(
        f"mount -t tmpfs -o size=360k tmpfs {disk} && "
        f"{run} 2>&1; echo 'code' $?; cat /dev/zero > {disk}/filler 2>/dev/null; "
        f"{COMMAND} status {disk}/run --json > {tmp_path}/status 2>&1; echo 'code' $?; "
        f"rm {disk}/filler; mount -o remount,size=64m {disk} && "
        f"{COMMAND} resume {disk}/run 2>&1; echo 'code' $?; "
        f"cp -r {disk}/run {tmp_path}/copy",
        disk,
    )
    codes = [line for line in done.stdout.splitlines() if line.startswith("code ")]
    assert codes == ["code 1", "code 0", "code 0"], done.stdout
    assert "Traceback" not in done.stdout
    assert "free some" in done.stdout
    assert not json.loads((tmp_path / "status").read_text())["finished"]
    assert numbers(tmp_path / "copy") == numbers(finished)


def test_a_limit_on_the_size_of_files_loses_nothing(finished, tmp_path):
    """`ulimit -f`, as batch systems set it."""
    command = [sys.executable, "-m", "equipoise"]
    limited = subprocess.run(
        [*command, "run", FINITE[0], "-s", "generations=12", "--out", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (150_000, -1)),
    )
    assert limited.returncode == 1 and "Traceback" not in limited.stderr, limited.stderr
    assert "free some" in limited.stderr
    equipoise.open_run(tmp_path / "run").resume(progress=False)
    assert numbers(tmp_path / "run") == numbers(finished)
