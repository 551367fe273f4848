"""From a row of a data set to a `Prompt`: the shapes of rows, distinguished by their columns.

    {"prompt": "text"}, {"prompt": [{"role", "content"}, …]}
        prompt-only rows, standard and conversational
    {"prompt": …, "completion" | "chosen", "rejected": …}
        preference rows: the prompt
    {"chosen": [messages], "rejected": [messages]}
        preference rows: their common beginning
    {"messages": [messages]}
        up to the last message that is not the assistant's
    {"conversations": [{"from": "system" | "human" | "gpt", "value"}, …]}
        ShareGPT's rows, likewise; a list of role and content is read, too
    {"prompt": [messages], "data_source", "reward_model": {"ground_truth"}, "extra_info"}
        GTAlign's schema
    task rows: a question, its options and answer, …
        in `tasks`
    {"Story", "Gold Label", "Country", "Value", "Rule-of-Thumb"}
        NormAd's schema: is what somebody does in a story acceptable, given some context?
    "text", ["text"]
        a bare text, or a list with a text
    any columns, with `prompt_column` naming one
        plain columns

All other columns become `facts` under their names, for judges; a column that is null is no fact. A
text under `dataset` names the row's source.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import DataError
from equipoise.prompts.base import Prompts
from equipoise.prompts.tasks import with_prompt
from equipoise.system.effects import Text
from equipoise.types import Message, Prompt, record_id, user

Chat = tuple[Message, ...]
PromptText = Literal["prompt", "chat", "single"]
Norm = Literal["country", "value", "rule_of_thumb"]

NORM_LABEL = "Gold Label"
NORM_LABELS = ("Yes", "No", "Neutral")
NORM_CONTEXTS: Mapping[Norm, tuple[str, ...]] = {  # the columns that a question begins with
    "country": ("Country",),
    "value": ("Country", "Value"),
    "rule_of_thumb": ("Rule-of-Thumb",),
}

# Columns without a meaning of their own that hold prompts where nothing else does.
LIKELY = ("query", "text", "content", "user", "user_input", "request", "sentence", "title")
ANSWERS = ("answer", "response", "output", "completion", "label", "id")
ENDED = ("messages", "conversations")  # chats with the answers in them
CHATS = ("prompt", *ENDED)
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


class RowPrompts(Prompts):
    """Settings of every source whose prompts are rows of a data set."""

    prompt_column: Text | None = Field(
        None,
        description="the column of the prompt; by default `prompt`, `messages`, "
        "`conversations` or a task's own",
    )
    text: PromptText = Field(
        "prompt",
        description="the part of a GTAlign row: its `prompt` with all instructions, the bare "
        "`chat` that led to it, or the `single` request that the ground truth "
        "answers",
    )
    norm: Norm = Field(
        "country",
        description="context of a NormAd row: its `country`, its `value` (and country), or "
        "its `rule_of_thumb`",
    )
    cut_at: int | None = Field(None, ge=1, description="most characters of a prompt's last message")

    def prompts(self, rows: Iterable[tuple[str, Any]], source: str) -> list[Prompt]:
        """A prompt for each (where, row), in order. Raises DataError beginning with `where`."""
        prompts = []
        for where, row in rows:
            prompt = to_prompt(row, where, source, self.text, self.prompt_column, self.norm)
            if self.cut_at is not None:
                *before, last = prompt.messages
                last = Message(last.role, last.content[: self.cut_at])
                prompt = _with_id((*before, last), prompt.facts, prompt.source)
            prompts.append(prompt)
        return prompts


def to_prompt(
    row: Any,
    where: str,
    source: str,
    text: PromptText = "prompt",
    column: str | None = None,
    norm: Norm = "country",
) -> Prompt:
    """The prompt of a row, by the hash of its messages. Raises DataError for an unknown shape."""
    if isinstance(row, list) and len(row) == 1 and isinstance(row[0], str):
        row = row[0]
    if isinstance(row, str):
        row = {"prompt": row}
    if not isinstance(row, Mapping):
        whole = isinstance(row, list) and len(row) > 1 and isinstance(row[0], Mapping)
        hint = "; is the file one list of rows? Then name it .json" if whole else ""
        raise DataError(
            f"{where}: a row is an object with a prompt, or a text; this is {type_name(row)}{hint}"
        )
    if column is None and is_gtalign(row):
        messages, facts = read_gtalign(row, where, text)
        source = str(row["data_source"])
    elif text != "prompt":
        raise DataError(
            f"{where}: text: {text} is for rows of GTAlign's schema, which this row does not have; "
            "use text: prompt"
        )
    else:
        if column is None and is_norm(row):
            row = norm_question(row, where, norm)
        elif column is None:
            row = with_prompt(row, where)
        messages, facts = _columns(row, where, column)
        source = row["dataset"] if isinstance(row.get("dataset"), str) else source
    return _with_id(messages, facts, source)


def _with_id(messages: Chat, facts: dict[str, Any], source: str) -> Prompt:
    parts: list[str] = []
    for message in messages:
        parts += [message.role, message.content]
    return Prompt(record_id("prompt", *parts), messages, facts, source)


def _columns(row: Mapping[str, Any], where: str, column: str | None) -> tuple[Chat, dict[str, Any]]:
    held = {key: value for key, value in row.items() if value is not None}
    facts = {str(key): plain(value, f"{where}: {key}") for key, value in held.items()}
    key = column
    if key is None:
        key = next((name for name in CHATS if name in held), None)
    lists = [isinstance(held.get(name), list) for name in ("chosen", "rejected")]
    if key is None and all(lists):
        return _common_beginning(held, where), facts
    if key is None or key not in held:
        raise DataError(f"{where}: {_no_prompt(held, column)}")
    messages = read_chat(held[key], f"{where}: {key}")
    del facts[key]
    if key in ENDED or column is not None:
        end = len(messages)
        while end and messages[end - 1].role == "assistant":
            end -= 1
        if end < len(messages):
            answers = [message.content for message in messages[end:]]
            facts.setdefault("completion", "\n".join(answers))
        messages = messages[:end]
    if not messages or messages[-1].role == "assistant":
        raise DataError(
            f"{where}: {key}: the last message is the assistant's; a prompt ends with a request to "
            "it"
        )
    return messages, facts


def _no_prompt(held: Mapping[str, Any], column: str | None) -> str:
    """What a row without the column of the prompt has, and which of these to name."""
    names = [str(key) for key in held]
    if not held:
        return f"no column '{column or 'prompt'}'; the row is empty"
    if column:
        return f"no column '{column}'; {nearest(column, names)}"
    texts = [str(key) for key, value in held.items() if isinstance(value, str | list)]
    likely = [name for name in LIKELY if name in texts] or [t for t in texts if t not in ANSWERS]
    listed = ", ".join(names[:20])
    advice = f"prompts.prompt_column={(likely or ['…'])[0]}"
    if len(names) == 1 and names[0].endswith((".", "?", "!")):
        return f"no column 'prompt' among {listed}; a file's first line must name its columns"
    return f"no column 'prompt' among {listed}; name the prompt's: -s {advice}"


def _common_beginning(row: Mapping[str, Any], where: str) -> Chat:
    chosen = read_chat(row["chosen"], where)
    rejected = read_chat(row["rejected"], where)
    pairs = zip(chosen, rejected, strict=False)
    same = tuple(first for first, second in pairs if first == second)
    if not same or same != chosen[: len(same)] or same[-1].role == "assistant":
        raise DataError(
            f"{where}: chosen and rejected do not begin with the same question, and there is no "
            "prompt"
        )
    return same


# -- values in a row


WRITTEN_CHAT = re.compile(r"\s*\[\s*\{\s*['\"](role|content|from|value)['\"]\s*:")


def read_chat(value: Any, where: str) -> Chat:
    """The messages of a text, a list with a text, or of messages. Raises DataError otherwise."""
    if isinstance(value, str):
        if WRITTEN_CHAT.match(value):
            raise DataError(
                f"{where}: is a list of messages written as a text, as CSV files hold it; "
                "save the chats as .jsonl or .parquet"
            )
        return (user(value),)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return (user(value[0]),)
    if not isinstance(value, list) or not value:
        raise DataError(
            f"{where}: needs a text, or a list of messages with role and content; "
            f"this is {type_name(value)}"
        )
    return tuple(_message(item, number, where) for number, item in enumerate(value, 1))


def _message(item: Any, number: int, where: str) -> Message:
    if isinstance(item, Mapping) and "from" in item and "value" in item:
        item = {"role": SHAREGPT.get(str(item["from"]), item["from"]), "content": item["value"]}
    if not isinstance(item, Mapping) or not isinstance(item.get("content"), str):
        raise DataError(f"{where}: message {number} needs a role and a content, both text")
    if item.get("role") not in ROLES:
        raise DataError(
            f"{where}: message {number} has the role {item.get('role')!r}; known: "
            f"{', '.join(ROLES)}"
        )
    return Message(item["role"], item["content"])


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


# -- GTAlign (arXiv 2510.08872), the published data files


def is_gtalign(row: Mapping[str, Any]) -> bool:
    """True if a row has GTAlign's schema."""
    return isinstance(row.get("reward_model"), Mapping) and "data_source" in row


