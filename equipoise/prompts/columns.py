"""The columns of a row, which of them a schema has used, and the values that they hold."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from equipoise.errors import DataError
from equipoise.prompts.written_chat import MEDIA, Chat, WrittenChat, type_name, without_nulls
from equipoise.types import Answer, Message

# Columns that belong to a conversation: used, or refused, but never facts that no model sees.
SYSTEMS = (
    "system",
    "system_prompt",
    "system_message",
    "system_instruction",
    "system_instructions",
    "sys_prompt",
)
HISTORIES = ("history", "chat_history", "conversation_history", "dialogue_history", "past_turns")
CHATS = (
    "messages",
    "conversations",
    "conversation",
    "chat",
    "chats",
    "dialogue",
    "dialogues",
    "dialog",
    "conv",
    "trajectory",
    "transcript",
)
TOOLS = ("tools", "functions", "tool_definitions", "available_tools")
PAIRS = (
    ("chosen", "rejected"),
    ("preferred_output", "non_preferred_output"),
    ("preferred_output", "rejected_output"),
    ("chosen_response", "rejected_response"),
    ("response_chosen", "response_rejected"),
    ("chosen_answer", "rejected_answer"),
    ("chosen_completion", "rejected_completion"),
    ("chosen_output", "rejected_output"),
    ("chosen_messages", "rejected_messages"),
    ("chosen_conversation", "rejected_conversation"),
    ("preferred_response", "dispreferred_response"),
    ("preferred", "dispreferred"),
    ("preferred", "rejected"),
    ("preferred", "non_preferred"),
    ("accepted", "rejected"),
    ("selected", "rejected"),
    ("response_j", "response_k"),
    ("better_response", "worse_response"),
    ("better", "worse"),
    ("winner", "loser"),
    ("win", "lose"),
    ("real", "generated"),
    ("response", "rejected_response"),
    ("output", "rejected_output"),
    ("completion", "rejected_completion"),
    ("answer", "rejected_answer"),
    ("pos", "neg"),
    ("positive", "negative"),
)
LABELS = (
    *("label", "kto_tag", "kto_label", "desirable", "is_desirable", "preference_label"),
    *("is_safe", "is_correct", "is_good", "is_accepted"),  # what was found of the answer
)
WEIGHTS = ("weight", "sample_weight", "loss_weight")
SCORES = ("score", "rating", "reward", "overall_score", "quality_score", "overall_rating")
MARGINS = ("margin", "score_margin", "score_diff", "score_difference", "rating_margin")
TRUE_LABELS = (
    *("true", "1", "1.0", "yes", "good", "desirable", "chosen", "positive", "accepted"),
    *("preferred", "like", "liked", "thumbs_up", "up", "win", "correct", "+", "👍"),
)
FALSE_LABELS = (
    *("false", "0", "0.0", "-1", "-1.0", "no", "bad", "undesirable", "rejected", "negative"),
    *("dispreferred", "dislike", "disliked", "thumbs_down", "down", "lose", "incorrect", "-", "👎"),
)
EMPTY: tuple[Any, ...] = (None, "", [], {}, ())
NOT_FINITE = "the score is not a finite number"
BLANK = "the answer is blank"
WEIGHT_ZERO = "the answer's weight is 0"


@dataclass
class Columns:
    """A row's columns that are not null, and those that its schema has used."""

    values: dict[str, Any]
    where: str
    used: set[str] = field(default_factory=set)
    nulls: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: Mapping[Any, Any], where: str) -> "Columns":
        """The columns of a row without those that are null.

        A name like `Prompt`, `chosenResponse` or `system prompt` is the known one in small letters.
        """
        values = {}
        nulls = []
        for key, value in row.items():
            name = str(key)
            known = "_".join(name_parts(name))
            if name not in KNOWN and known in KNOWN and known not in row:
                name = known
            if value is None:
                nulls.append(name)
            else:
                values[name] = value
        return cls(values, where, nulls=tuple(nulls))

    def first(self, names: Sequence[str]) -> str | None:
        """The first of `names` that the row has, unused and not empty."""
        for name in names:
            if name not in self.used and self.values.get(name) not in EMPTY:
                return name
        return None

    def has(self, *names: str) -> bool:
        """True if the row has all these columns."""
        return all(name in self.values for name in names)

    def take(self, name: str) -> Any:
        """A column's value, or None; the column counts as used from now on."""
        self.used.add(name)
        return self.values.get(name)

    def place(self, name: str) -> str:
        """A column's place, for messages."""
        return f"{self.where}: {name}"

    def text(self, name: str) -> str:
        """A column's text, used. Raises DataError for what is none."""
        value = self.take(name)
        if not isinstance(value, str):
            raise DataError(f"{self.place(name)}: needs a text; this is {type_name(value)}")
        return value

    def left(self) -> dict[str, Any]:
        """The columns that were not used."""
        return {key: value for key, value in self.values.items() if key not in self.used}


