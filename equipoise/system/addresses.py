"""Addresses of servers, and the variables of the environment that hold their keys."""

from __future__ import annotations

import os
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from equipoise.errors import ConfigError


def check_address(url: str) -> str:
    """The address of a server. Raises ValueError for one without a host, or with a secret in it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"'{url}' must begin with http:// or https:// and name a host")
    if "@" in parts.netloc or parts.query:
        raise ValueError("must hold no key or password; name the key's variable in api_key_env")
    return url.rstrip("/")


def _check_variable(name: str) -> str:
    # Capitals are asked for because a key pasted here by mistake has small letters: it must not go
    # further.
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
        raise ValueError(
            "must be an environment variable's name, in capitals, such as MY_API_KEY; never the key"
        )
    return name


KeyVariable = Annotated[
    Annotated[str, AfterValidator(_check_variable)] | None,
    Field(
        description="the environment variable that holds the key, not the key; null: "
        "the server asks for none"
    ),
]


def key_of(variable: str | None, server: str) -> str | None:
    """The key in the environment for `server`, None if none is needed. Raises ConfigError."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"the environment variable {variable} is not set; it should hold the key for {server}"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"the environment variable {variable} holds a character that no key has; "
            "was it copied whole, and nothing else with it?"
        )
    return key