def read_gtalign(
    row: Mapping[str, Any], where: str, text: PromptText
) -> tuple[Chat, dict[str, Any]]:
    """(messages, facts) of a row, `text` as the setting. Raises DataError where it is lacking."""
    extra = row.get("extra_info")
    extra = extra if isinstance(extra, Mapping) else {}
    single = extra.get("single_turn_prompt")
    if text == "prompt":
        chat, name = row.get("prompt"), "prompt"
    elif text == "chat" and extra.get("chat_history"):
        chat, name = extra["chat_history"], "extra_info.chat_history"
    else:
        chat, name = single, "extra_info.single_turn_prompt"
    if chat is None:
        raise DataError(f"{where}: no {name}")
    truth = row["reward_model"].get("ground_truth")
    facts = _ground_truth(str(row["data_source"]), truth, where)
    if isinstance(single, str) and single.strip():
        facts["request"] = single
    if text == "prompt" and extra.get("chat_history"):
        # What the user said last, without the row's own instruction around it.
        facts["said"] = read_chat(extra["chat_history"], where)[-1].content
    return read_chat(chat, f"{where}: {name}"), facts


def _ground_truth(task: str, truth: Any, where: str) -> dict[str, Any]:
    if truth is None or (isinstance(truth, str) and not truth.strip()):
        return {}
    if task == "wildguard":
        labels = {"harmful": True, "unharmful": False}
        return {"harmful": _label(truth, labels, where)}
    if task == "abg-coqa":
        labels = {"ambiguous": True, "non_ambiguous": False}
        return {"ambiguous": _label(truth, labels, where)}
    if task == "ambig_qa":
        kind, _, rest = str(truth).partition("###")
        if _label(kind, {"multipleQAs": True, "singleAnswer": False}, where):
            return {"ambiguous": True, "meanings": rest}
        return {"ambiguous": False, "answer": rest}
    if task == "advbench":
        return {"harmful": True, "unsafe_answer": truth}
    if task == "medium":
        return {"reference": truth}
    return {"answer": plain(truth, f"{where}: reward_model.ground_truth")}


