"""Too little memory, and disks that take no more, are one message that names the place."""

import json
import resource
import subprocess
import sys
from functools import partial

import pytest
from small_runs import FINITE

COMMAND = [sys.executable, "-m", "equipoise"]


def limited(folder, kind, most, *arguments, stdout=subprocess.PIPE):
    """The command under a limit of the system on its own."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=partial(resource.setrlimit, kind, (most, resource.RLIM_INFINITY)),
    )


@pytest.mark.long
@pytest.mark.parametrize("megabytes", [300, 600])
def test_too_little_memory_to_load_torch_is_one_message(tmp_path, megabytes):
    most = megabytes * 1024**2
    done = limited(tmp_path, resource.RLIMIT_AS, most, "run", "quickstart", "--out", "run")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "error: not enough memory (" in done.stderr


@pytest.mark.long
def test_a_report_that_cannot_be_written_is_named(tmp_path):
    subprocess.run(
        [*COMMAND, "run", *FINITE, "--out", "run"], cwd=tmp_path, check=True, timeout=300
    )
    done = limited(tmp_path, resource.RLIMIT_FSIZE, 0, "report", "run", "--out", "page.html")
    assert done.returncode == 1
    assert "page.html: cannot write (File too large)" in done.stderr


def test_standard_output_that_takes_no_more_is_named(tmp_path):
    with open("/dev/full", "w") as full:
        done = limited(tmp_path, resource.RLIMIT_CORE, 0, "recipes", stdout=full)
    assert done.returncode == 1
    assert "standard output: cannot write (No space left on device)" in done.stderr


@pytest.mark.long
def test_sft_on_a_full_disk_speaks_of_no_run(tmp_path):
    rows = [{"prompt": f"Add {n} and 1.", "completion": str(n + 1)} for n in range(8)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = ("sft", "builtin/beginner", "rows.jsonl", "--out", "tuned")
    done = limited(tmp_path, resource.RLIMIT_FSIZE, 20_000, *options)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "tuned: no space left to write into; free some, then try again" in done.stderr
    assert "resume" not in done.stderr
    assert not (tmp_path / "tuned").exists()
