"""Several answers to one question, with scores, ranks or a preference between two: UltraFeedback,
Nectar, Distilabel, MNPO's scored files, HelpSteer 2 and 3, PKU-SafeRLHF, SHP, WebGPT, arenas.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from equipoise.errors import DataError
from equipoise.prompts.columns import (
    LABELS,
    Columns,
    answer_of,
    pair_names,
    read_label,
    read_number,
)
from equipoise.prompts.schemas.conversation import (
    agree,
    question_name,
    read_answer,
    read_question,
    read_whole_chat,
    shared_beginning,
    with_system,
    with_tools,
)
from equipoise.prompts.schemas.schema import Reading, RowOptions, Schema, with_best_and_worst
from equipoise.prompts.written_chat import Chat, is_chat, parse_list, read_messages, type_name
from equipoise.types import Answer, user

LISTS = (
    "completions",
    "all_generated_responses",
    "responses",
    "generations",
    "candidates",
    "answers",
    "outputs",
    "model_responses",
)
LISTED_SCORES = (
    "scores",
    "all_rm_scores",
    "ratings",
    "rewards",
    "rating",
    "score",
    "reward",
    "ranks",
    "rank",
    "ranking",
)
LISTED_LABELS = ("labels", "correctness_labels", *LABELS)  # a label for each listed answer
ANSWER_KEYS = ("response", "answer", "text", "content", "output", "completion", "generation")
SCORE_KEYS = ("overall_score", "fine-grained_score", "score", "rating", "reward", "rank")
TWO = (
    ("response_a", "response_b"),
    ("response1", "response2"),
    ("response_1", "response_2"),
    ("response_0", "response_1"),
    ("answer_a", "answer_b"),
    ("answer_0", "answer_1"),
    ("answer_1", "answer_2"),
    ("output_a", "output_b"),
    ("output_0", "output_1"),
    ("output_1", "output_2"),
    ("completion_a", "completion_b"),
    ("completion_0", "completion_1"),
    ("human_ref_A", "human_ref_B"),
    ("conversation_a", "conversation_b"),
    ("messages_a", "messages_b"),
)
STRENGTHS = ("overall_preference", "preference_strength")  # negative: the first is better
VERDICTS = (
    "winner",
    "preference",
    "better_response_id",
    "preferred",
    "better",
    "choice",
    "chosen",
    "label",
    "labels",
    "verdict",
)
TIES = ("tie", "tie (bothbad)", "both", "both_bad", "bothbad", "equal", "draw", "none", "neither")


def list_name(columns: Columns) -> str | None:
    """The column that holds a list of answers."""
    for name in LISTS:
        value = columns.values.get(name)
        if isinstance(value, list) and value:
            return name
    return None


def is_scored_list(columns: Columns, options: RowOptions) -> bool:
    name = list_name(columns)
    if options.column is not None or name is None or question_name(columns) is None:
        return False
    if pair_names(columns) is not None and name != "all_generated_responses":
        return False
    items = columns.values[name]
    if all(isinstance(item, Mapping) for item in items):
        return any(key in item for item in items for key in ANSWER_KEYS)
    if not all(isinstance(item, str) for item in items):
        return False
    scored = any(isinstance(columns.values.get(each), list) for each in LISTED_SCORES)
    return scored or name in ("completions", "responses", "all_generated_responses")


def read_scored_list(columns: Columns, options: RowOptions) -> Reading:
    """The answers with their scores; the best is preferred to the worst. Of ranks 1 is best."""
    name = list_name(columns)
    asked_name = question_name(columns)
    assert name is not None and asked_name is not None, "a list of answers to a question"
    question = read_question(columns, asked_name)
    items = columns.take(name)
    place = columns.place(name)
    texts: list[Any] = []
    scores: list[tuple[float | None, str]] = []
    labels: list[bool | None] = []
    details: list[dict[str, Any]] = []
    for number, item in enumerate(items, 1):
        label = None
        if isinstance(item, Mapping):
            text, score, detail = read_item(item, f"{place}: answer {number}")
            label_key = next((key for key in LABELS if key in detail), None)
            if label_key is not None:
                label = read_label(detail.pop(label_key), f"{place}: answer {number}: {label_key}")
            details.append(detail)
        else:
            text = item
            score = (None, "")
        texts.append(text)
        scores.append(score)
        labels.append(label)
    labels_name = next((each for each in LISTED_LABELS if columns.has(each)), None)
    if labels_name is not None:
        labels = read_labels(columns, labels_name, len(texts))
    scores_name = next(
        (each for each in LISTED_SCORES if isinstance(columns.values.get(each), list)), None
    )
    if scores_name is not None:
        scores = read_scores(columns, scores_name, len(texts))
    answers = []
    for text, label, (score, fault) in zip(texts, labels, scores, strict=True):
        written = read_answer(text, place)
        answers.append(answer_of(written.messages, place, score=score, label=label, fault=fault))
    given = pair_names(columns)
    if given is not None:  # MNPO's scored files name the best and the worst, too
        for each in given:
            ending = read_answer(columns.take(each), columns.place(each)).messages[-1:]
            if ending not in [answer.messages[-1:] for answer in answers]:
                raise DataError(f"{columns.place(each)}: is none of the answers in {name}")
    facts = {"answer_details": details} if any(details) else {}
    ranked = with_wanted_and_unwanted(with_best_and_worst(answers))
    return Reading(question, ranked, facts, asked_in=asked_name)


def with_wanted_and_unwanted(answers: list[Answer]) -> list[Answer]:
    """Answers without a preference by score: the first that its label wants is `chosen`, the first
    that it does not want is not; unless all labels are alike.
    """
    wanted = [answer.label for answer in answers]
    decided = any(answer.chosen is not None for answer in answers)
    if decided or not {True, False} <= set(wanted):
        return answers
    ranked = list(answers)
    for label in (True, False):
        place = wanted.index(label)
        ranked[place] = msgspec.structs.replace(answers[place], chosen=label)
    return ranked


def read_labels(columns: Columns, name: str, count: int) -> list[bool | None]:
    """The labels in a list beside the answers. Raises DataError if uneven, or for what is none."""
    values = columns.take(name)
    place = columns.place(name)
    if not isinstance(values, list) or len(values) != count:
        raise DataError(f"{place}: needs a list of {count} labels, one for each answer")
    return [
        None if value is None else read_label(value, f"{place}: label {number}")
        for number, value in enumerate(values, 1)
    ]


def read_item(
    item: Mapping[str, Any], where: str
) -> tuple[Any, tuple[float | None, str], dict[str, Any]]:
    """(the answer, (its score, the score's fault), what else is said of it) of one object."""
    key = next((key for key in ANSWER_KEYS if item.get(key) is not None), None)
    if key is None:
        raise DataError(f"{where}: needs one of {', '.join(ANSWER_KEYS)}")
    score: tuple[float | None, str] = (None, "")
    score_key = next((each for each in SCORE_KEYS if item.get(each) is not None), None)
    if score_key is not None:
        number, fault = read_number(item[score_key], f"{where}: {score_key}")
        if score_key == "rank" and number is not None:
            number = -number
        score = (number, fault)
    detail = {}
    for name, value in item.items():
        if name != key and value is not None:
            detail[name] = value
    return item[key], score, detail


def read_scores(columns: Columns, name: str, count: int) -> list[tuple[float | None, str]]:
    """The scores in a list beside the answers, as (score, fault). Raises DataError if uneven."""
    values = columns.take(name)
    if len(values) != count:
        raise DataError(f"{columns.place(name)}: there are {len(values)} scores of {count} answers")
    scores: list[tuple[float | None, str]] = []
    for number, value in enumerate(values, 1):
        place = f"{columns.place(name)}: score {number}"
        if value is None:
            scores.append((None, f"the answer has no score ({place})"))
            continue
        score, fault = read_number(value, place)
        if name.startswith("rank") and score is not None:
            score = -score
        scores.append((score, fault))
    return scores


# -- two answers


def two_names(columns: Columns) -> tuple[str, str] | None:
    """The columns of two answers of which neither is called the better."""
    return next((names for names in TWO if columns.has(*names)), None)


def is_comparison(columns: Columns, options: RowOptions) -> bool:
    return options.column is None and two_names(columns) is not None


def read_comparison(columns: Columns, options: RowOptions) -> Reading:
    """Two answers, or whole chats, and which of them was preferred; a tie prefers none."""
    names = two_names(columns)
    assert names is not None, "a comparison has two answers"
    values = [columns.take(name) for name in names]
    places = [columns.place(name) for name in names]
    asked_in, question = read_asked(columns)
    chats = []
    for value, place in zip(values, places, strict=True):
        turns = parse_list(value, place)
        listed = isinstance(turns, list) and all(isinstance(turn, str) for turn in turns)
        if listed and asked_in is not None and isinstance(question, list):
            chats.append(interleaved(question, turns, place))
            continue
        if isinstance(value, Mapping) and not is_chat(value):
            value = next((value[key] for key in ANSWER_KEYS if value.get(key) is not None), value)
        chats.append(read_answer(value, place).messages)
    from equipoise.prompts.written_chat import WrittenChat

    chats = [judged_turns(columns, chat) for chat in chats]
    written = [WrittenChat(chat) for chat in chats]
    whole = [chat[0].role != "assistant" for chat in chats]
    if isinstance(question, list):
        question = (user(question[0]),)
    if any(whole):
        messages, starts = shared_beginning(columns, names, written)
        answers = [chat[start:] for chat, start in zip(chats, starts, strict=True)]
        if question:
            agree(columns, asked_in or "prompt", question, messages)
        messages = with_tools(columns, with_system(columns, messages))
    elif question:
        messages = question
        answers = chats
    else:
        raise DataError(
            f"{columns.where}: {names[0]} and {names[1]} answer no question; name its column "
            "`prompt`"
        )
    better, margin = read_preference(columns, names)
    scores, faults = two_scores(columns, names, better, margin)
    if better is None and None not in scores and scores[0] != scores[1]:
        better = 0 if scores[0] > scores[1] else 1  # type: ignore[operator]
    made: list[Answer] = []
    for place, answer in enumerate(answers):
        chosen = None if better is None else place == better
        made.append(
            answer_of(
                answer, places[place], score=scores[place], chosen=chosen, fault=faults[place]
            )
        )
    return Reading(messages, made, asked_in=asked_in or names[0])


def judged_turns(columns: Columns, chat: Chat) -> Chat:
    """A whole chat up to the answer that was judged, where `turn` counts it from 1 (MT-Bench)."""
    turn = columns.values.get("turn")
    if not isinstance(turn, int) or isinstance(turn, bool) or turn < 1 or chat[0].role != "user":
        return chat
    questions = [place for place, message in enumerate(chat) if message.role == "user"]
    return chat if len(questions) <= turn else chat[: questions[turn]]


def read_asked(columns: Columns) -> tuple[str | None, Any]:
    """(the column of the question, its chat, or the list of its turns as Kaggle's arena has it)."""
    if isinstance(columns.values.get("context"), list | str) and is_chat(columns.values["context"]):
        chat = read_messages(columns.take("context"), columns.place("context")).messages
        return "context", with_tools(columns, with_system(columns, chat))
    for name in ("post", "history"):
        text = columns.values.get(name)
        if isinstance(text, str) and text.strip() and question_name(columns) is None:
            return name, with_system(columns, (user(columns.take(name)),))
    name = question_name(columns)
    if name is None:
        for other in ("conversations", "messages", "conversation"):
            if isinstance(columns.values.get(other), list):
                return other, read_whole_chat(columns, other).messages
        return None, ()
    value = columns.values[name]
    if isinstance(value, Mapping) and isinstance(value.get("full_text"), str):
        columns.take(name)
        return name, with_system(columns, (user(value["full_text"]),))
    turns = parse_list(value, columns.place(name))
    if isinstance(turns, list) and turns and all(isinstance(turn, str) for turn in turns):
        columns.take(name)
        return name, turns
    return name, read_question(columns, name)


def interleaved(questions: list[str], answers: list[str], where: str) -> Chat:
    """A chat of questions and answers in turn."""
    from equipoise.types import Message

    if len(questions) != len(answers):
        raise DataError(
            f"{where}: has {len(answers)} answers to {len(questions)} questions of the prompt"
        )
    messages: list[Message] = []
    for question, answer in zip(questions, answers, strict=True):
        messages += [user(question), Message("assistant", answer)]
    return tuple(messages)


def read_preference(columns: Columns, names: tuple[str, str]) -> tuple[int | None, float | None]:
    """(the place of the preferred answer or None, the strength of the preference if it is said)."""
    flags = [f"winner_{model}" for model in ("model_a", "model_b", "tie")]
    if columns.has(*flags[:2]):
        won = [float(columns.take(flag) or 0) for flag in flags]
        return (None if won[0] == won[1] else int(won[1] > won[0])), None
    name = columns.first(STRENGTHS)
    if name is not None:
        strength, fault = read_number(columns.take(name), columns.place(name))
        if fault or not strength:
            return None, None
        return (0 if strength < 0 else 1), abs(strength)
    for name in VERDICTS:
        if name in columns.values and name not in columns.used:
            return read_verdict(columns.take(name), names, columns.place(name), name), None
    return None, None


def read_verdict(value: Any, names: tuple[str, str], where: str, column: str) -> int | None:
    """The place of the answer that a verdict prefers; None for a tie."""
    written = str(value).strip().lower()
    if written in TIES:
        return None
    first = {
        "a",
        "model_a",
        "response_a",
        "first",
        "left",
        "answer_a",
        "output_a",
        names[0].lower(),
    }
    second = {
        *("b", "model_b", "response_b", "second", "right", "answer_b", "output_b"),
        names[1].lower(),
    }
    if written in first:
        return 0
    if written in second:
        return 1
    numbers = {"0": 0, "1": 1}
    if names[0][-1] == "1" or column == "preference":
        numbers = {"1": 0, "2": 1, "1.0": 0, "2.0": 1}
    if column == "labels" and names[0] == "human_ref_A":
        numbers = {"1": 0, "0": 1}
    if written in numbers:
        return numbers[written]
    known = f"{names[0]}, {names[1]} or tie"
    raise DataError(f"{where}: is {value!r}, which names neither answer; known: {known}")


def two_scores(
    columns: Columns, names: tuple[str, str], better: int | None, margin: float | None
) -> tuple[list[float | None], list[str]]:
    """The scores of two answers and their faults: by a strength, or from columns of their own."""
    if margin is not None:
        scores: list[float | None] = [0.0, 0.0]
        scores[better or 0] = margin
        return scores, ["", ""]
    endings = [name.removeprefix(prefix_of(names)) for name in names]
    for measure in ("score", "rating", "reward", "rank"):
        columns_of = [f"{measure}{ending}" for ending in endings]
        separated = [f"{measure}_{ending.lstrip('_')}" for ending in endings]
        behind = [f"{name}_{measure}" for name in names]
        for pair in (columns_of, separated, behind):
            if columns.has(*pair):
                read = [read_number(columns.take(each), columns.place(each)) for each in pair]
                scores = [number for number, _ in read]
                if measure == "rank":  # 1 is best
                    scores = [None if number is None else -number for number in scores]
                return scores, [fault for _, fault in read]
            if any(columns.has(each) for each in pair):
                (held,) = [each for each in pair if columns.has(each)]
                raise DataError(
                    f"{columns.place(held)}: the other answer has no {measure}; give both or "
                    "neither"
                )
    return [None, None], ["", ""]


def prefix_of(names: tuple[str, str]) -> str:
    """The common beginning of two names."""
    end = 0
    while end < min(map(len, names)) and names[0][end] == names[1][end]:
        end += 1
    return names[0][:end]


# -- one graded answer


def is_helpsteer(columns: Columns, options: RowOptions) -> bool:
    return options.column is None and columns.has("prompt", "response", "helpfulness")


def read_helpsteer(columns: Columns, options: RowOptions) -> Reading:
    """One answer, whose score is its helpfulness; the other grades are facts."""
    question = read_question(columns, "prompt")
    place = columns.place("helpfulness")
    score, fault = read_number(columns.values["helpfulness"], place)
    where = columns.place("response")
    written = read_answer(columns.take("response"), where)
    answer = answer_of(written.messages, where, score=score, fault=fault)
    return Reading(question, [answer])


def is_summaries(columns: Columns, options: RowOptions) -> bool:
    return isinstance(columns.values.get("info"), Mapping) and columns.has("summaries", "choice")


def read_summaries(columns: Columns, options: RowOptions) -> Reading:
    """OpenAI's comparisons of summaries of a post."""
    info = columns.values["info"]
    text = info.get("post") or info.get("article")
    if not isinstance(text, str):
        raise DataError(f"{columns.place('info')}: needs a post or an article")
    choice = columns.take("choice")
    made = []
    for place, summary in enumerate(columns.take("summaries")):
        where = f"{columns.place('summaries')}: {place + 1}"
        if not isinstance(summary, Mapping):
            raise DataError(f"{where}: needs a text; this is {type_name(summary)}")
        written = read_answer(summary.get("text"), where)
        made.append(answer_of(written.messages, where, chosen=place == choice))
    return Reading((user(f"Summarize this text.\n\n{text}"),), made, asked_in="info")


COMPARED_SCHEMAS = (
    Schema("summaries", "info, summaries, choice", is_summaries, read_summaries),
    Schema(
        "scored_list",
        "a question, and a list of answers (completions, responses, generations, answers), each "
        "with a score or rank, or with a list of scores beside",
        is_scored_list,
        read_scored_list,
    ),
    Schema("helpsteer", "prompt, response, helpfulness", is_helpsteer, read_helpsteer),
    Schema(
        "comparison",
        "a question or a chat, two answers or whole chats (response_a and response_b, response1 "
        "and response2, conversation_a and conversation_b), and winner, preference or scores",
        is_comparison,
        read_comparison,
    ),
)
