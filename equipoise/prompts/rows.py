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
        GTAlign's schema, in `gtalign`
    task rows: a question, its options and answer, …
        in `tasks`
    {"Story", "Gold Label", "Country", "Value", "Rule-of-Thumb"}
        NormAd's schema, in `norms`
    "text", ["text"]
        a bare text, or a list with a text
    any columns, with `prompt_column` naming one
        plain columns

All other columns become `facts` under their names, for judges; a column that is null is no fact. A
text under `dataset` names the row's source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import DataError
from equipoise.prompts.base import Prompts
from equipoise.prompts.gtalign import PromptText, is_gtalign, read_gtalign
from equipoise.prompts.norms import Norm, is_norm, norm_question
from equipoise.prompts.tasks import with_prompt
from equipoise.prompts.values import plain, read_chat, type_name
from equipoise.types import Message, Prompt, record_id

ENDED = ("messages", "conversations")  # chats with the answers in them
CHATS = ("prompt", *ENDED)


class RowPrompts(Prompts):
    """Settings of every source whose prompts are rows of a data set."""

    prompt_column: str | None = Field(
        None,
        description="the column of the prompt; by default `prompt`, `messages`, `conversations` "
        "or a task's own",
    )
    text: PromptText = Field(
        "prompt",
        description="the part of a GTAlign row: its `prompt` with all instructions, the bare "
        "`chat` that led to it, or the `single` request that the ground truth answers",
    )
    norm: Norm = Field(
        "country",
        description="what a NormAd row is asked with: its `country`, its `value` (and "
        "country), or its `rule_of_thumb`",
    )
    cut_at: int | None = Field(
        None, ge=1, description="characters after which a prompt's last message is cut off"
    )

    def prompts(self, rows: Iterable[tuple[str, Any]], source: str) -> list[Prompt]:
        """A prompt for each (where, row), in order.

        The DataError for a malformed row begins with its `where`.
        """
        prompts = [
            to_prompt(row, where, source, self.text, self.prompt_column, self.norm)
            for where, row in rows
        ]
        if self.cut_at is None:
            return prompts
        return [_cut(prompt, self.cut_at) for prompt in prompts]


def to_prompt(
    row: Any,
    where: str,
    source: str,
    text: PromptText = "prompt",
    column: str | None = None,
    norm: Norm = "country",
) -> Prompt:
    """The prompt of a row.

    Its id is the hash of its messages, whatever its facts; `source` names the data set.

    Raises DataError, beginning with `where`, on a row of an unknown shape.
    """
    if isinstance(row, list) and len(row) == 1 and isinstance(row[0], str):
        row = row[0]
    if isinstance(row, str):
        row = {"prompt": row}
    if not isinstance(row, Mapping):
        raise DataError(
            f"{where}: a row is an object with a prompt, or a text; this is {type_name(row)}"
        )
    if column is None and is_gtalign(row):
        messages, facts = read_gtalign(row, where, text)
        source = str(row["data_source"])
    elif text != "prompt":
        raise DataError(
            f"{where}: text: {text} is for rows of GTAlign's schema, "
            "which this row does not have; use text: prompt"
        )
    else:
        if column is None:
            is_task = not is_norm(row)
            row = with_prompt(row, where) if is_task else norm_question(row, where, norm)
        messages, facts = _columns(row, where, column)
        source = row["dataset"] if isinstance(row.get("dataset"), str) else source
    return Prompt(_identity(messages), messages, facts, source)


def _identity(messages: tuple[Message, ...]) -> str:
    parts: list[str] = []
    for message in messages:
        parts += [message.role, message.content]
    return record_id("prompt", *parts)


def _cut(prompt: Prompt, characters: int) -> Prompt:
    *before, last = prompt.messages
    messages = (*before, Message(last.role, last.content[:characters]))
    return Prompt(_identity(messages), messages, prompt.facts, prompt.source)


def _columns(
    row: Mapping[str, Any], where: str, column: str | None
) -> tuple[tuple[Message, ...], dict[str, Any]]:
    """(messages, facts) of a row of plain columns."""
    held = {key: value for key, value in row.items() if value is not None}
    facts = {str(key): plain(value, f"{where}: {key}") for key, value in held.items()}
    key = column
    if key is None:
        key = next((name for name in CHATS if name in held), None)
    if key is None and _is_preference(held):
        chosen = read_chat(held["chosen"], where)
        rejected = read_chat(held["rejected"], where)
        return _common_beginning(chosen, rejected, where), facts
    if key is None or key not in held:
        raise DataError(_no_prompt(held, where, column))
    messages = read_chat(held[key], f"{where}: {key}")
    del facts[key]
    if key in ENDED or column is not None:
        messages, completion = _cut_off_answer(messages)
        if completion is not None:
            facts.setdefault("completion", completion)
    if not messages or messages[-1].role == "assistant":
        raise DataError(
            f"{where}: {key}: the last message is the assistant's; "
            "a prompt ends with a request to it"
        )
    return messages, facts


def _is_preference(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("chosen"), list) and isinstance(row.get("rejected"), list)


def _no_prompt(row: Mapping[str, Any], where: str, column: str | None) -> str:
    missing = column or "prompt"
    hint = nearest(missing, [str(key) for key in row]) if row else "the row is empty"
    advice = "" if column else "; name it with prompt_column"
    return f"{where}: no column '{missing}'; {hint}{advice}"


def _cut_off_answer(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], str | None]:
    """(messages up to the last that is not the assistant's, the text of the others or None)."""
    end = len(messages)
    while end and messages[end - 1].role == "assistant":
        end -= 1
    if end == len(messages):
        return messages, None
    return messages[:end], "\n".join(message.content for message in messages[end:])


def _common_beginning(
    chosen: tuple[Message, ...], rejected: tuple[Message, ...], where: str
) -> tuple[Message, ...]:
    pairs = zip(chosen, rejected, strict=False)
    same = tuple(first for first, second in pairs if first == second)
    if not same or same != chosen[: len(same)] or same[-1].role == "assistant":
        raise DataError(
            f"{where}: chosen and rejected do not begin with the same question, "
            "and there is no prompt"
        )
    return same
