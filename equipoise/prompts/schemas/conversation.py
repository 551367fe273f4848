"""The question of a row: its system message, history, text or chat, and tools; and the answers to
it that other columns hold. Most schemas are these parts under their own names.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from equipoise.errors import DataError
from equipoise.prompts.columns import (
    CHATS,
    HISTORIES,
    LABELS,
    SCORES,
    SYSTEMS,
    WEIGHTS,
    Columns,
    answer_of,
    assistant,
    learnable,
    pair_scores,
    read_label,
    read_number,
    tools_of,
    written_text,
)
from equipoise.prompts.schemas.schema import Reading
from equipoise.prompts.written_chat import (
    INSTRUCTION_BEGINS,
    Chat,
    WrittenChat,
    alternating,
    is_chat,
    parse_list,
    read_dialogue,
    read_history,
    read_messages,
    read_weight,
    type_name,
)
from equipoise.types import Answer, Message, user

QUESTIONS = (
    "prompt",
    "instruction",
    "question",
    "query",
    "problem",
    "input",
    "user_prompt",
    "user_query",
)
INPUTS = ("input", "context")
ANSWERS = (
    "completion",
    "response",
    "output",
    "answer",
    "target",
    "reply",
    "assistant",
    "gpt",
    "model_output",
)


def with_system(columns: Columns, messages: Chat) -> Chat:
    """The chat behind the system message of the row's own column, if any.

    Raises DataError where the chat has another one already.
    """
    name = columns.first(SYSTEMS)
    if name is None:
        columns.used.update(SYSTEMS)
        return messages
    value = columns.take(name)
    if isinstance(value, Mapping | list):
        written = read_messages(value, columns.place(name)).messages
        value = "\n\n".join(message.content for message in written)
    if not isinstance(value, str):
        raise DataError(f"{columns.place(name)}: needs a text; this is {type_name(value)}")
    columns.used.update(other for other in SYSTEMS if columns.values.get(other) == value)
    if not value.strip():
        return messages
    if messages and messages[0].role == "system":
        if messages[0].content.strip() != value.strip():
            raise DataError(
                f"{columns.place(name)}: the chat has another system message already; keep one"
            )
        return messages
    return (Message("system", value), *messages)


def with_tools(columns: Columns, messages: Chat) -> Chat:
    """The chat whose first message carries the tools of the row, if any."""
    tools = tools_of(columns)
    if not tools or not messages:
        return messages
    further = json.loads(messages[0].further or "{}")
    further["tools"] = tools
    written = json.dumps(further, ensure_ascii=False, sort_keys=True)
    first = msgspec.structs.replace(messages[0], further=written)
    return (first, *messages[1:])


def question_name(columns: Columns) -> str | None:
    """The column that asks; a blank one counts where no other does."""
    named = columns.first(QUESTIONS)
    if named is not None:
        return named
    for name, answer in (("user", "assistant"), ("human", "assistant"), ("human", "gpt")):
        if columns.has(name, answer):
            return name
    return next((name for name in QUESTIONS if columns.has(name)), None)


def read_question(columns: Columns, name: str, kind: str | None = None) -> Chat:
    """The chat that a column of a question asks with, its input, history and system message.

    `kind`: what the column was called in the file.
    """
    value = columns.take(name)
    where = columns.place(name)
    dialogue = None
    if isinstance(value, str):
        dialogue = marked_turns(value)
    if dialogue is None and isinstance(value, str) and is_transcript(value):
        dialogue = read_dialogue(value)
    messages = dialogue
    if messages is None:
        messages = read_messages(value, where).messages
    if isinstance(value, str) and len(messages) == 1:
        messages = with_input(columns, name, kind or name, messages[0])
    history = columns.first(HISTORIES)
    if history is not None:
        earlier = read_history(columns.take(history), columns.place(history))
        if not (messages and messages[: len(earlier)] == earlier and len(messages) > len(earlier)):
            messages = (*earlier, *messages)
    return with_tools(columns, with_system(columns, messages))


TRANSCRIPT_BEGINS = (
    *("Human:", "### Human:", "<|im_start|>", "<|start_header_id|>", "<start_of_turn>"),
    *INSTRUCTION_BEGINS,
)
TRANSCRIPT_ENDS = (
    *("Assistant:", "### Assistant:", "assistant", "<|end_header_id|>", "<|im_end|>"),
    *("<start_of_turn>model", "<end_of_turn>", "[/INST]"),
)


def is_transcript(text: str) -> bool:
    """True for a text that begins as a dialogue and asks the assistant at its end."""
    stripped = text.strip()
    return stripped.startswith(TRANSCRIPT_BEGINS) and stripped.endswith(TRANSCRIPT_ENDS)


def marked_turns(text: str) -> Chat | None:
    """The chat of HelpSteer 2's prompts: "first question<extra_id_1>Assistant\n…"."""
    if "<extra_id_1>" not in text:
        return None
    first, *others = text.split("<extra_id_1>")
    messages = [user(first.strip())] if first.strip() else []
    for turn in others:
        name, _, content = turn.partition("\n")
        role = {"User": "user", "Assistant": "assistant", "System": "system"}.get(name.strip())
        if role is None:
            return None
        messages.append(Message(role, content.strip()))
    if messages and messages[-1] == Message("assistant", ""):
        messages.pop()
    return tuple(messages)


