"""Whole chats in one column: OpenAI's and ShareGPT's rows, those of LLaMA-Factory and ms-swift with
a second answer or a label beside, logs of chats; and chats written in a text.
"""

from equipoise.errors import DataError
from equipoise.prompts.columns import (
    CHATS,
    LABELS,
    PAIRS,
    Columns,
    answer_of,
    assistant,
    pair_names,
)
from equipoise.prompts.schemas.conversation import (
    ANSWERS,
    agree,
    chat_name,
    is_whole,
    read_answer,
    read_marks,
    read_pair,
    read_whole_chat,
    split_chat,
    with_system,
    with_tools,
)
from equipoise.prompts.schemas.schema import Reading, RowOptions, Schema
from equipoise.prompts.written_chat import Chat, WrittenChat, read_dialogue, read_messages
from equipoise.types import Answer

REJECTED = ("rejected_response", "rejected_messages", "rejected", "rejected_answer")


def is_chat_row(columns: Columns, options: RowOptions) -> bool:
    return options.column is None and chat_name(columns) is not None


def is_sharegpt(columns: Columns, options: RowOptions) -> bool:
    name = chat_name(columns)
    if options.column is not None or name is None:
        return False
    value = columns.values[name]
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and first.get("from") is not None


def is_chat_with_rejected(columns: Columns, options: RowOptions) -> bool:
    beside = pair_names(columns) is not None or columns.first(REJECTED) is not None
    return is_chat_row(columns, options) and beside


def is_chat_with_label(columns: Columns, options: RowOptions) -> bool:
    return is_chat_row(columns, options) and columns.first(LABELS) is not None


def read_chat_row(columns: Columns, options: RowOptions) -> Reading:
    """The whole chat: its last answer, and the assistant's earlier ones, are learned."""
    name = chat_name(columns)
    assert name is not None, "a schema of chats reads rows with a chat"
    columns.used.add("parallel_tool_calls")
    chat = read_whole_chat(columns, name)
    for other in CHATS:  # the same chat twice, in two forms
        if other not in columns.used and columns.values.get(other) not in (None, "", []):
            same = read_messages(columns.values[other], columns.place(other)).messages
            if [m.content for m in same] != [m.content for m in chat.messages][-len(same) :]:
                raise DataError(
                    f"{columns.place(other)}: holds another chat than {name} does; keep one"
                )
            columns.used.add(other)
    pair = pair_names(columns)
    if pair is not None:
        reading = read_pair(columns, pair, chat.messages, name)
        check_prompt(columns, reading.messages)
        return reading
    rejected = columns.first(REJECTED)
    if rejected is not None:
        return read_rejected(columns, name, rejected, *split_chat(chat, columns.place(name))[:2])
    marks = read_marks(columns)
    conversation, answers, learned = split_chat(chat, columns.place(name), **marks)
    answer_name = columns.first(ANSWERS[:3])
    if answer_name is not None:
        place = columns.place(answer_name)
        written = read_answer(columns.take(answer_name), place).messages
        if not answers:
            answers = [answer_of(written, place, **marks)]
        elif written[-1].content.strip() not in [m.content.strip() for m in chat.messages]:
            raise DataError(
                f"{place}: holds another answer than {name} does; keep one of them, or give them "
                "as chosen and rejected"
            )
    check_prompt(columns, conversation)
    unwanted = any(answer.label is False or answer.weight == 0 for answer in answers)
    if unwanted and answers and answers[0].label is False:
        learned = []
    if marks.get("weight") == 0:
        learned = []
    return Reading(conversation, answers, learned=tuple(learned), asked_in=name)


def check_prompt(columns: Columns, conversation: Chat) -> None:
    """Take a `prompt` beside a chat, which must be a question of it."""
    if not columns.has("prompt") or "prompt" in columns.used:
        return
    question = read_messages(columns.take("prompt"), columns.place("prompt")).messages
    agree(columns, "prompt", question, conversation)


def read_rejected(
    columns: Columns, name: str, rejected: str, conversation: Chat, answers: list[Answer]
) -> Reading:
    """A chat whose last answer is preferred to one in another column: ms-swift's rows."""
    place = columns.place(rejected)
    if not answers:
        raise DataError(
            f"{place}: the chat in {name} has no last answer that could be preferred to it"
        )
    written = read_answer(columns.take(rejected), place)
    messages = written.messages
    if is_whole(written):
        start = len(messages)
        while start and messages[start - 1].role == "assistant":
            start -= 1
        agree(columns, rejected, messages[:start], conversation)
        messages = messages[start:]
    (better,) = answers
    made = [
        answer_of(
            better.messages,
            columns.place(name),
            chosen=True,
            weight=better.weight,
            context=better.context,
        ),
        answer_of(messages, place, chosen=False),
    ]
    return Reading(conversation, made, asked_in=name)


def is_written_text(columns: Columns, options: RowOptions) -> bool:
    text = columns.values.get("text")
    return options.column is None and isinstance(text, str)


def read_written_text(columns: Columns, options: RowOptions) -> Reading:
    """A text alone: the dialogue that it writes, else a text that is learned whole."""
    text = columns.text("text")
    other = columns.first([*ANSWERS, *(name for pair in PAIRS for name in pair)])
    if other is not None:
        raise DataError(
            f"{columns.place('text')}: is a whole text to learn, but an answer is in {other}, too; "
            "call the question `prompt` (or -s prompts.prompt_column=text), or drop one of the two"
        )
    dialogue = read_dialogue(text)
    if dialogue is None:
        answer = answer_of(assistant(text), columns.place("text"))
        return Reading((), [answer], asked_in="text")
    conversation, answers, learned = split_chat(WrittenChat(dialogue), columns.place("text"))
    conversation = with_tools(columns, with_system(columns, conversation))
    return Reading(conversation, answers, learned=tuple(learned), asked_in="text")


CHAT_SCHEMAS = (
    Schema(
        "chat_with_rejected",
        "messages or conversations, and chosen and rejected, or rejected_response",
        is_chat_with_rejected,
        read_chat_row,
    ),
    Schema(
        "chat_with_label",
        "messages or conversations, and label or kto_tag",
        is_chat_with_label,
        read_chat_row,
    ),
    Schema(
        "sharegpt", "conversations of from and value, system, tools", is_sharegpt, read_chat_row
    ),
    Schema(
        "messages",
        "messages (or conversations, conversation, chat, dialogue) of role and content",
        is_chat_row,
        read_chat_row,
    ),
)
TEXT_SCHEMA = Schema("language_modelling", "text", is_written_text, read_written_text)
