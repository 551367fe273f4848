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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from equipoise.component import Component
from equipoise.errors import RunError
from equipoise.ledger.ledger import Ledger
from equipoise.system.effects import Effects, printable
from equipoise.system.user_parts import file_hash, fingerprint, is_users
from equipoise.system.user_secret import recorded_secret, user_secret

SIGNATURE = "begun_by"  # under which the ledger keeps the signature
PARTS = "users_parts"  # and under which what reading needs to know of a user's parts
FILES = "users_files"  # path of a user's part -> hashes of its file, and since when each


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
            facts[fingerprint(Component.settings(part))] = known
    if facts:
        ledger.note(PARTS, json.dumps(facts))


@dataclass(frozen=True)
class ChangedPart:
    """A user's part whose file was edited; `after`: the newest generation that was measured before
    the edited one was played, None for none.
    """

    part: str
    after: int | None

    def __str__(self) -> str:
        when = "before the first measurement"
        if self.after is not None:
            when = f"after generation {self.after} was measured"
        return (
            f"your part {printable(self.part)} was changed {when}; numbers before and after the "
            "change are not of one kind"
        )


def record_files(ledger: Ledger, effects: Effects, home: Path) -> None:
    """Keep which file of each of a user's parts the run goes on with from here."""
    known = _file_history(ledger)
    measured = last_measured(ledger)
    for path, code in _files_now(effects, home).items():
        before = known.setdefault(path, [])
        if not before or before[-1][1] != code:
            before.append((measured, code))
    if known:
        ledger.note(FILES, json.dumps(known))


def changed_parts(ledger: Ledger) -> list[ChangedPart]:
    """The users' parts that were edited between generations, each as often as it was."""
    history = _file_history(ledger)
    return [ChangedPart(path, at) for path, files in history.items() for at, _ in files[1:]]


def newest_files(ledger: Ledger) -> dict[str, str]:
    """Path of a user's part -> a hash of the file that the run went on with last."""
    return {path: files[-1][1] for path, files in _file_history(ledger).items() if files}


def edited_parts(ledger: Ledger, effects: Effects, home: Path) -> list[ChangedPart]:
    """`changed_parts`, and those that are edited now; nothing is recorded."""
    history = _file_history(ledger)
    measured = last_measured(ledger)
    edited = []
    for path, code in _files_now(effects, home).items():
        if path in history and history[path][-1][1] != code:
            edited.append(ChangedPart(path, measured))
    return [*changed_parts(ledger), *edited]


def last_measured(ledger: Ledger) -> int | None:
    """The newest generation that was measured, None for none."""
    return max((stage.generation for stage in ledger.stages("measure")), default=None)


def _files_now(effects: Effects, home: Path) -> dict[str, str]:
    paths = dict.fromkeys(each.what for each in effects.all if each.is_part)
    return {path: code for path in paths if (code := file_hash(path, home))}


def _file_history(ledger: Ledger) -> dict[str, list[tuple[int | None, str]]]:
    """Path of a user's part -> its files, oldest first: the newest generation that was measured
    before the run went on with it, and its hash.
    """
    known = json.loads(ledger.meta(FILES, "{}"))
    return {
        str(path): [(None, files)] if isinstance(files, str) else [(at, c) for at, c in files]
        for path, files in known.items()
    }


def read_parts(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """The facts of users' parts that `record_parts` kept."""
    return json.loads(ledger.meta(PARTS, "{}"))
