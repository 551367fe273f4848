"""A faulty configuration in words: where the fault is, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from equipoise.errors import ConfigError

UNION_ARMS = ("str", "int", "float", "bool")
SELF_EXPLAINING = ("unknown_key", "unknown_kind", "kind", "value_error")
SHORT = 60  # characters of a value that a message repeats


def config_error(error: ValidationError, source: str, origins: Mapping[str, str]) -> ConfigError:
    """One line for each fault: file or override, key, and what is wrong.

    `source` is the file that was read; `origins` says which override set a key.
    """
    # A default that could not be made because of another fault is no fault of its own.
    faults = [fault for fault in error.errors() if fault["type"] != "default_factory_not_called"]
    lines = dict.fromkeys(_line(fault, source, origins) for fault in faults)
    return ConfigError("\n".join(lines))


def _line(fault: Any, source: str, origins: Mapping[str, str]) -> str:
    keys = [str(key) for key in fault["loc"] if "[" not in str(key) and key not in UNION_ARMS]
    path = ".".join(keys)
    if fault["type"] == "unknown_key":
        keys.append(fault["ctx"]["key"])
    place = _place(".".join(keys), source, origins)
    message = _message(fault, path)
    return f"{place}: {path}: {message}" if path else f"{place}: {message}"


def _place(path: str, source: str, origins: Mapping[str, str]) -> str:
    """The override that set this key or a part of it, else the file."""
    for key, override in origins.items():
        if path == key or key.startswith(f"{path}."):
            return override
    return source


def _message(fault: Any, path: str) -> str:
    if fault["type"] == "missing" or fault.get("input", "") is None:
        return f"is required; set it with -s {path}=…" if path else "is empty"
    message = fault["msg"].removeprefix("Value error, ")
    value = repr(fault["input"])
    if fault["type"] not in SELF_EXPLAINING and len(value) < SHORT:
        message += f" (got {value})"
    return message
