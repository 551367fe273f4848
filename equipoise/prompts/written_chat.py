"""Chats as files hold them: messages under many names, pairs, JSON in a text, dialogues in a text.

Every reader here raises DataError that begins with `where`, the row's place in its file.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from equipoise.errors import DataError
from equipoise.types import Message, user

Chat = tuple[Message, ...]

ROLES = ("system", "user", "assistant")
ROLE_NAMES = {  # the names that data sets give to roles -> ours
    **dict.fromkeys(("system", "developer", "system_prompt"), "system"),
    **dict.fromkeys(("user", "human", "prompter", "person", "customer", "instruction"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "chatbot", "ai", "model"), "assistant"),
    **dict.fromkeys(("bing", "bard", "claude", "llm", "output", "assistant_response"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation", "tool_response", "ipython"), "tool"),
    **dict.fromkeys(("function_response", "function_result", "tool_result"), "tool"),
    "function response": "tool",
    **dict.fromkeys(("function_call", "tool_call", "tool_calls"), "assistant"),
}
CALLS = ("function_call", "tool_call", "tool_calls")  # roles whose content is a call, as JSON
ROLE_KEYS = ("role", "from", "speaker", "author", "sender")
CONTENT_KEYS = ("content", "value", "text", "message", "parts", "utterance")
WEIGHT_KEYS = ("weight", "loss", "loss_weight", "train", "trainable")
FURTHER_KEYS = ("tool_calls", "tool_call_id", "function_call", "name")
THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thought")
MEDIA = ("image", "audio", "video", "file", "document")
# Turns of two texts in one object: {"human": …, "assistant": …}.
TURN_KEYS = (
    ("human", "assistant"),
    ("user", "assistant"),
    ("human", "gpt"),
    ("user", "bot"),
    ("prompt", "response"),
    ("input", "output"),
    ("query", "response"),
    ("instruction", "output"),
    ("question", "answer"),
)
WRITTEN_LIST = re.compile(r"\s*[\[{]\s*[\[{]?\s*['\"]")
# Between the turns of a dialogue in a text. Of several kinds the first that fits is meant.
SPEAKERS = (
    "Human|User|Assistant|System|Bot|AI|GPT|Prompter|HUMAN|USER|ASSISTANT|SYSTEM|FUNCTION RESPONSE"
)
DIALOGUES = (
    re.compile(r"<\|im_start\|>\s*(system|user|assistant|tool)\s*\n"),
    re.compile(r"<\|start_header_id\|>(system|user|assistant|ipython)<\|end_header_id\|>\s*"),
    re.compile(r"<start_of_turn>(user|model)\s*\n"),
    re.compile(r"<\|(system|user|assistant)\|>\s*\n?"),
    re.compile(rf"(?:^|\n)\s*###\s*({SPEAKERS})\s*:[ \n]?|\s*###\s+(Human|Assistant):[ \n]?"),
    re.compile(rf"(?:^\s*|\n\n)({SPEAKERS}):[ \n]?"),
    re.compile(rf"(?:^\s*|\n)({SPEAKERS}):[ \n]?"),
)
TURN_ENDS = re.compile(
    r"(<\|im_end\|>|<\|eot_id\|>|<\|end\|>|<end_of_turn>|<\|endoftext\|>|</s>)\s*$"
)
# Llama 2's and Mistral's form: questions in marks, each answer behind its question.
INSTRUCTION = re.compile(r"\[INST\](.*?)\[/INST\](.*?)(?=(?:<s>)?\s*\[INST\]|$)", re.S)
INSTRUCTION_BEGINS = ("[INST]", "<s>[INST]", "<s> [INST]")
INSTRUCTION_SYSTEM = re.compile(r"\s*<<SYS>>\s*(.*?)\s*<</SYS>>\s*", re.S)


@dataclass(frozen=True)
class WrittenChat:
    """A chat as it stood in a row; the messages at `unlearned` places have the weight 0."""

    messages: Chat
    unlearned: frozenset[int] = frozenset()


def read_chat(value: Any, where: str) -> Chat:
    """The messages of a text, a list with a text, or of messages, whatever their weights."""
    return read_messages(value, where).messages


def read_messages(value: Any, where: str) -> WrittenChat:
    """A chat in any of its forms; a text that is no written chat is the user's only message."""
    if isinstance(value, str):
        if not is_chat(value):
            parse_list(value, where)
            return WrittenChat((user(value),))
        value = parse_list(value, where)
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return WrittenChat((user(value[0]),))
    if isinstance(value, Mapping) and isinstance(value.get("messages"), list | str):
        value = parse_list(value["messages"], where) or value["messages"]
    if isinstance(value, Mapping) and is_message(value):
        value = [value]
    if not isinstance(value, list) or not value:
        raise DataError(
            f"{where}: needs a text, or a list of messages with role and content; "
            f"this is {type_name(value)}"
        )
    messages: list[Message] = []
    unlearned: set[int] = set()
    for number, item in enumerate(value, 1):
        item = without_nulls(item)
        for message, learned in read_message(item, number, where):
            if not learned:
                unlearned.add(len(messages))
            messages.append(message)
    return WrittenChat(tuple(messages), frozenset(unlearned))