def with_input(columns: Columns, name: str, kind: str, message: Message) -> Chat:
    """The question with the text that it is about: Alpaca's `input`, Dolly's `context`.

    A passage comes before a `question`, and behind an instruction.
    """
    other = None
    if name in ("prompt", "instruction", "question", "query"):
        other = columns.first([each for each in INPUTS if each != name])
    columns.used.update(
        each for each in INPUTS if each != name and columns.values.get(each) in ("", None)
    )
    if other is None:
        return (message,)
    text = columns.values[other]
    if not isinstance(text, str):
        if other == "input" and kind == "instruction":
            raise DataError(f"{columns.where}: instruction and input must be texts")
        if other == "context" and isinstance(text, list) and is_chat(text):
            earlier = read_messages(columns.take(other), columns.place(other)).messages
            return (*earlier, message)
        raise DataError(
            f"{columns.place(other)}: is asked with {name}, so it needs a text; this is "
            f"{type_name(text)}; rename it if it is a fact for judges"
        )
    columns.take(other)
    if not text.strip():
        return (message,)
    parts = [message.content, text]
    if other == "context" and kind == "question":
        parts.reverse()
    return (user("\n\n".join(parts)),)


# -- whole chats


def chat_name(columns: Columns) -> str | None:
    """The column that holds a whole chat."""
    for name in CHATS:
        if name in columns.used or columns.values.get(name) in (None, ""):
            continue
        value = columns.values[name]
        if isinstance(value, list | tuple | Mapping) or is_chat(value):
            return name
        if isinstance(value, str) and read_dialogue(value) is not None:
            return name
    return None


def read_whole_chat(columns: Columns, name: str) -> WrittenChat:
    """The chat of a column, in any form, behind the row's system message and with its tools."""
    value = columns.take(name)
    where = columns.place(name)
    dialogue = None
    if isinstance(value, str) and not is_chat(value):
        dialogue = read_dialogue(value)
    if dialogue is not None:
        chat = WrittenChat(dialogue)
    else:
        parsed = parse_list(value, where)
        texts = parsed if isinstance(parsed, list) else []
        if len(texts) > 1 and all(isinstance(text, str) for text in texts):
            chat = WrittenChat(alternating(texts, where))
        elif texts and all(isinstance(turn, list | tuple) for turn in texts):
            chat = WrittenChat(read_history(texts, where))
        else:
            chat = read_messages(value, where)
    messages = with_system(columns, chat.messages)
    added = len(messages) - len(chat.messages)
    unlearned = frozenset(place + added for place in chat.unlearned)
    return WrittenChat(with_tools(columns, messages), unlearned)


