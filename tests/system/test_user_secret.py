"""The user's secret: whole, private, and the same for two processes that make it at once."""

import os
import stat
import subprocess
import sys

import pytest

from equipoise.ledger.ledger import Ledger
from equipoise.runs import consent
from equipoise.system import user_secret
from equipoise.system.effects import Effect, Effects

EFFECTS = Effects(
    (Effect("executes", "mine:score", "judge.function", "executes mine:score", "mine:score"),)
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the secret lies, in a home of its own that has none yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = user_secret.secret_place()
    place.parent.mkdir(parents=True)
    return place


def is_whole(place) -> bool:
    status = place.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_mode & 0o777 == 0o600 and status.st_size == 32


def test_the_secret_is_made_once_and_kept(place):
    assert user_secret.recorded_secret() is None
    secret = user_secret.user_secret()
    assert len(secret) == 32
    assert is_whole(place)
    assert user_secret.user_secret() == user_secret.recorded_secret() == secret
    assert user_secret.user_key("one") != user_secret.user_key("another")
    assert secret not in (user_secret.user_key("one"), user_secret.user_key("another"))


def broken_secret(kind, place):
    """Put something at the place of the secret that is none."""
    elsewhere = place.parent.parent / "elsewhere"
    if kind == "link":
        elsewhere.write_bytes(b"k" * 32)
        elsewhere.chmod(0o600)
        place.symlink_to(elsewhere)
    elif kind == "folder":
        place.mkdir()
    elif kind == "fifo":
        os.mkfifo(place, 0o600)
    else:
        place.write_bytes(
            {"empty": b"", "short": b"k" * 31, "long": b"k" * 33}.get(kind, b"k" * 32)
        )
        place.chmod(0o640 if kind == "group may read" else 0o600)
    if kind == "another's":
        if os.geteuid() != 0:
            pytest.skip("needs root to make a file another user's")
        os.chown(place, 65534, 65534)


@pytest.mark.parametrize(
    "kind", ["empty", "short", "long", "group may read", "another's", "link", "folder", "fifo"]
)
def test_what_is_no_secret_is_made_anew_and_asks_again(place, tmp_path, kind):
    """A run signed with it, by whoever knew it or by this user, is not this user's any more."""
    broken_secret(kind, place)
    known = b"" if kind == "empty" else b"k" * {"short": 31, "long": 33}.get(kind, 32)
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        forged = consent._signature(ledger, EFFECTS, known)
        ledger.note(consent.SIGNATURE, forged)
        assert not consent.is_own(ledger, EFFECTS)
        assert consent.sign(ledger, EFFECTS) == ()
        assert consent.is_own(ledger, EFFECTS)
        assert ledger.meta(consent.SIGNATURE) != forged
    assert is_whole(place)
    if kind == "link":  # what it led to is as it was
        assert (place.parent.parent / "elsewhere").read_bytes() == b"k" * 32


MAKE = """
import os, resource, sys
from equipoise.system.user_secret import user_secret
if sys.argv[1] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    print(user_secret().hex())
except OSError as error:
    print(error.strerror)
"""


def maker(how):
    return subprocess.Popen(
        [sys.executable, "-c", MAKE, how], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )


@pytest.mark.long
def test_a_full_disk_leaves_no_part_of_a_secret(place):
    assert maker("full").communicate()[0].strip() == "File too large"
    assert user_secret.recorded_secret() is None
    assert [each.name for each in place.parent.iterdir()] == ["secret.lock"]
    with_room = maker("room").communicate()[0].strip()
    assert bytes.fromhex(with_room) == user_secret.recorded_secret()
    assert is_whole(place)


@pytest.mark.long
@pytest.mark.parametrize("before", ["none", "empty"])
def test_processes_that_make_it_at_once_have_the_same(place, before):
    if before == "empty":
        place.touch(0o600)
    makers = [maker("room") for _ in range(6)]
    secrets = {each.communicate()[0].strip() for each in makers}
    assert secrets == {user_secret.user_secret().hex()}


def test_without_a_place_for_it_consent_says_so_and_keys_are_this_process_s(place, tmp_path):
    place.parent.rmdir()
    place.parent.write_text("a file in the way")
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        (note,) = consent.sign(ledger, EFFECTS)
        assert "cannot remember that you agreed to this" in note
        assert not consent.is_own(ledger, EFFECTS)
    assert user_secret.user_key("a purpose") == user_secret.user_key("a purpose")
    assert len(user_secret.user_key("a purpose")) == 32
