"""Rows with a question in a column of its own: TRL's prompt-only, prompt–completion, preference,
unpaired and stepwise rows, Alpaca's with input and history, and tasks with the right answer.
"""

import msgspec

from equipoise.errors import DataError
from equipoise.prompts.columns import (
    LABELS,
    Columns,
    answer_of,
    assistant,
    pair_names,
    read_label,
    written_text,
)
from equipoise.prompts.schemas.conversation import (
    ANSWERS,
    QUESTIONS,
    agree,
    is_transcript,
    is_whole,
    question_name,
    read_answer,
    read_marks,
    read_pair,
    read_question,
    split_chat,
    with_system,
    with_tools,
)
from equipoise.prompts.schemas.schema import Reading, RowOptions, Schema
from equipoise.prompts.tasks import with_prompt
from equipoise.prompts.written_chat import TURN_ENDS, read_messages
from equipoise.types import Answer

GOLD = ("solution", "answer")


def has_question(columns: Columns, options: RowOptions) -> bool:
    if options.column is not None:
        return columns.has(options.column)
    return question_name(columns) is not None


def is_preference(columns: Columns, options: RowOptions) -> bool:
    return has_question(columns, options) and pair_names(columns) is not None


def is_implicit_preference(columns: Columns, options: RowOptions) -> bool:
    return options.column is None and pair_names(columns) is not None


def is_stepwise(columns: Columns, options: RowOptions) -> bool:
    steps = columns.values.get("completions")
    labels = columns.values.get("labels")
    both = isinstance(steps, list) and isinstance(labels, list)
    return both and has_question(columns, options)


def is_unpaired(columns: Columns, options: RowOptions) -> bool:
    answered = columns.first(ANSWERS[:3]) is not None
    return answered and has_question(columns, options) and columns.first(LABELS) is not None


def is_alpaca(columns: Columns, options: RowOptions) -> bool:
    return options.column is None and columns.has("instruction")


def is_completion(columns: Columns, options: RowOptions) -> bool:
    return has_question(columns, options) and columns.first(ANSWERS) is not None


def as_task(columns: Columns, options: RowOptions) -> tuple[Columns, str]:
    """The columns with the question, its options and right answer as tasks have them, and the
    column of the question.
    """
    if options.column is not None:
        return columns, options.column
    name = question_name(columns)
    assert name is not None, "a schema of questions reads rows with a question"
    task = Columns.of(with_prompt(columns.values, columns.where), columns.where)
    task.nulls = columns.nulls
    columns.values = task.values
    return columns, "prompt" if "prompt" in task.values else name


def read_question_row(columns: Columns, options: RowOptions) -> Reading:
    """The question with its pair, its answer, or alone.

    Answers to a transcript ("Human: …\n\nAssistant:") lose the white space that goes on from it.
    """
    name = options.column or question_name(columns)
    value = columns.values.get(name or "")
    transcript = isinstance(value, str) and is_transcript(value)
    reading = read_question_with_answers(columns, options)
    if transcript:
        reading.answers = [stripped(answer) for answer in reading.answers]
    return reading


def stripped(answer: Answer) -> Answer:
    """An answer without the marks that end a turn, and white space, around its messages."""
    messages = []
    for message in answer.messages:
        content = TURN_ENDS.sub("", message.content).strip()
        messages.append(msgspec.structs.replace(message, content=content))
    return msgspec.structs.replace(answer, messages=tuple(messages))


def read_question_with_answers(columns: Columns, options: RowOptions) -> Reading:
    """The question, and the answers in other columns as they stand."""
    gold = next((columns.values[name] for name in GOLD if is_text(columns, name)), None)
    asked_for = question_name(columns)
    columns, name = as_task(columns, options)
    if options.column is not None:
        return read_named_column(columns, options.column)
    names = pair_names(columns)
    question = read_question(columns, name, asked_for)
    if names is not None:
        return read_pair(columns, names, question, name)
    one_sided = columns.first(("chosen", "rejected"))
    if one_sided is not None:
        place = columns.place(one_sided)
        messages = read_answer(columns.take(one_sided), place).messages
        answer = answer_of(messages, place, chosen=one_sided == "chosen")
        return Reading(question, [answer], asked_in=name)
    answer_name = columns.first([each for each in ANSWERS if each != "answer"])
    if answer_name is None and "completion" in columns.values:
        answer_name = "completion"
    if answer_name is None:
        reading = Reading(question, asked_in=name)
        is_choice = "choices" in columns.values
        if gold is not None and not is_choice and asked_for != "prompt":
            label = gold_label(columns)
            reading.answers = [answer_of(assistant(gold), columns.where, label=label)]
            reading.gold = True
        return reading
    place = columns.place(answer_name)
    value = columns.values[answer_name]
    two_texts = isinstance(value, list) and [type(each) for each in value] == [str, str]
    if answer_name == "completion" and two_texts:  # an early form of LLaMA-Factory's pairs
        columns.take(answer_name)
        columns.values |= {"chosen": value[0], "rejected": value[1]}
        return read_pair(columns, ("chosen", "rejected"), question, name)
    chat = read_answer(columns.take(answer_name), place)
    same_answers(columns, answer_name, chat.messages[-1].content)
    marks = read_marks(columns)
    if is_whole(chat):
        conversation, answers, _ = split_chat(chat, place, **marks)
        agree(columns, name, question, conversation)
        if not answers:
            raise DataError(f"{place}: the last message is not the assistant's")
        conversation = with_tools(columns, with_system(columns, conversation))
        return Reading(conversation, answers, asked_in=name, learned=())
    context = tuple(sorted(chat.unlearned))
    if len(context) == sum(message.role == "assistant" for message in chat.messages):
        marks = {**marks, "weight": 0.0}
        context = ()
    answer = answer_of(chat.messages, place, context=context, **marks)
    return Reading(question, [answer], asked_in=name)


