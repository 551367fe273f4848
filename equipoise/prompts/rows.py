"""From a row of a data set to a `Prompt`: the shapes that prompts come in, told apart
by their columns.

    {"prompt": "text"} or {"prompt": [{"role", "content"}, …]}      prompt-only, standard and conversational
    {"prompt": …, "completion" | "chosen", "rejected": …}           preference rows: the prompt is asked
    {"chosen": [messages], "rejected": [messages]}                  preference rows: their common beginning is asked
    {"messages": [messages]}                                        up to the last message that is not the assistant's
    {"prompt": [messages], "data_source", "reward_model": {"ground_truth"}, "extra_info"}       GTAlign's schema
    task rows: a question, its options and answer, …                as `tasks` reads them
    "text", ["text"]                                                a bare text, or a list with one
    any columns, with `prompt_column` naming one                    plain columns

What is not asked becomes `facts` under its column's name, for judges; a column that is
null is no fact. A text under `dataset` names the row's source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import DataError
from equipoise.prompts.base import Prompts
from equipoise.prompts.tasks import with_prompt
from equipoise.types import Message, Prompt, record_id, user

ROLES = ("system", "user", "assistant")
Text = Literal["prompt", "chat", "single"]


class Rows(Prompts):
    """Settings of every source whose prompts are rows."""

    prompt_column: str | None = Field(
        None,
        description="the column to ask; by default `prompt`, `messages` or what a task asks",
    )
    text: Text = Field(
        "prompt",
        description="what to ask of a GTAlign row: its `prompt` with all instructions, the bare `chat` that led to it, "
        "or the `single` request that the ground truth answers",
    )

    cut_at: int | None = Field(
        None,
        ge=1,
        description="characters after which a prompt's last message is cut off",
    )

    def prompts(self, rows: Iterable[tuple[str, Any]], source: str) -> list[Prompt]:
        """A prompt per (where, row), in order; DataError names `where` the malformed
        row is.
        """
        found = [
            to_prompt(row, where, source, self.text, self.prompt_column)
            for where, row in rows
        ]
        return (
            found
            if self.cut_at is None
            else [_cut(prompt, self.cut_at) for prompt in found]
        )


def to_prompt(
    row: Any, where: str, source: str, text: Text = "prompt", column: str | None = None
) -> Prompt:
    """The prompt of one row. Its id is the hash of its messages, whatever its facts;
    `source` names the data set.

    Raises DataError, beginning with `where`, on a row of none of the known shapes.
    """
    if isinstance(row, str) or (
        isinstance(row, list) and len(row) == 1 and isinstance(row[0], str)
    ):
        row = {"prompt": row if isinstance(row, str) else row[0]}
    if not isinstance(row, Mapping):
        raise DataError(
            f"{where}: a row is an object with a prompt, or a text; this is {_name(row)}"
        )
    if (
        column is None
        and isinstance(row.get("reward_model"), Mapping)
        and "data_source" in row
    ):
        messages, facts = _gtalign(row, where, text)
        source = str(row["data_source"])
    elif text != "prompt":
        raise DataError(
            f"{where}: text: {text} is for rows of GTAlign's schema, which this is not; use text: prompt"
        )
    else:
        row = with_prompt(row, where) if column is None else row
        messages, facts = _columns(row, where, column)
        source = row["dataset"] if isinstance(row.get("dataset"), str) else source
    return Prompt(_identity(messages), messages, facts, source)


def _identity(messages: tuple[Message, ...]) -> str:
    return record_id(
        "prompt",
        *(part for message in messages for part in (message.role, message.content)),
    )


def _cut(prompt: Prompt, characters: int) -> Prompt:
    *before, last = prompt.messages
    messages = (*before, Message(last.role, last.content[:characters]))
    return Prompt(_identity(messages), messages, prompt.facts, prompt.source)


def _columns(
    row: Mapping[str, Any], where: str, column: str | None
) -> tuple[tuple[Message, ...], dict[str, Any]]:
    facts = {
        str(key): _plain(value, f"{where}: {key}")
        for key, value in row.items()
        if value is not None
    }
    key = column or next(
        (key for key in ("prompt", "messages") if row.get(key) is not None), None
    )
    if (
        key is None
        and isinstance(row.get("chosen"), list)
        and isinstance(row.get("rejected"), list)
    ):
        return _common_beginning(
            _chat(row["chosen"], where), _chat(row["rejected"], where), where
        ), facts
    if key is None or row.get(key) is None:
        missing, known = (
            column or "prompt",
            [str(key) for key, value in row.items() if value is not None],
        )
        hint = nearest(missing, known) if known else "the row is empty"
        raise DataError(
            f"{where}: no column '{missing}'; {hint}"
            + ("" if column else "; name it with prompt_column")
        )
    messages = _chat(row[key], f"{where}: {key}")
    del facts[key]
    if key == "messages" or column is not None:
        asked = max(
            (
                i + 1
                for i, message in enumerate(messages)
                if message.role != "assistant"
            ),
            default=0,
        )
        if messages[asked:]:
            facts.setdefault(
                "completion", "\n".join(message.content for message in messages[asked:])
            )
        messages = messages[:asked]
    if not messages or messages[-1].role == "assistant":
        raise DataError(
            f"{where}: {key}: the last message is the assistant's; a prompt ends with what is asked of it"
        )
    return messages, facts


def _chat(value: Any, where: str) -> tuple[Message, ...]:
    if isinstance(value, str):
        return (user(value),)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return (user(value[0]),)
    if not isinstance(value, list) or not value:
        raise DataError(
            f"{where}: needs a text, or a list of messages with role and content; this is {_name(value)}"
        )
    messages = []
    for i, message in enumerate(value, 1):
        if not isinstance(message, Mapping) or not isinstance(
            message.get("content"), str
        ):
            raise DataError(
                f"{where}: message {i} needs a role and a content, both text"
            )
        if message.get("role") not in ROLES:
            raise DataError(
                f"{where}: message {i} has the role {message.get('role')!r}; known: {', '.join(ROLES)}"
            )
        messages.append(Message(message["role"], message["content"]))
    return tuple(messages)


def _common_beginning(
    chosen: tuple[Message, ...], rejected: tuple[Message, ...], where: str
) -> tuple[Message, ...]:
    same = [
        first
        for first, second in zip(chosen, rejected, strict=False)
        if first == second
    ]
    if not same or tuple(same) != chosen[: len(same)] or same[-1].role == "assistant":
        raise DataError(
            f"{where}: chosen and rejected do not begin with the same question, and there is no prompt"
        )
    return tuple(same)


def _gtalign(
    row: Mapping[str, Any], where: str, text: Text
) -> tuple[tuple[Message, ...], dict[str, Any]]:
    extra = row.get("extra_info") or {}
    single = extra.get("single_turn_prompt")
    if text == "prompt":
        asked, name = row.get("prompt"), "prompt"
    elif text == "chat" and extra.get("chat_history"):
        asked, name = list(extra["chat_history"]), "extra_info.chat_history"
    else:
        asked, name = single, "extra_info.single_turn_prompt"
    if asked is None:
        raise DataError(f"{where}: no {name}")
    facts = _ground_truth(
        str(row["data_source"]), row["reward_model"].get("ground_truth"), where
    )
    if isinstance(single, str) and single.strip():
        facts["request"] = single
    return _chat(asked, f"{where}: {name}"), facts


def _ground_truth(task: str, truth: Any, where: str) -> dict[str, Any]:
    """What a GTAlign task's ground truth says, by task; of an unknown task it is the
    answer.
    """
    if truth is None or (isinstance(truth, str) and not truth.strip()):
        return {}
    if task == "wildguard":
        return {"harmful": _label(truth, {"harmful": True, "unharmful": False}, where)}
    if task == "abg-coqa":
        return {
            "ambiguous": _label(
                truth, {"ambiguous": True, "non_ambiguous": False}, where
            )
        }
    if task == "ambig_qa":
        kind, _, rest = str(truth).partition("###")
        if _label(kind, {"multipleQAs": True, "singleAnswer": False}, where):
            return {"ambiguous": True, "meanings": rest}
        return {"ambiguous": False, "answer": rest}
    if task == "advbench":
        return {"harmful": True, "unsafe_answer": truth}
    if task == "medium":
        return {"reference": truth}
    return {"answer": _plain(truth, f"{where}: reward_model.ground_truth")}


def _label(value: Any, meanings: Mapping[str, bool], where: str) -> bool:
    if value not in meanings:
        raise DataError(
            f"{where}: reward_model.ground_truth is {value!r}; known: {', '.join(meanings)}"
        )
    return meanings[value]


def _plain(value: Any, where: str) -> Any:
    try:
        return msgspec.to_builtins(value)
    except TypeError as error:
        raise DataError(
            f"{where}: holds {_name(value)}, which cannot be kept as a fact; leave the column out"
        ) from error


def _name(value: Any) -> str:
    names = {
        list: "a list",
        dict: "an object",
        type(None): "null",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), f"a {type(value).__name__}")
