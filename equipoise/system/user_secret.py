"""The user's secret: 32 random bytes in their home, which no run and no recipe holds.

It lies at `$XDG_STATE_HOME/equipoise/secret`, by default below `~/.local/state`. It signs the runs
that this user began (`runs.consent`), and the codes of judges' questions come from it
(`judges.quoting`). Only a regular file of this user's that nobody else may read, of exactly 32
bytes, is a secret; anything else at its place is replaced by a new one. It is made whole under
another name and moved into place, so that neither a full disk nor a kill leaves a part of it.
"""

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from equipoise.errors import RunError
from equipoise.system.locks import lock

LENGTH = 32  # bytes
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def secret_place() -> Path:
    """The path of the secret."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "equipoise" / "secret"


def recorded_secret() -> bytes | None:
    """The secret as it lies there; None where there is none, or what is there is none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(secret_place(), flags)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        is_private = not status.st_mode & OTHERS
        if not (is_own and is_private and status.st_size == LENGTH):
            return None
        content = os.read(descriptor, LENGTH + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content if len(content) == LENGTH else None


def user_secret() -> bytes:
    """The secret, made when it is first needed. Raises OSError where it cannot be kept."""
    known = recorded_secret()
    if known is not None:
        return known
    place = secret_place()
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(place.with_name("secret.lock"), flags, 0o600), "r+b") as file:
        with suppress(RunError):  # a disk without locks: the later of two processes wins
            lock(file)
        known = recorded_secret()
        if known is None:
            _make(place)
            known = recorded_secret()
    if known is None:
        raise OSError(f"{place}: this disk keeps no file that is its owner's alone")
    return known


def _make(place: Path) -> None:
    """Put a new secret in its place, whole or not at all."""
    draft = place.with_name(f".secret.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(LENGTH))
            file.flush()
            os.fsync(file.fileno())
        if place.is_dir() and not place.is_symlink():
            place.rename(place.with_name(f"secret.{secrets.token_hex(8)}"))
        draft.replace(place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def user_key(purpose: str) -> bytes:
    """A key of this user's for one purpose, HMAC-SHA256(secret, purpose).

    Where no secret can be kept, as in a home that is read-only, it is this process's alone.
    """
    return _key(purpose, secret_place(), os.getpid())


@lru_cache(maxsize=16)
def _key(purpose: str, place: Path, process: int) -> bytes:
    try:
        secret = user_secret()
    except OSError:
        secret = secrets.token_bytes(LENGTH)
    return hmac.new(secret, purpose.encode(), hashlib.sha256).digest()