def _label(value: Any, labels: Mapping[str, bool], where: str) -> bool:
    if value not in tuple(labels):
        raise DataError(
            f"{where}: reward_model.ground_truth is {value!r}; known: {', '.join(labels)}"
        )
    return labels[value]


# -- NormAd (arXiv 2404.12464), whose three contexts are three of SPARTA's tasks


def is_norm(row: Mapping[str, Any]) -> bool:
    """True if a row has NormAd's columns."""
    return "Story" in row and NORM_LABEL in row


def norm_question(row: Mapping[str, Any], where: str, norm: Norm) -> dict[str, Any]:
    """The row with `prompt` and a label `answer` of `choices`. Raises DataError if malformed."""
    held = {key: value for key, value in row.items() if value is not None}
    lines = []
    for column in (*NORM_CONTEXTS[norm], "Story"):
        if not isinstance(held.get(column), str):
            present = type_name(held.get(column))
            raise DataError(f"{where}: {column}: must be a text, this is {present}")
        label = "" if column == "Story" else f"{column.replace('-', ' ').capitalize()}: "
        lines.append(f"{label}{held[column].strip()}")
    options = ", ".join(f"'{label}'" for label in NORM_LABELS)
    lines.append(f"Is this socially acceptable?\nChoose from: {options}")
    answer = str(held.pop(NORM_LABEL)).strip().capitalize()
    if answer not in NORM_LABELS:
        raise DataError(f"{where}: {NORM_LABEL}: is {answer!r}, none of {options}")
    question = {"prompt": "\n\n".join(lines), "choices": list(NORM_LABELS), "answer": answer}
    return held | question
