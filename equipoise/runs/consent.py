"""The user's consent to the effects of a run (`system.effects`): code that it executes, addresses
that it sends to, files that it reads. A run that has any and was not begun here by this user is
played only with consent.

Who began a run: the ledger keeps a signature of its configuration's effects and of the folder the
run was begun in, made with this user's secret (`system.user_secret`). A run from elsewhere has no
such signature, and one that was changed on the way has another.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from equipoise.component import Component
from equipoise.errors import RunError
from equipoise.ledger.ledger import Ledger
from equipoise.system.effects import Effects
from equipoise.system.user_parts import file_hash, fingerprint, is_users
from equipoise.system.user_secret import recorded_secret, user_secret

SIGNATURE = "begun_by"  # under which the ledger keeps the signature
PARTS = "users_parts"  # and under which what reading needs to know of a user's parts
FILES = "users_files"  # path of a user's part -> a hash of its file


# -- consent


def sign(ledger: Ledger, effects: Effects) -> tuple[str, ...]:
    """Record this user's agreement in the ledger; a note where that cannot be remembered."""
    try:
        secret = user_secret()
    except OSError as error:
        if not effects:
            return ()
        return (
            f"cannot remember that you agreed to this ({error}); `equipoise resume` will "
            "ask for --trust",
        )
    ledger.note(SIGNATURE, _signature(ledger, effects, secret))
    return ()


def has_consent(ledger: Ledger, effects: Effects) -> bool:
    """True if the run has no effects, or its signature is this user's."""
    return not effects or is_own(ledger, effects)


def is_own(ledger: Ledger, effects: Effects) -> bool:
    """True if the run's signature is this user's."""
    secret = recorded_secret()
    if secret is None:
        return False
    expected = _signature(ledger, effects, secret)
    return hmac.compare_digest(ledger.meta(SIGNATURE), expected)


def check_consent(
    ledger: Ledger, effects: Effects, trust: bool, remember: bool = True
) -> tuple[str, ...]:
    """Check that the user agreed to a run's effects; notes to show before it is played.

    Raises RunError for somebody else's run with effects the user has not agreed to. `remember`
    needs a writable ledger.
    """
    if is_own(ledger, effects):
        return effects.notes(quiet=True)
    if effects and not trust:
        raise RunError(question(ledger, effects))
    return (*effects.notes(), *(sign(ledger, effects) if trust and remember else ()))


def question(ledger: Ledger, effects: Effects) -> str:
    """What the user is asked before a run of somebody else's goes on."""
    return (
        "\n  ".join(
            [
                f"{ledger.path.parent}: was not begun here by you, and to go on with it",
                *effects.notes(),
            ]
        )
        + "\nIf you trust it: --trust (in Python: trust=True)"
    )


def _signature(ledger: Ledger, effects: Effects, secret: bytes) -> str:
    text = json.dumps([ledger.meta("directory"), effects.signed()])
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


# -- what is recorded of a user's parts


def record_parts(ledger: Ledger, parts: Iterable[BaseModel]) -> None:
    """Keep what reading the run needs to know of its users' parts (the names in `READ`)."""
    facts: dict[str, dict[str, Any]] = {}
    for part in parts:
        if isinstance(part, Component) and is_users(f"{type(part).__module__}."):
            known = {name: getattr(part, name) for name in part.READ}
            facts[fingerprint(part.settings())] = known
    if facts:
        ledger.note(PARTS, json.dumps(facts))


def edited_parts(ledger: Ledger, effects: Effects, home: Path) -> tuple[str, ...]:
    """Notes on files of a user's parts that were others when last run; keeps what they hold."""
    paths = {each.what: each.setting for each in effects.all if each.is_part}
    known = json.loads(ledger.meta(FILES, "{}"))
    now = {path: code for path in paths if (code := file_hash(path, home))}
    if now.items() - known.items():
        ledger.note(FILES, json.dumps(known | now))
    return tuple(
        f"{paths[path]}: the file of {path} is not as it was when the run last went on; what is "
        "recorded came of it as it was"
        for path, code in now.items()
        if known.get(path, code) != code
    )


def read_parts(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """The facts of users' parts that `record_parts` kept."""
    return json.loads(ledger.meta(PARTS, "{}"))
