"""The effects of a configuration that need the user's consent: a user's own parts and models' own
code that it would execute, keys that it would send. They are named before a run is played, and a
run that was not begun here by this user is played only with consent.

Who began a run: where its configuration has such effects, the ledger keeps a signature of them, of
the folder the run was begun in and of a secret in this user's home
(`$XDG_STATE_HOME/equipoise/secret`). A run from elsewhere has no such signature, and one that was
changed on the way has another.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from equipoise.component import Component
from equipoise.errors import RunError
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.ledger import Ledger
from equipoise.system.user_parts import fingerprint, is_users, only_reading

SIGNATURE = "begun_by"  # under which the ledger keeps the signature
PARTS = "users_parts"  # and under which what reading needs to know of a user's parts


@dataclass(frozen=True)
class Effects:
    """Import paths of users' parts, models whose own code runs, (variable of a key, its host)."""

    parts: tuple[str, ...] = ()
    model_code: tuple[str, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.parts or self.model_code or self.keys)

    def notes(self) -> tuple[str, ...]:
        """One line for each, to be shown before anything is done."""
        return (
            *(f"runs code that is not Equipoise's: {path}" for path in self.parts),
            *(f"runs the code in the model {model}" for model in self.model_code),
            *(f"sends the key in {name} to {host}" for name, host in self.keys),
        )


def recipe_effects(recipe: recipe_loader.Recipe, overrides: recipe_loader.Overrides) -> Effects:
    """The effects of a recipe; imports nothing of a user's. Raises as `recipe_loader.load`."""
    with only_reading() as reading:
        config = recipe_loader.load(recipe, overrides)
    return config_effects(config, reading.named)


def config_effects(config: RunConfig, parts: Mapping[str, None]) -> Effects:
    """The effects of a configuration, of which `parts` are a user's."""
    settings = list(_mappings(config.model_dump(mode="json")))
    code = (s.get("model") for s in settings if s.get("trust_remote_code"))
    keys = (
        (str(s["api_key_env"]), _host(url))
        for s in settings
        if s.get("api_key_env")
        for url in _addresses(s)
    )
    return Effects(
        tuple(parts), tuple(dict.fromkeys(str(model) for model in code)), tuple(dict.fromkeys(keys))
    )


def _addresses(settings: Mapping[str, Any]) -> list[str]:
    """The addresses to which settings with a key send it: one, or those of a pool."""
    given = settings.get("base_url")
    urls = given if isinstance(given, list) else [given]
    return [str(url) for url in (*urls, *settings.get("replicas", ()))]


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for inner in value.values():
            yield from _mappings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _mappings(inner)


def _host(address: str) -> str:
    return urlsplit(address).netloc.rpartition("@")[2] or address


# -- consent


def sign(ledger: Ledger, effects: Effects) -> tuple[str, ...]:
    """Record this user's agreement in the ledger; a note where that cannot be remembered."""
    if not effects:
        return ()
    try:
        secret = _secret()
    except OSError as error:
        return (
            f"cannot remember that you agreed to this ({error}); `equipoise resume` will "
            "ask for --trust",
        )
    ledger.note(SIGNATURE, _signature(ledger, effects, secret))
    return ()


def has_consent(ledger: Ledger, effects: Effects) -> bool:
    """True if the run has no such effects, or its signature is this user's."""
    if not effects:
        return True
    place = _place()
    if not place.is_file():
        return False
    expected = _signature(ledger, effects, place.read_bytes())
    return hmac.compare_digest(ledger.meta(SIGNATURE), expected)


def check_consent(
    ledger: Ledger, effects: Effects, trust: bool, remember: bool = True
) -> tuple[str, ...]:
    """Check that the user agreed to a run's effects; notes to show before it is played.

    Raises RunError for somebody else's run with effects the user has not agreed to. `remember`
    needs a writable ledger.
    """
    if has_consent(ledger, effects):
        return effects.notes()
    if not trust:
        raise RunError(
            f"{ledger.path.parent}: was not begun here by you, and to go on with it\n  "
            + "\n  ".join(effects.notes())
            + "\nIf you trust it: --trust (in Python: trust=True)"
        )
    return (*effects.notes(), *(sign(ledger, effects) if remember else ()))


def _signature(ledger: Ledger, effects: Effects, secret: bytes) -> str:
    text = json.dumps([ledger.meta("directory"), asdict(effects)])
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def _place() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "equipoise" / "secret"


def _secret() -> bytes:
    """This user's secret, made when it is first needed."""
    place = _place()
    if not place.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch(mode=0o600)
        place.write_bytes(secrets.token_bytes(32))
    return place.read_bytes()


# -- what is recorded of a user's parts


def record_parts(ledger: Ledger, config: RunConfig) -> None:
    """Keep what reading the run needs to know of its users' parts (the names in `READ`)."""
    facts = {
        fingerprint(part.settings()): {name: getattr(part, name) for name in part.READ}
        for part in _parts(config)
        if is_users(f"{type(part).__module__}.")
    }
    if facts:
        ledger.note(PARTS, json.dumps(facts))


def read_parts(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """The facts of users' parts that `record_parts` kept."""
    return json.loads(ledger.meta(PARTS, "{}"))


def _parts(value: Any) -> Iterator[Component]:
    if isinstance(value, Component):
        yield value
    if isinstance(value, Mapping):
        inner = list(value.values())
    elif isinstance(value, list | tuple):
        inner = list(value)
    else:
        fields = getattr(type(value), "model_fields", {})
        inner = [getattr(value, name) for name in fields]
    for each in inner:
        yield from _parts(each)
