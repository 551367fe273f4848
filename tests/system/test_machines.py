"""What is known of machines that share a disk."""

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from equipoise.errors import RunBusy, RunError
from equipoise.learners.training_worker import wait_for_silence
from equipoise.system.folder import Folder
from equipoise.system.locks import hold_lock, lock, machine, network_disk


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/a/run", ""),
        ("/data/shared/run", "nfs4"),
        ("/data/shared/local/run", ""),
        ("/data/my disk/run", "fuse.sshfs"),
        ("/data/sharedother", ""),
        ("/data/données/run", "nfs"),
    ],
)
def test_a_network_disk_is_known_by_its_mount(path, kind, tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\n"
        "server:/x /data/shared nfs4 rw 0 0\n"
        "/dev/vdb /data/shared/local ext4 rw 0 0\n"
        "host:/y /data/my\\040disk fuse.sshfs rw 0 0\n"
        "host:/z /data/données nfs rw 0 0\n"
    )
    assert network_disk(Path(path), mounts) == kind
    assert network_disk(Path(path), tmp_path / "absent") == ""


def test_one_kernel_is_one_machine():
    assert machine() == machine() != ""


@pytest.mark.long
def test_a_beat_that_stops_ends_the_wait_and_one_that_goes_on_does_not(tmp_path):
    beat = tmp_path / "beat"
    ended = threading.Event()
    waiting = threading.Thread(target=lambda: (wait_for_silence(beat, 2.0), ended.set()))
    waiting.start()
    for n in range(10):
        beat.write_text(str(n))
        time.sleep(0.1)
        assert not ended.is_set()
    waiting.join()
    assert ended.is_set()


def test_who_only_looks_keeps_nobody_out(tmp_path):
    path = tmp_path / ".lock"
    with path.open("w") as looked:
        lock(looked, shared=True)
        threading.Timer(0.05, looked.close).start()
        with Folder.open(tmp_path) as folder, hold_lock(folder, RunBusy):
            pass


def test_a_disk_without_locks_is_one_message(tmp_path, monkeypatch):
    """As a network's without its lock service."""

    def refuse(file, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        pytest.raises(RunError, match=r"\.lock: cannot be locked .*No locks available"),
        Folder.open(tmp_path) as folder,
        hold_lock(folder, RunBusy),
    ):
        raise AssertionError("it was held")