def read_message(item: Any, number: int, where: str) -> list[tuple[Message, bool]]:
    """The messages of one object in a list, and if each may be learned: mostly one; two of
    a turn like {"human": …, "assistant": …}.
    """
    if not isinstance(item, Mapping):
        raise DataError(f"{where}: message {number} needs a role and a content, both text")
    role_key = next((key for key in ROLE_KEYS if key in item), None)
    if role_key is None:
        turn = next((keys for keys in TURN_KEYS if set(keys) <= item.keys()), None)
        if turn is not None:
            return read_turn(item, turn, f"{where}: message {number}")
        raise DataError(f"{where}: message {number} needs a role and a content, both text")
    given_role = item[role_key]
    if isinstance(given_role, Mapping):  # ChatGPT's exports: {"author": {"role": …}}
        given_role = given_role.get("role")
    role = ROLE_NAMES.get(str(given_role).strip().lower())
    if role is None:
        raise DataError(
            f"{where}: message {number} has the role {given_role!r}; known: system, user, "
            "assistant, tool"
        )
    place = f"{where}: message {number}"
    further = {key: item[key] for key in FURTHER_KEYS if item.get(key)}
    if role not in ("tool", "user"):  # no template writes it
        further.pop("name", None)
    content_key = next((key for key in CONTENT_KEYS if key in item), None)
    is_blank = role == "assistant" and content_key is None  # its content is null
    if content_key is None and not further and not (is_blank and "role" in item):
        raise DataError(f"{place} needs a role and a content, both text")
    content = read_content(item.get(content_key or ""), place)
    if str(given_role).strip().lower() in CALLS and not further:
        calls = written_calls(content)
        if calls is not None:
            further = {"tool_calls": calls}
            content = ""
    for key in THOUGHTS:
        if item.get(key):
            raise DataError(
                f"{place}: {key}: thoughts beside an answer are not learned; write them into its "
                "content, as the model's template does, or drop them"
            )
    for key in item:
        if key.rstrip("s") in MEDIA and item[key]:
            raise DataError(f"{place}: {key}: models here read text alone; leave such rows out")
    learned = True
    for key in WEIGHT_KEYS:
        if key in item:
            learned = read_weight(item[key], f"{place}: {key}") > 0
    written = ""
    if further:
        written = json.dumps(plain(further, place), ensure_ascii=False, sort_keys=True)
    return [(Message(role, content, written), learned)]


def written_calls(text: str) -> list[Any] | None:
    """The calls that a text writes as JSON: {"name": …, "arguments": …} or a list of them; None for
    other texts, which stay texts.
    """
    try:
        calls = json.loads(text)
    except (ValueError, RecursionError):
        return None
    made = []
    for call in calls if isinstance(calls, list) else [calls]:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return None
        arguments = call.get("arguments", call.get("parameters", {}))
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        function = {"name": call["name"], "arguments": arguments}
        made.append({"type": "function", "function": function})
    return made or None


