"""One function for a row of data: `read_row`, from the columns of a file to a conversation, its
answers and facts. All that learns from rows or plays them reads them through it.

A column that belongs to the conversation is used, or the row is refused with its place. The shapes
of rows are `schemas`; the first whose columns a row has reads it, or one that is named.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from equipoise.component import nearest
from equipoise.errors import DataError
from equipoise.prompts.columns import Columns, check_left
from equipoise.prompts.schemas.registry import SCHEMAS, schema_named
from equipoise.prompts.schemas.schema import PromptText, Reading, RowOptions
from equipoise.prompts.written_chat import Chat, plain, type_name
from equipoise.types import Answer, Message, Prompt, Turns, record_id

NOT_PREFERRED = "no answer is preferred to another"
IDENTICAL = "the answers are identical"
LOWER = "the score of the preferred answer is lower than that of the other"
Purpose = Literal["prompts", "pairs", "sft"]

# Columns of prompts, for the advice on a row of no known schema: none that holds ids or answers.
LIKELY = ("query", "user_input", "request", "sentence", "content", "text", "user")
# Columns that are rarely the question, beside those of answers.
NO_QUESTION = ("answer", "label", "id", "source", "category", "url", "date", "language")


@dataclass(frozen=True)
class Row:
    """A row as models see it.

    `messages` ask for `answers`; `learned` are places of the assistant's messages in them that
    fine-tuning learns, too. `facts` are the other columns, for judges. `gold`: the answer is the
    right one of a task, and a fact, too.
    """

    where: str
    schema: str
    messages: Chat
    answers: tuple[Answer, ...]
    facts: dict[str, Any]
    source: str
    learned: tuple[int, ...] = ()
    gold: bool = False

    @property
    def purpose(self) -> Purpose:
        """The use that the row has by its own account."""
        if any(answer.chosen is not None for answer in self.answers):
            return "pairs"
        return "sft" if self.answers or self.learned else "prompts"

    def left_out(self, purpose: Purpose) -> str:
        """The reason why nothing is learned from the row; "" where something is."""
        if purpose == "prompts":
            return "" if self.messages else "there is no question"
        if purpose == "sft":
            return sft_fault(self)
        better = chosen_answer(self.answers)
        worse = rejected_answer(self.answers)
        if better is None or worse is None:
            return why_no_pair(self.answers)
        return pair_fault(better, worse)

    def prompt(self) -> Prompt:
        """The row's conversation as a prompt, by the hash of its messages."""
        facts = dict(self.facts)
        for name, answer in (
            ("chosen", chosen_answer(self.answers)),
            ("rejected", rejected_answer(self.answers)),
        ):
            if answer is not None:
                facts.setdefault(name, answer.text)
        if len(self.answers) == 1 and not self.gold:
            facts.setdefault("completion", self.answers[0].text)
        identity = prompt_id(self.messages)
        return Prompt(identity, self.messages, facts, self.source, self.answers, self.learned)


def read_row(
    row: Any,
    where: str,
    source: str = "",
    *,
    schema: str | None = None,
    text: PromptText = "prompt",
    column: str | None = None,
    norm: str = "country",
) -> Row:
    """The row at the place `where`, by its schema. Raises DataError that begins with `where`.

    Args: schema: the name of a schema that the row must have; text, norm: see `RowPrompts`;
    column: the column that holds the prompt, where it is none of the known ones.
    """
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
    columns = Columns.of(row, where)
    options = RowOptions(text, column, norm)
    if schema is not None:
        matching = schema_named(schema, where)
        if not matching.matches(columns, options):
            raise DataError(
                f"{where}: has not the columns of the schema '{schema}', which are "
                f"{matching.columns}; its own are {', '.join(map(str, row)) or 'none'}"
            )
    else:
        candidates = (each for each in SCHEMAS if each.matches(columns, options))
        matching = next(candidates, None)
    if matching is None:
        raise DataError(f"{where}: {unknown_schema(columns, column)}")
    if text != "prompt" and matching.name != "gtalign":
        raise DataError(
            f"{where}: text: {text} is for rows of GTAlign's schema, which this row does not have; "
            "use text: prompt"
        )
    reading = matching.read(columns, options)
    return finish(reading, columns, matching.name, source)


def finish(reading: Reading, columns: Columns, schema: str, source: str) -> Row:
    """The row of what a schema has read: no column lost, the chat fit to be answered."""
    where = columns.where
    if not reading.named:
        check_left(columns, schema, bool(reading.answers) and not reading.gold)
    facts = dict(reading.facts)
    for name, value in columns.left().items():
        facts.setdefault(name, plain(value, columns.place(name)))
    messages = reading.messages
    if messages and messages[0].role == "tool":
        raise DataError(
            f"{where}: {reading.asked_in}: the chat begins with a tool's message; a chat begins "
            "with a message of the system's or the user's"
        )
    if messages and messages[-1].role == "assistant":
        raise DataError(
            f"{where}: {reading.asked_in}: the last message is the assistant's; a prompt ends with "
            "a request to it"
        )
    if not messages and schema != "language_modelling":
        raise DataError(
            f"{where}: {reading.asked_in}: there is no question before the assistant's answer; a "
            "chat begins with a message of the system's or the user's"
        )
    blank = all(not (message.content.strip() or message.further) for message in messages)
    if messages and blank and reading.answers:
        raise DataError(f"{where}: {reading.asked_in}: the question is blank")
    dataset = facts.get("dataset")
    source = reading.source or (dataset if isinstance(dataset, str) else source)
    return Row(
        where,
        schema,
        messages,
        tuple(reading.answers),
        facts,
        source,
        tuple(reading.learned),
        reading.gold,
    )