def is_text(columns: Columns, name: str) -> bool:
    return isinstance(columns.values.get(name), str) and bool(columns.values[name].strip())


def gold_label(columns: Columns) -> bool | None:
    """The label of a right answer; a label of another kind, such as a class, is a fact."""
    name = columns.first(LABELS)
    if name is None:
        return None
    try:
        label = read_label(columns.values[name], columns.place(name))
    except DataError:
        return None
    columns.used.add(name)
    return label


def same_answers(columns: Columns, name: str, text: str) -> None:
    """Raise DataError where another column holds another answer than `name` does."""
    for other in ANSWERS[:3]:
        value = columns.values.get(other)
        if other in columns.used or not isinstance(value, str) or other == name:
            continue
        if value.strip() and value.strip() != text.strip():
            raise DataError(
                f"{columns.place(other)}: holds another answer than {name} does; keep one of them, "
                "or give them as chosen and rejected"
            )
        columns.used.add(other)


def read_named_column(columns: Columns, name: str) -> Reading:
    """A chat or text in a column that the user names; its last answer is one to learn from."""
    chat = read_messages(columns.take(name), columns.place(name))
    conversation, answers, learned = split_chat(chat, columns.place(name))
    conversation = with_tools(columns, with_system(columns, conversation))
    names = pair_names(columns)
    if names is not None:
        return read_pair(columns, names, conversation, name)
    answer_name = columns.first(ANSWERS[:3])
    if not answers and answer_name is not None:
        place = columns.place(answer_name)
        written = read_answer(columns.take(answer_name), place)
        answers = [answer_of(written.messages, place, **read_marks(columns))]
    reading = Reading(conversation, answers, asked_in=name, learned=tuple(learned))
    reading.gold = True
    reading.named = True
    return reading


def read_implicit_pair(columns: Columns, options: RowOptions) -> Reading:
    """Two whole chats that begin with the same question."""
    names = pair_names(columns)
    assert names is not None, "a preference schema reads rows with two answers"
    return read_pair(columns, names, (), None)


def read_stepwise(columns: Columns, options: RowOptions) -> Reading:
    """The steps of one answer, a label for each: right if all are."""
    columns, name = as_task(columns, options)
    question = read_question(columns, name)
    steps = columns.take("completions")
    labels = columns.take("labels")
    if len(steps) != len(labels):
        raise DataError(
            f"{columns.place('labels')}: there are {len(labels)} labels of {len(steps)} steps"
        )
    texts = [written_text(step, columns.place("completions")) for step in steps]
    verdicts = [read_label(label, columns.place("labels")) for label in labels]
    text = "\n".join(texts)
    answer = answer_of(assistant(text), columns.place("completions"), label=all(verdicts))
    facts = {"steps": texts, "step_labels": verdicts}
    return Reading(question, [answer], facts, asked_in=name)


QUESTION_SCHEMAS = (
    Schema("stepwise", "prompt, completions (steps), labels", is_stepwise, read_stepwise),
    Schema("preference", "prompt, chosen, rejected", is_preference, read_question_row),
    Schema(
        "implicit_preference",
        "chosen and rejected, which begin with the same question",
        is_implicit_preference,
        read_implicit_pair,
    ),
    Schema("unpaired_preference", "prompt, completion, label", is_unpaired, read_question_row),
    Schema("alpaca", "instruction, input, output, system, history", is_alpaca, read_question_row),
    Schema(
        "prompt_completion",
        f"prompt (or {', '.join(QUESTIONS[1:])}) and completion (or {', '.join(ANSWERS[1:])})",
        is_completion,
        read_question_row,
    ),
    Schema(
        "prompt_only", f"prompt (or {', '.join(QUESTIONS[1:])})", has_question, read_question_row
    ),
)
