"""Values in a row of a data set: chats, and facts as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from equipoise.errors import DataError
from equipoise.types import Message, user

ROLES = ("system", "user", "assistant")
# What ShareGPT's rows call them.
SHAREGPT = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
}


def read_chat(value: Any, where: str) -> tuple[Message, ...]:
    """The messages of a chat: a text, a list with a text, or a list of messages.

    Raises DataError, beginning with `where`, for anything else.
    """
    if isinstance(value, str):
        return (user(value),)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return (user(value[0]),)
    if not isinstance(value, list) or not value:
        raise DataError(
            f"{where}: needs a text, or a list of messages with role and content; "
            f"this is {type_name(value)}"
        )
    return tuple(_message(item, i, where) for i, item in enumerate(value, 1))


def _message(item: Any, number: int, where: str) -> Message:
    if isinstance(item, Mapping) and "from" in item and "value" in item:
        item = {"role": SHAREGPT.get(str(item["from"]), item["from"]), "content": item["value"]}
    if not isinstance(item, Mapping) or not isinstance(item.get("content"), str):
        raise DataError(f"{where}: message {number} needs a role and a content, both text")
    if item.get("role") not in ROLES:
        raise DataError(
            f"{where}: message {number} has the role {item.get('role')!r}; "
            f"known: {', '.join(ROLES)}"
        )
    return Message(item["role"], item["content"])


def plain(value: Any, where: str) -> Any:
    """`value` as plain data that can be recorded.

    Raises DataError, beginning with `where`, where it cannot be.
    """
    try:
        return msgspec.to_builtins(value)
    except TypeError as error:
        raise DataError(
            f"{where}: holds {type_name(value)}, which cannot be kept as a fact; "
            "leave the column out"
        ) from error


def type_name(value: Any) -> str:
    """What a value is, for messages: "a list", "an object" …"""
    names = {
        list: "a list",
        dict: "an object",
        type(None): "null",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), f"a {type(value).__name__}")