def unknown_schema(columns: Columns, column: str | None) -> str:
    """Advice on a row of no known schema: its columns, and the names to write instead."""
    names = list(columns.values)
    if not names:
        return f"no column '{column or 'prompt'}'; the row is empty"
    if column:
        return f"no column '{column}'; {nearest(column, names)}"
    listed = ", ".join(names[:20])
    if len(names) == 1 and names[0].endswith((".", "?", "!")):
        return f"no column 'prompt' among {listed}; a file's first line must name its columns"
    texts = [name for name, value in columns.values.items() if isinstance(value, str)]
    likely = next((name for name in LIKELY if name in texts), None)
    if likely is None:
        likely = next((name for name in texts if close(name)), None)
    if likely is None:
        likely = longest_text(columns)
    advice = "rename the question's column to `prompt` (answers: `completion`, or `chosen` and "
    advice += "`rejected`; whole chats: `messages`)"
    if likely is not None:
        advice = f"name the prompt's: -s prompts.prompt_column={likely}, or {advice}"
    return f"no column 'prompt' among {listed}, which is no known schema; {advice}"


def longest_text(columns: Columns) -> str | None:
    """The column of the longest text that is called nothing that an answer is; None for none."""
    lengths: dict[str, int] = {}
    for name, value in columns.values.items():
        if isinstance(value, str) and name.lower() not in NO_QUESTION:
            lengths[name] = len(value)
    return max(lengths, key=lambda name: lengths[name], default=None)


def close(name: str) -> bool:
    """True for a misspelt `prompt`."""
    import difflib

    return difflib.SequenceMatcher(None, name.lower(), "prompt").ratio() > 0.7


def prompt_id(messages: Iterable[Message]) -> str:
    """The identity of a prompt: the hash of its messages."""
    parts: list[str] = []
    for message in messages:
        parts += [message.role, message.content]
        if message.further:
            parts.append(message.further)
    return record_id("prompt", *parts)


# -- the answers of a row


def chosen_answer(answers: Iterable[Answer]) -> Answer | None:
    """The preferred answer of a row."""
    return next((answer for answer in answers if answer.chosen is True), None)


def rejected_answer(answers: Iterable[Answer]) -> Answer | None:
    """The answer of a row that another was preferred to."""
    return next((answer for answer in answers if answer.chosen is False), None)


def taught_answer(answers: Iterable[Answer]) -> Answer | None:
    """The answer of a row that may be imitated: the preferred one, or one that nobody disliked."""
    answers = tuple(answers)
    preferred = chosen_answer(answers)
    if preferred is not None:
        return preferred
    wanted = [each for each in answers if each.label is not False and each.chosen is None]
    sound = [each for each in wanted if not each.fault]
    if len(sound) > 1 and any(each.label is None for each in sound):
        return None  # none is preferred
    return (sound or wanted or [None])[0]


def sft_fault(row: Row) -> str:
    """The reason why fine-tuning learns nothing from a row; "" where it does."""
    answer = taught_answer(row.answers)
    if answer is None and row.learned:
        return ""
    if answer is None and len(row.answers) > 1:
        return NOT_PREFERRED
    if answer is None and row.answers:
        return "its label says that the answer is not wanted"
    if answer is None:
        return "there is no answer"
    if answer.label is False:
        return "its label says that the answer is not wanted"
    if answer.fault.startswith("the score"):  # its own words are sound
        return ""
    return "" if row.learned and not answer.fault else answer.fault


def sft_example(row: Row) -> tuple[Chat, str | Turns] | None:
    """The chat and answer of a row, of which all wanted turns of the assistant are learned."""
    if row.left_out("sft"):
        return None
    answer = taught_answer(row.answers)
    if not row.learned:
        assert answer is not None, "a row without an answer is left out"
        return row.messages, answer.value
    first = row.learned[0]
    messages = list(row.messages)
    context = set(range(len(messages))) - set(row.learned)
    if answer is not None and not answer.fault:
        context |= {len(messages) + place for place in answer.context}
        messages += answer.messages
    else:
        messages = messages[: row.learned[-1] + 1]
    turns = messages[first:]
    places = tuple(
        place - first
        for place in sorted(context)
        if first <= place < len(messages) and messages[place].role == "assistant"
    )
    if len(turns) == 1 and not turns[0].further:
        return tuple(messages[:first]), turns[0].content
    return tuple(messages[:first]), Turns(tuple(turns), places)


def why_no_pair(answers: tuple[Answer, ...]) -> str:
    """The reason why answers make no pair."""
    if not answers:
        return "there is no answer"
    if len(answers) == 1:
        if answers[0].label is not None:
            return "a label of one answer makes no pair by itself; loss: kto learns it alone"
        return "there is one answer; a pair needs two"
    if any(answer.fault for answer in answers):
        return next(answer.fault for answer in answers if answer.fault)
    if len({answer.messages for answer in answers}) == 1:
        return IDENTICAL
    return NOT_PREFERRED


def pair_fault(better: Answer, worse: Answer) -> str:
    """The reason why two answers make no pair; "" where they do."""
    for answer in (better, worse):
        if answer.fault:
            return answer.fault
    if better.messages == worse.messages:
        return IDENTICAL
    if better.score is not None and worse.score is not None and better.score < worse.score:
        return f"{LOWER} ({better.score:g} and {worse.score:g})"
    return ""
