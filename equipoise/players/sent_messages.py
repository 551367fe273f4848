"""A chat in the fields of the chat-completions protocol: its messages, calls, names and tools."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from equipoise.errors import DataError
from equipoise.system.http_bounds import without_surrogates
from equipoise.types import Message

SENT = {"tools", "tool_calls", "function_call", "tool_call_id", "name"}


def chat_fields(messages: Sequence[Message]) -> dict[str, Any]:
    """`messages`, and `tools` where the chat offers some, as servers take them.

    Calls and what tools answered are joined by ids, which are counted out (call_1, …) where the
    data have none. Raises DataError for an answer of a tool that nothing called, and for fields of
    a message that the protocol has no place for.
    """
    sent: list[dict[str, Any]] = []
    tools: list[Any] = []
    waiting: list[str] = []  # ids of calls that no tool has answered so far
    number = 0
    for place, message in enumerate(messages, 1):
        further = json.loads(message.further) if message.further else {}
        unknown = sorted(set(further) - SENT)
        if unknown:
            raise DataError(f"message {place}: an endpoint has no field for its {unknown[0]}")
        tools += further.get("tools", [])
        fields: dict[str, Any] = {
            "role": message.role,
            "content": without_surrogates(message.content),
        }
        if further.get("name"):
            fields["name"] = further["name"]
        calls = list(further.get("tool_calls", []))
        if further.get("function_call"):
            calls.append({"function": further["function_call"]})
        if calls:
            fields["tool_calls"] = []
            fields["content"] = fields["content"] or None
            for call in calls:
                number += 1
                made = call_fields(call, f"call_{number}", place)
                fields["tool_calls"].append(made)
                waiting.append(made["id"])
        if message.role == "tool":
            fields["tool_call_id"] = answered_call(further.get("tool_call_id"), waiting, place)
        sent.append(fields)
    return {"messages": sent, "tools": tools} if tools else {"messages": sent}


def call_fields(call: Any, identity: str, place: int) -> dict[str, Any]:
    """A call with an id and its arguments as JSON text."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise DataError(f"message {place}: a call needs a function with a name")
    arguments = function.get("arguments") or {}
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    written = {"name": function["name"], "arguments": without_surrogates(arguments)}
    return {"id": call.get("id") or identity, "type": "function", "function": written}


def answered_call(given: Any, waiting: list[str], place: int) -> str:
    """The id of the call that a tool's message answers, which waits no longer."""
    if not waiting or (given and given not in waiting):
        raise DataError(
            f"message {place}: is a tool's, and answers no call before it; endpoints take answers "
            "to calls alone"
        )
    identity = given or waiting[0]
    waiting.remove(identity)
    return identity


def written_calls(calls: Iterable[Any]) -> str:
    """Calls of an answer as a text, in the form that most local models write:

    <tool_call>
    {"name": "shop", "arguments": {"of": "pear"}}
    </tool_call>
    """
    texts = []
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise ValueError("a call of the message has no function with a name")
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            with suppress(ValueError, RecursionError):  # else it stays as the model wrote it
                arguments = json.loads(arguments or "{}")
        written = {"name": function["name"], "arguments": arguments or {}}
        texts.append(f"<tool_call>\n{json.dumps(written, ensure_ascii=False)}\n</tool_call>")
    return "\n".join(texts)