def check_left(columns: Columns, schema: str, answered: bool) -> None:
    """Raise DataError for an unused column that belongs to the conversation.

    `answered`: the row holds answers, so that a label, score or weight speaks of them.
    """
    pair_names = {name for pair in PAIRS[:5] for name in pair}
    belongs = {*SYSTEMS, *HISTORIES, *CHATS, *TOOLS, *pair_names}
    if answered:
        belongs |= {*LABELS, *WEIGHTS, *MARGINS, "score"}
    for name, value in columns.left().items():
        if value in EMPTY:
            if name in belongs or name.rstrip("s").lower() in MEDIA[:3]:
                columns.used.add(name)
            continue
        if name.rstrip("s").lower() in MEDIA[:3]:
            raise DataError(
                f"{columns.place(name)}: models here read text alone; leave such rows out, or drop "
                "the column"
            )
        if name in belongs or is_pair_score(name) is not None:
            raise DataError(
                f"{columns.place(name)}: belongs to the conversation, but rows of the schema "
                f"'{schema}' have no place for it; rename it if it is a fact for judges, or drop it"
            )


def pair_names(columns: Columns) -> tuple[str, str] | None:
    """The columns of a preferred and a rejected answer: `chosen` and `rejected`, or names that add
    a side to that of an answer, such as `response_accepted` and `response_rejected`.
    """
    for names in PAIRS:
        if columns.has(*names):
            return names
    sides: dict[tuple[str, ...], dict[str, str]] = {}
    for name in columns.values:
        parts = name_parts(name)
        for side, synonyms in SIDES.items():
            answer = tuple(part for part in parts if part not in synonyms)
            if len(answer) == len(parts) - 1 and set(answer) <= ANSWER_WORDS:
                sides.setdefault(answer, {})[side] = name
    for pair in sides.values():
        if len(pair) == 2:
            return pair["chosen"], pair["rejected"]
    return None


# -- values


def read_number(value: Any, where: str) -> tuple[float | None, str]:
    """(a finite number, "") of a number or of a text that writes one; (None, a reason) of NaN and
    infinities. Raises DataError for everything else.
    """
    if isinstance(value, bool):
        raise DataError(f"{where}: is {value}, not a number")
    if isinstance(value, str):
        value = value.strip()
        if re.fullmatch(r"[+-]?\d+,\d+", value):
            raise DataError(f"{where}: is {value!r}; write the decimal with a point")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{where}: is {value!r}, not a number") from error
    if not math.isfinite(number):
        return None, f"{NOT_FINITE} ({where})"
    return number, ""


def read_label(value: Any, where: str) -> bool:
    """True for an answer that was wanted: true, 1, "good", "desirable", …"""
    if isinstance(value, bool):
        return value
    written = str(value).strip().lower()
    if written in TRUE_LABELS:
        return True
    if written in FALSE_LABELS:
        return False
    raise DataError(f"{where}: is {value!r}; a label of an answer is true or false (or 1 or 0)")