def split_chat(chat: WrittenChat, where: str, **marks: Any) -> tuple[Chat, list[Answer], list[int]]:
    """(the conversation, its last answer, places in it that are learned, too) of a whole chat.

    A chat that ends with a question has no answer; messages after the last learned one are no part
    of it. `marks` are the answer's label, score, weight.
    """
    messages = chat.messages
    if not messages or messages[-1].role != "assistant":
        places = learnable(chat)
        return messages, [], places
    places = learnable(chat)
    end = len(messages)
    if places:
        end = places[-1] + 1
    start = end
    while start and messages[start - 1].role == "assistant":
        start -= 1
    answer = messages[start:end]
    context = tuple(place - start for place in range(start, end) if place in chat.unlearned)
    if not places:
        marks = {**marks, "weight": 0.0}
        context = ()
    made = answer_of(answer, where, context=context, **marks)
    return messages[:start], [made], [place for place in places if place < start]


# -- what is said of answers


def read_marks(columns: Columns) -> dict[str, Any]:
    """The label, score and weight of a row's only answer, as `answer_of` takes them."""
    marks: dict[str, Any] = {}
    name = columns.first(LABELS)
    if name is not None:
        marks["label"] = read_label(columns.take(name), columns.place(name))
    name = columns.first(SCORES)
    if name is not None and not isinstance(columns.values[name], list | Mapping):
        score, fault = read_number(columns.take(name), columns.place(name))
        marks |= {"score": score, "fault": fault}
    name = columns.first(WEIGHTS)
    if name is not None:
        marks["weight"] = read_weight(columns.take(name), columns.place(name))
    return marks


def agree(columns: Columns, name: str, question: Chat, messages: Chat) -> None:
    """Raise DataError where the question in a column is none of the conversation's."""
    questions = [message.content.strip() for message in messages if message.role == "user"]
    wanted = [message.content.strip() for message in question if message.role == "user"]
    if not wanted or not questions:
        return
    last = wanted[-1]
    if last in questions or (last and any(last in each for each in questions)):
        return
    if any(each and each in last for each in (questions[-1], questions[0])):
        return
    raise DataError(
        f"{columns.place(name)}: asks {last[:60]!r}, but the chat beside it asks "
        f"{questions[-1][:60]!r}: the questions differ"
    )


# -- pairs


def read_answer(value: Any, where: str) -> WrittenChat:
    """An answer's messages, or a whole chat that ends with it."""
    if is_chat(value):
        return read_messages(value, where)
    text = written_text(value, where)
    if text.lstrip().startswith("[{"):
        parse_list(text, where)
    return WrittenChat(assistant(text))


def is_whole(chat: WrittenChat) -> bool:
    """True for a chat that begins before its answer."""
    return chat.messages[0].role != "assistant"


def read_pair(
    columns: Columns, names: tuple[str, str], question: Chat, asked_in: str | None
) -> Reading:
    """The conversation and both answers of a preference row.

    `question` is the row's question, if it has one, from the column `asked_in`. Whole chats share
    their beginning, which is the conversation, and must agree with it.
    """
    places = [columns.place(name) for name in names]
    values = [columns.take(name) for name in names]
    if all(isinstance(value, Mapping) and not is_chat(value) for value in values):
        take_scored_objects(columns, names, values)
    chats = [read_answer(value, place) for value, place in zip(values, places, strict=True)]
    if asked_in is None and not any(is_whole(chat) for chat in chats):
        written = [read_dialogue(str(value), asks=False) for value in values]
        if None not in written:
            chats = [WrittenChat(chat) for chat in written if chat]
        elif all(isinstance(value, str) for value in values):
            return common_text(columns, names, values)
    whole = [is_whole(chat) for chat in chats]
    if asked_in is None and not any(whole):
        raise DataError(
            f"{columns.where}: {names[0]} and {names[1]} do not begin with the same question, and "
            f"{no_prompt(columns)}"
        )
    if not any(whole):
        conversation = question
        answers = [chat.messages for chat in chats]
        starts = [0, 0]
    else:
        conversation, starts = shared_beginning(columns, names, chats)
        answers = [chat.messages[start:] for chat, start in zip(chats, starts, strict=True)]
        if asked_in is not None:
            agree(columns, asked_in, question, conversation)
            if question and question[0].role == "system" and conversation[0].role != "system":
                conversation = (question[0], *conversation)
        conversation = with_tools(columns, with_system(columns, conversation))
    check_preferred(columns, names)
    scores, fault = pair_scores(columns)
    weight = None
    weight_name = columns.first(WEIGHTS)
    if weight_name is not None:
        weight = read_weight(columns.take(weight_name), columns.place(weight_name))
    made = []
    sides = zip(("chosen", "rejected"), places, answers, chats, starts, strict=True)
    for side, place, messages, chat, start in sides:
        context = tuple(p - start for p in sorted(chat.unlearned) if p >= start)
        answer = answer_of(
            messages,
            place,
            score=scores.get(side),
            weight=weight,
            chosen=side == "chosen",
            context=context,
            fault=fault,
        )
        made.append(answer)
    return Reading(conversation, made, asked_in=asked_in or names[0])


