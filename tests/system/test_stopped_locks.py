"""A process that holds a lock is stopped (SIGSTOP): nobody waits for it for ever."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import people_run
import pytest

from equipoise.errors import RunBusy, RunError
from equipoise.ledger.database import Database
from equipoise.ledger.votes_and_matches import AnswerRef, HumanVote, votes_of
from equipoise.runs.directory import RunDirectory
from equipoise.system import locks
from equipoise.system.user_secret import LENGTH, user_secret

LOCKS = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""
WRITES = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
db.execute("INSERT INTO meta VALUES ('a', 'b', 0)")
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def stopped(code, path):
    """While it is open, a stopped process has done what `code` does with a file."""
    holder = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        os.kill(holder.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED)
        yield holder.pid
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()


def test_a_run_whose_player_is_stopped_is_busy_at_once_and_can_be_read(tmp_path):
    run = people_run.write(tmp_path / "run")
    with stopped(LOCKS, run / ".lock"):
        started = time.monotonic()
        with pytest.raises(RunBusy, match="in use by another process"), RunDirectory.open(run):
            pass
        with RunDirectory.read(run) as opened:
            assert len(opened.ledger.matches("held_out")) == 12
        assert time.monotonic() - started < locks.PATIENCE / 2
    with RunDirectory.open(run):
        pass


def test_a_ledger_that_a_stopped_process_writes_can_be_read(tmp_path):
    run = people_run.write(tmp_path / "run")
    with (
        stopped(WRITES, run / "ledger.sqlite"),
        Database.open(run / "ledger.sqlite", reading=True) as ledger,
    ):
        assert ledger.meta("schema")
        assert not ledger.meta("a")
    with Database.open(run / "ledger.sqlite") as ledger:
        assert not ledger.meta("a")


def test_a_vote_does_not_wait_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.1)
    run = people_run.write(tmp_path / "run")
    votes = votes_of(run)
    vote = HumanVote(AnswerRef("a", "1"), AnswerRef("b", "1"), "left", "ann")
    votes.add(vote)
    with stopped(LOCKS, votes.path), pytest.raises(RunError, match="may be stopped"):
        votes.add(vote)
    votes.add(vote)
    assert len(votes.read()) == 2


def test_the_secret_is_made_although_another_that_makes_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "equipoise").mkdir()
    with stopped(LOCKS, tmp_path / "equipoise" / "secret.lock"):
        secret = user_secret()
        assert len(secret) == LENGTH
        assert user_secret() == secret
