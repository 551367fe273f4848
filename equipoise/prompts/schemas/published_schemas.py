"""Schemas of published files: GTAlign's, NormAd's, OpenAI's preferences, OASST's trees, Argilla's
exports.
"""

from collections.abc import Mapping
from typing import Any, Literal

from equipoise.errors import DataError
from equipoise.prompts.columns import Columns, answer_of, assistant
from equipoise.prompts.schemas.chats import is_chat_row, read_chat_row
from equipoise.prompts.schemas.compared import is_scored_list, read_scored_list
from equipoise.prompts.schemas.conversation import read_answer, with_system, with_tools
from equipoise.prompts.schemas.questions import (
    has_question,
    is_implicit_preference,
    read_implicit_pair,
    read_question_row,
)
from equipoise.prompts.schemas.schema import Reading, RowOptions, Schema, with_best_and_worst
from equipoise.prompts.written_chat import plain, read_chat, read_messages, type_name, without_nulls
from equipoise.types import user

Norm = Literal["country", "value", "rule_of_thumb"]

NORM_LABEL = "Gold Label"
NORM_LABELS = ("Yes", "No", "Neutral")
NORM_CONTEXTS: Mapping[str, tuple[str, ...]] = {  # the columns that a question begins with
    "country": ("Country",),
    "value": ("Country", "Value"),
    "rule_of_thumb": ("Rule-of-Thumb",),
}


# -- OpenAI's preference files


def is_openai_preference(columns: Columns, options: RowOptions) -> bool:
    question = columns.values.get("input")
    return (
        isinstance(question, Mapping) and "messages" in question and columns.has("preferred_output")
    )


def read_openai_preference(columns: Columns, options: RowOptions) -> Reading:
    """The messages and tools of `input`, with a preferred and another output."""
    question = without_nulls(columns.take("input"))
    place = columns.place("input")
    for key in set(question) - {"messages", "tools", "parallel_tool_calls", "system"}:
        raise DataError(f"{place}: {key}: is unknown; known: messages, tools, parallel_tool_calls")
    conversation = read_messages(question["messages"], f"{place}: messages").messages
    inner = Columns({key: question[key] for key in ("tools", "system") if key in question}, place)
    conversation = with_tools(inner, with_system(inner, conversation))
    if not columns.has("non_preferred_output"):
        raise DataError(f"{columns.where}: there is no non_preferred_output")
    made = []
    for name in ("preferred_output", "non_preferred_output"):
        written = read_answer(columns.take(name), columns.place(name))
        made.append(
            answer_of(written.messages, columns.place(name), chosen=name == "preferred_output")
        )
    return Reading(conversation, made, asked_in="input")


# -- OASST


def is_oasst_tree(columns: Columns, options: RowOptions) -> bool:
    root = columns.values.get("prompt")
    return isinstance(root, Mapping) and isinstance(root.get("replies"), list)


def read_oasst_tree(columns: Columns, options: RowOptions) -> Reading:
    """The root of a tree, and the replies to it; of those with a rank 0 is best. Turns below the
    replies are other conversations, which are counted in the fact `deeper_messages`.
    """
    root = columns.take("prompt")
    place = columns.place("prompt")
    if not isinstance(root.get("text"), str):
        raise DataError(f"{place}: text: needs a text; this is {type_name(root.get('text'))}")
    made = []
    deeper = 0
    for number, reply in enumerate(root["replies"], 1):
        where = f"{place}: reply {number}"
        if not isinstance(reply, Mapping) or not isinstance(reply.get("text"), str):
            raise DataError(f"{where}: needs a text")
        rank = reply.get("rank")
        score = None if rank is None else -float(rank)
        made.append(answer_of(assistant(reply["text"]), where, score=score))
        deeper += count_replies(reply)
    facts = {"deeper_messages": deeper} if deeper else {}
    return Reading((user(root["text"]),), with_best_and_worst(made), facts)


def count_replies(node: Mapping[str, Any]) -> int:
    """The number of messages below one."""
    replies = node.get("replies") or []
    return len(replies) + sum(count_replies(reply) for reply in replies)


def is_tree_message(columns: Columns, options: RowOptions) -> bool:
    return columns.has("message_id", "text", "role") and "message_tree_id" in columns.values


def refuse_tree_message(columns: Columns, options: RowOptions) -> Reading:
    raise DataError(
        f"{columns.where}: is one message of a tree (OASST's flat form), which has no chat without "
        "the others; read the file of trees (…trees.jsonl), or join them to `messages`"
    )


# -- Argilla


def is_argilla(columns: Columns, options: RowOptions) -> bool:
    return options.column is None and isinstance(columns.values.get("fields"), Mapping)


def read_argilla(columns: Columns, options: RowOptions) -> Reading:
    """The fields of a record with what people answered to its questions, else what was suggested.

    A question's numbers are averaged over the answers that were submitted.
    """
    row: dict[str, Any] = dict(without_nulls(columns.take("fields")))
    suggestions = columns.take("suggestions") or {}
    if isinstance(suggestions, list):
        suggestions = {
            each.get("question_name") or each.get("question"): each
            for each in suggestions
            if isinstance(each, Mapping)
        }
    for name, suggestion in suggestions.items():
        value = suggestion.get("value") if isinstance(suggestion, Mapping) else suggestion
        if value is not None:
            row.setdefault(str(name), value)
    responses = columns.take("responses") or {}
    if isinstance(responses, list):
        merged: dict[str, list[Any]] = {}
        for response in responses:
            values = response.get("values") if isinstance(response, Mapping) else None
            for name, value in (values or {}).items():
                merged.setdefault(name, []).append(value)
        responses = merged
    for name, given in responses.items():
        value = submitted(given)
        if value is not None:
            row[str(name)] = value
    inner = Columns.of(row, columns.where)
    reading = None
    for matches, read in (
        (is_chat_row, read_chat_row),
        (is_scored_list, read_scored_list),
        (has_question, read_question_row),
        (is_implicit_preference, read_implicit_pair),
    ):
        if matches(inner, options):
            reading = read(inner, options)
            break
    if reading is None:
        raise DataError(
            f"{columns.place('fields')}: holds {', '.join(row)}, of which none is a question; name "
            "it `prompt` or `instruction`"
        )
    reading.facts = {**inner.left(), **reading.facts}
    return reading