def no_prompt(columns: Columns) -> str:
    """The reason why a pair has no question of its own."""
    blank = [name for name in (*columns.values, *columns.nulls) if name in QUESTIONS]
    return f"the {blank[0]} is empty" if blank else "there is no prompt"


def check_preferred(columns: Columns, names: tuple[str, str]) -> None:
    """Raise DataError where a label says that the preferred answer is not wanted."""
    label = columns.first(LABELS)
    if label is not None and not read_label(columns.take(label), columns.place(label)):
        raise DataError(
            f"{columns.place(label)}: says that the row is not wanted, but {names[0]} is preferred "
            f"to {names[1]}; drop the column, or exchange the answers"
        )


def take_scored_objects(columns: Columns, names: tuple[str, str], values: list[Any]) -> None:
    """Turn two answers like {"text": …, "score": …} into their texts, and columns of scores."""
    for side, value in enumerate(list(values)):
        key = next((key for key in (*ANSWERS, "text", "content") if key in value), None)
        if key is None:
            return
        values[side] = value[key]
        for name in ("score", "rating", "reward"):
            if value.get(name) is not None:
                columns.values[f"{('chosen', 'rejected')[side]}_{name}"] = value[name]


def shared_beginning(
    columns: Columns, names: tuple[str, str], chats: list[WrittenChat]
) -> tuple[Chat, list[int]]:
    """(the conversation, where each answer begins) of whole chats, or of one and a bare answer."""
    first, second = (chat.messages for chat in chats)
    if not all(is_whole(chat) for chat in chats):
        place = 0 if is_whole(chats[0]) else 1
        messages = chats[place].messages
        start = len(messages)
        while start and messages[start - 1].role == "assistant":
            start -= 1
        starts = [0, 0]
        starts[place] = start
        return messages[:start], starts
    end = 0
    longest = min(len(first), len(second)) - 1
    while end < longest and first[end] == second[end]:
        end += 1
    differs = end < longest or first[end] != second[end]
    while end and first[end - 1].role == "assistant":
        end -= 1
    same = first[:end]
    next_roles = {first[end].role, second[end].role}
    if not any(message.role == "user" for message in same) or next_roles != {"assistant"}:
        question = [message.content[:60] for message in (first[end], second[end])]
        detail = ""
        if differs and next_roles != {"assistant"}:
            detail = f": {question[0]!r} and {question[1]!r}: the questions differ"
        raise DataError(
            f"{columns.where}: {names[0]} and {names[1]} do not begin with the same question"
            f"{detail}"
        )
    return same, [end, end]


def common_text(columns: Columns, names: tuple[str, str], values: list[str]) -> Reading:
    """Two texts without roles, whose common beginning is the question: TRL's implicit prompt."""
    first, second = values
    end = 0
    while end < min(len(first), len(second)) and first[end] == second[end]:
        end += 1
    while end and not first[end - 1].isspace():
        end -= 1
    question = first[:end].rstrip()
    if not question.strip() or first == second:
        raise DataError(
            f"{columns.where}: {names[0]} and {names[1]} do not begin with the same question, and "
            f"{no_prompt(columns)}"
        )
    scores, fault = pair_scores(columns)
    made = []
    for side, value in zip(("chosen", "rejected"), values, strict=True):
        answer = answer_of(
            assistant(value[len(question) :]),
            columns.where,
            score=scores.get(side),
            chosen=side == "chosen",
            fault=fault,
        )
        made.append(answer)
    messages = with_tools(columns, with_system(columns, (user(question),)))
    return Reading(messages, made, asked_in=names[0])