def name_parts(name: str) -> list[str]:
    """The parts of a column's name: "chosenScore", "score-chosen", "chosen_rm_score"."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return [part for part in re.split(r"[^a-z0-9]+", spaced.lower()) if part]


KNOWN = {
    *SYSTEMS,
    *HISTORIES,
    *CHATS,
    *TOOLS,
    *(name for pair in PAIRS for name in pair),
    *LABELS,
    *("prompt", "instruction", "question", "query", "problem", "input", "completion", "response"),
    *("output", "answer", "user", "assistant"),
}
SIDES = {
    "chosen": ("chosen", "preferred", "accepted", "winner", "better"),
    "rejected": ("rejected", "dispreferred", "loser", "worse"),
}
ANSWER_WORDS = frozenset(
    ("response", "answer", "completion", "output", "reply", "text", "messages", "conversation")
)
MEASURES = ("score", "scores", "rating", "ratings", "reward", "rewards", "grade", "quality")


def is_pair_score(name: str) -> tuple[str, str] | None:
    """("chosen" or "rejected", the measure) of a column that scores one of two answers."""
    parts = name_parts(name)
    for side, synonyms in SIDES.items():
        for measure in MEASURES:
            if measure in parts and any(synonym in parts for synonym in synonyms):
                return side, measure.rstrip("s")
    return None


def pair_scores(columns: Columns) -> tuple[dict[str, float | None], str]:
    """({"chosen": …, "rejected": …} or {}, the fault of a score that is no finite number).

    Raises DataError where one of two scores is missing.
    """
    by_measure: dict[str, dict[str, str]] = {}
    for name in columns.left():
        scored = is_pair_score(name)
        if scored is not None:
            side, measure = scored
            by_measure.setdefault(measure, {}).setdefault(side, name)
    scores: dict[str, float | None] = {}
    faults: list[str] = []
    for measure in dict.fromkeys(measure.rstrip("s") for measure in MEASURES):
        names = by_measure.get(measure)
        if names is None:
            continue
        if len(names) == 1:
            ((side, name),) = names.items()
            if measure in ("score", "rating") and listed_pair(columns) is not None:
                columns.used.add(name)
                continue
            other = "rejected" if side == "chosen" else "chosen"
            raise DataError(
                f"{columns.place(name)}: the {other} answer has no {measure}; give both or neither"
            )
        numbers = {}
        for side in ("chosen", "rejected"):
            name = names[side]
            number, fault = read_number(columns.take(name), columns.place(name))
            numbers[side] = number
            if fault:
                faults.append(fault)
        if not scores:
            scores = numbers
        for name in columns.left():
            scored = is_pair_score(name)
            if scored is not None and scored[1] == measure:
                columns.used.add(name)
    name = listed_pair(columns)
    if not scores and name is not None:
        scores, faults = listed_scores(columns, name)
    if not scores and (name := columns.first(MARGINS)) is not None:
        margin, fault = read_number(columns.take(name), columns.place(name))
        scores = {"chosen": margin, "rejected": 0.0}
        faults = [fault] if fault else []
    columns.used.update(MARGINS)
    return scores, "; ".join(faults)


def listed_pair(columns: Columns) -> str | None:
    """The column that holds the scores of both answers."""
    for name in ("scores", "ratings", "rewards", "score", "rating"):
        value = columns.values.get(name)
        if isinstance(value, Mapping) and {"chosen", "rejected"} <= value.keys():
            return name
        if isinstance(value, list | tuple) and len(value) == 2:
            return name
    return None


def listed_scores(columns: Columns, name: str) -> tuple[dict[str, float | None], list[str]]:
    """The scores of both answers in one column: an object of both, or a list. This is in the order
    of the answers in `generations`, where the row has them, else [chosen, rejected].
    """
    value = columns.take(name)
    if isinstance(value, Mapping):
        value = [value["chosen"], value["rejected"]]
    generations = columns.values.get("generations")
    if isinstance(generations, list) and len(generations) == 2:
        texts = [columns.values.get(side) for side in ("chosen", "rejected")]
        if generations == texts[::-1] and texts[0] != texts[1]:
            value = value[::-1]
        elif generations != texts:
            raise DataError(
                f"{columns.place(name)}: scores the answers in generations, which are not chosen "
                "and rejected; give score_chosen and score_rejected"
            )
    scores: dict[str, float | None] = {}
    faults: list[str] = []
    for side, each in zip(("chosen", "rejected"), value, strict=True):
        if each is None:
            raise DataError(
                f"{columns.place(name)}: the {side} answer has no score; give both or neither"
            )
        scores[side], fault = read_number(each, columns.place(name))
        if fault:
            faults.append(fault)
    return scores, faults


def answer_of(
    messages: Chat,
    where: str,
    *,
    score: float | None = None,
    label: bool | None = None,
    weight: float | None = None,
    chosen: bool | None = None,
    context: tuple[int, ...] = (),
    fault: str = "",
) -> Answer:
    """An answer, at fault where it is blank or has the weight 0."""
    spoken = [message for message in messages if message.role == "assistant"]
    if not spoken:
        raise DataError(f"{where}: the answer has no message of the assistant's")
    if messages[-1].role != "assistant":
        raise DataError(f"{where}: the answer ends with a message that is not the assistant's")
    if not fault and any(not (m.content.strip() or m.further) for m in spoken):
        fault = f"{BLANK} ({where})"
    if not fault and weight == 0:
        fault = f"{WEIGHT_ZERO} ({where})"
    return Answer(messages, score, label, weight, chosen, context, fault)


def written_text(value: Any, where: str) -> str:
    """The text of a plain answer. Raises DataError for what is none."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise DataError(
            f"{where}: needs a text, or a list of messages with role and content; "
            f"this is {type_name(value)}"
        )
    return value


def tools_of(columns: Columns) -> list[Any]:
    """The tools that a chat offers, as objects."""
    from equipoise.prompts.written_chat import parse_list

    name = columns.first(TOOLS)
    if name is None:
        return []
    value = columns.take(name)
    if isinstance(value, str):
        import json

        try:
            value = json.loads(value)
        except ValueError:
            value = parse_list(value, columns.place(name))
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(tool, Mapping) for tool in value):
        raise DataError(f"{columns.place(name)}: needs a list of tools, each an object")
    tools = []
    for tool in value:
        tool = without_nulls(tool)
        is_function = "function" not in tool and "name" in tool
        tools.append({"type": "function", "function": tool} if is_function else tool)
    return tools


def learnable(chat: WrittenChat) -> list[int]:
    """The places of the assistant's messages that may be learned."""
    places = []
    for place, message in enumerate(chat.messages):
        if message.role == "assistant" and place not in chat.unlearned:
            places.append(place)
    return places


def assistant(text: str) -> Chat:
    """An answer of one message."""
    return (Message("assistant", text),)