def read_turn(
    item: Mapping[str, Any], keys: tuple[str, str], where: str
) -> list[tuple[Message, bool]]:
    """The two messages of a turn that is one object, and its system message before them."""
    messages: list[tuple[Message, bool]] = []
    if item.get("system"):
        messages.append((Message("system", read_content(item["system"], f"{where}: system")), True))
    for key, role in zip(keys, ("user", "assistant"), strict=True):
        messages.append((Message(role, read_content(item[key], f"{where}: {key}")), True))
    return messages


def read_content(value: Any, where: str) -> str:
    """The text of a message: a text, or parts that are texts alone."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and "parts" in value:
        value = value["parts"]
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        raise DataError(f"{where} needs a role and a content, both text")
    texts: list[str] = []
    for part in value:
        if isinstance(part, str):
            texts.append(part)
            continue
        part = without_nulls(part)
        if not isinstance(part, Mapping):
            raise DataError(f"{where}: its content holds {type_name(part)}, not text")
        kind = str(part.get("type", "text"))
        if kind not in ("text", "input_text", "output_text") or "text" not in part:
            if kind in (*THOUGHTS, "redacted_thinking"):
                raise DataError(
                    f"{where}: a part of its content is '{kind}': thoughts beside an answer are "
                    "not learned; write them into its text, as the model's template does, or drop "
                    "them"
                )
            named = kind if kind != "text" else ", ".join(map(str, part)) or "nothing"
            raise DataError(
                f"{where}: a part of its content is '{named}'; models here read text alone; "
                "leave such rows out"
            )
        texts.append(read_content(part["text"], where))
    return "".join(texts)


def read_weight(value: Any, where: str) -> float:
    """0 or 1: what may be learned. Raises DataError for shares, which no learner has."""
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        value = value.strip().lower() == "true"
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = -1.0
    if weight not in (0.0, 1.0):
        raise DataError(
            f"{where}: is {value!r}; an answer is learned (1) or is context (0): write one of these"
        )
    return weight


def read_history(value: Any, where: str) -> Chat:
    """Earlier turns: [[question, answer], …], or messages."""
    if isinstance(value, str):
        value = parse_list(value, where)
        if value is None:
            raise DataError(f"{where}: needs a list of [question, answer], or of messages")
    if isinstance(value, Mapping):
        value = value.get("messages")
    if not isinstance(value, list | tuple):
        raise DataError(f"{where}: needs a list of [question, answer], or of messages")
    messages: list[Message] = []
    for number, turn in enumerate(value, 1):
        if isinstance(turn, list | tuple):
            if len(turn) != 2:
                raise DataError(f"{where}: turn {number} needs a question and an answer")
            for role, content in zip(("user", "assistant"), turn, strict=True):
                if not isinstance(content, str):
                    raise DataError(f"{where}: turn {number} needs two texts")
                messages.append(Message(role, content))
        elif isinstance(turn, str):
            role = ("user", "assistant")[len(messages) % 2]
            messages.append(Message(role, turn))
        else:
            for message, _ in read_message(without_nulls(turn), number, where):
                messages.append(message)
    return tuple(messages)


def is_message(value: Any) -> bool:
    """True for an object with a role and a content, under whatever names."""
    if not isinstance(value, Mapping):
        return False
    has_role = any(value.get(key) is not None for key in ROLE_KEYS)
    return has_role and any(key in value for key in (*CONTENT_KEYS, *FURTHER_KEYS))


def is_chat(value: Any) -> bool:
    """True for a list of messages or of turns, or a text that holds one; for one message, too."""
    if isinstance(value, str):
        try:
            value = parse_list(value, "")
        except DataError:
            return False
    if isinstance(value, Mapping):
        return is_message(value) or is_chat(value.get("messages"))
    if not isinstance(value, list | tuple) or not value:
        return False
    first = without_nulls(value[0])
    if is_message(first):
        return True
    return isinstance(first, Mapping) and any(set(keys) <= first.keys() for keys in TURN_KEYS)


def parse_list(value: Any, where: str) -> Any:
    """The list or object that a text writes, as JSON or as Python prints it; None for other texts.

    Raises DataError for a text that begins like a list of messages and cannot be read.
    """
    if not isinstance(value, str):
        return value if isinstance(value, list | tuple | Mapping) else None
    if not WRITTEN_LIST.match(value):
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        try:
            parsed = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            parsed = None
    if parsed is None:
        if re.match(r"\s*\[\s*\{\s*['\"](role|content|from|value)['\"]\s*:", value):
            raise DataError(
                f"{where}: is a list of messages written as a text, which is no JSON; "
                "save the chats as .jsonl or .parquet"
            )
        return None
    if isinstance(parsed, list) and parsed:
        inner = parsed[0]
        if isinstance(inner, Mapping | list) or len(parsed) == 1:
            return parsed
        return parsed if all(isinstance(each, str) for each in parsed) else None
    if isinstance(parsed, dict) and (is_message(parsed) or "messages" in parsed):
        return parsed
    return None


def read_dialogue(text: str, asks: bool = True) -> Chat | None:
    """The chat that a text writes with a speaker before each turn; None where it has none.

    It must begin with a user or a system message. An empty last turn asks for an answer, so that
    "\\n\\nHuman: Hi\\n\\nAssistant:" has one message, unless the text is whole and not `asks`.
    """
    if text.strip().startswith(INSTRUCTION_BEGINS):
        return read_instructions(text, asks)
    for pattern in DIALOGUES:
        marks = list(pattern.finditer(text))
        if not marks or text[: marks[0].start()].strip() not in ("", "<|begin_of_text|>", "<s>"):
            continue
        messages: list[Message] = []
        for place, mark in enumerate(marks):
            name = next(group for group in mark.groups() if group)
            role = ROLE_NAMES[name.lower()]
            end = len(text)
            if place + 1 < len(marks):
                end = marks[place + 1].start()
            content = TURN_ENDS.sub("", text[mark.end() : end]).strip()
            messages.append(Message(role, content))
        has_both = {"user", "assistant"} <= {message.role for message in messages}
        if messages[0].role == "assistant" or not has_both:
            continue
        if asks and messages[-1] == Message("assistant", ""):
            messages.pop()
        return tuple(messages)
    return None


def read_instructions(text: str, asks: bool) -> Chat | None:
    """The chat that a text writes in Llama 2's form; None where its marks are not in order.

    An empty last answer is left out where the text `asks`.
    """
    turns = INSTRUCTION.findall(text)
    if len(turns) != text.count("[INST]"):
        return None
    messages: list[Message] = []
    for question, answer in turns:
        system = INSTRUCTION_SYSTEM.match(question)
        if system is not None:
            messages.append(Message("system", system[1]))
            question = question[system.end() :]
        messages.append(user(question.strip()))
        answer = TURN_ENDS.sub("", answer).strip()
        messages.append(Message("assistant", answer))
    if asks and messages[-1] == Message("assistant", ""):
        messages.pop()
    return tuple(messages)


def without_nulls(value: Any) -> Any:
    """`value` without the null fields that Arrow gives to objects of one column."""
    if not isinstance(value, Mapping):
        return value
    return {key: field for key, field in value.items() if field is not None}


def plain(value: Any, where: str) -> Any:
    """`value` as plain data that can be recorded. Raises DataError where it cannot be."""
    try:
        return msgspec.to_builtins(value)
    except TypeError as error:
        raise DataError(
            f"{where}: holds {type_name(value)}, which cannot be kept as a fact; leave the column "
            "out"
        ) from error


def type_name(value: Any) -> str:
    """The type of a value, for messages: "a list", "an object" …"""
    names = {list: "a list", dict: "an object", type(None): "null"}
    names |= {int: "a number", float: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")


def alternating(texts: Sequence[Any], where: str) -> Chat:
    """A chat of bare texts, the user's first."""
    messages = []
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"{where}: needs texts, or messages with role and content")
        messages.append(Message(("user", "assistant")[place % 2], text))
    return tuple(messages)