def submitted(given: Any) -> Any:
    """The value that people gave to a question: the mean of numbers, else the first."""
    values = []
    for each in given if isinstance(given, list) else [given]:
        if isinstance(each, Mapping):
            if each.get("status") in ("discarded", "draft", "pending"):
                continue
            each = each.get("value", each)
        if each is not None:
            values.append(each)
    if not values:
        return None
    numbers = [each for each in values if isinstance(each, int | float)]
    if len(numbers) == len(values) and not any(isinstance(each, bool) for each in values):
        return sum(numbers) / len(numbers)
    return values[0]


# -- GTAlign (arXiv 2510.08872), the published data files


def is_gtalign(columns: Columns, options: RowOptions) -> bool:
    truth = columns.values.get("reward_model")
    return options.column is None and isinstance(truth, Mapping) and columns.has("data_source")


def read_gtalign(columns: Columns, options: RowOptions) -> Reading:
    """A part of the row as `options.text` says, and its ground truth as facts.

    All other columns describe the release's own pipeline, and are no facts.
    """
    where = columns.where
    row = columns.values
    columns.used.update(row)
    extra = row.get("extra_info")
    extra = extra if isinstance(extra, Mapping) else {}
    single = extra.get("single_turn_prompt")
    text = options.text
    if text == "prompt":
        chat = row.get("prompt")
        name = "prompt"
    elif text == "chat" and extra.get("chat_history"):
        chat = extra["chat_history"]
        name = "extra_info.chat_history"
    else:
        chat = single
        name = "extra_info.single_turn_prompt"
    if chat is None:
        raise DataError(f"{where}: no {name}")
    source = str(row["data_source"])
    truth = row["reward_model"].get("ground_truth")
    facts = read_ground_truth(source, truth, where)
    if isinstance(single, str) and single.strip():
        facts["request"] = single
    if text == "prompt" and extra.get("chat_history"):
        # What the user said last, without the row's own instruction around it.
        facts["said"] = read_chat(extra["chat_history"], where)[-1].content
    return Reading(read_chat(chat, f"{where}: {name}"), facts=facts, source=source, asked_in=name)


def read_ground_truth(task: str, truth: Any, where: str) -> dict[str, Any]:
    if truth is None or (isinstance(truth, str) and not truth.strip()):
        return {}
    if task == "wildguard":
        labels = {"harmful": True, "unharmful": False}
        return {"harmful": truth_label(truth, labels, where)}
    if task == "abg-coqa":
        labels = {"ambiguous": True, "non_ambiguous": False}
        return {"ambiguous": truth_label(truth, labels, where)}
    if task == "ambig_qa":
        kind, _, rest = str(truth).partition("###")
        if truth_label(kind, {"multipleQAs": True, "singleAnswer": False}, where):
            return {"ambiguous": True, "meanings": rest}
        return {"ambiguous": False, "answer": rest}
    if task == "advbench":
        return {"harmful": True, "unsafe_answer": truth}
    if task == "medium":
        return {"reference": truth}
    return {"answer": plain(truth, f"{where}: reward_model.ground_truth")}


def truth_label(value: Any, labels: Mapping[str, bool], where: str) -> bool:
    if value not in tuple(labels):
        raise DataError(
            f"{where}: reward_model.ground_truth is {value!r}; known: {', '.join(labels)}"
        )
    return labels[value]


# -- NormAd (arXiv 2404.12464), whose three contexts are three of SPARTA's tasks


def is_norm(columns: Columns, options: RowOptions) -> bool:
    return options.column is None and columns.has("Story", NORM_LABEL)


def read_norm(columns: Columns, options: RowOptions) -> Reading:
    """Is what somebody does in a story acceptable, given the context that `options.norm` names?"""
    question = norm_question(columns.values, columns.where, options.norm)
    columns.values = question
    text = columns.text("prompt")
    return Reading((user(text),), asked_in="Story")


def norm_question(row: Mapping[str, Any], where: str, norm: str) -> dict[str, Any]:
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


PUBLISHED_SCHEMAS = (
    Schema("gtalign", "prompt, data_source, reward_model, extra_info", is_gtalign, read_gtalign),
    Schema("normad", "Story, Gold Label, Country, Value, Rule-of-Thumb", is_norm, read_norm),
    Schema(
        "openai_preference",
        "input (messages, tools), preferred_output, non_preferred_output",
        is_openai_preference,
        read_openai_preference,
    ),
    Schema("oasst_tree", "prompt (text, replies)", is_oasst_tree, read_oasst_tree),
    Schema(
        "oasst_message",
        "message_id, parent_id, text, role, message_tree_id",
        is_tree_message,
        refuse_tree_message,
    ),
    Schema("argilla", "fields, responses, suggestions", is_argilla, read_argilla),
)
