"""Verdicts in a judge's reply: the last one counts, and only a clear one.

A reply may hold its verdict as a JSON object (fenced or bare, among other words), as
`Score: 7/10`, as `[[7]]`, or be nothing but the verdict. Where the question gave a code, only a
verdict that carries it counts: an object with a field that equals the code (also in single quotes,
or without any around its keys), a grade right before the code in what is no whole object, or a line
`CODE: 7`. The judged text does not know the code,
so nothing that the judge quotes from it can be taken for the verdict.

Nothing is decoded: what stands in the reply counts as it stands there, digit by digit, and an
escaped character is never another. So a text that holds the code in some other spelling holds none.

A long reply is read at its end: the last verdict counts, and what takes more room than LONGEST is
none. Reading takes time in proportion to the reply's length.
"""

import json
import math
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from equipoise.answer import UNFINISHED, parse_answer

LONGEST = 100_000  # characters of a reply, after its thoughts, that are read
WORK = 10 * LONGEST  # characters that are read in search of objects
LONGEST_NUMBER = 100  # characters of a value that may be a number
SCORE_KEYS = ("score", "rating", "grade")
BOXED = "boxed"
CHOICE_KEYS = ("verdict", "winner", "choice", "better", "preferred", "preference")
NUMBER = r"[-+−]?\d+(?:[.,]\d+)?"
# A number, perhaps followed by a scale ("/10", "out of 10") or by another number.
AMOUNT = (
    rf"{NUMBER}"
    r"(?:\s*(?:/|out\s+of)\s*\d+(?:\.\d+)?|\s*(?:-|–|to|or)\s*\d+(?:\.\d+)?)?"
    r"(?!\w|[.,]\d|\s?%)"
)
NOUN = r"(?:answer|response|assistant|option)\s+"  # before a label: "Answer A"
# Bounded: a reply of nothing but marks must not take long to read.
MARKS = r"[\s\"'*_`<>()\[\]{}]{0,40}"
MARKS_IN_LINE = r"[ \t\"'*_`]{0,40}"
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Unread:
    """The reason why no verdict was read."""

    reason: str


class Abstained(Unread):
    """The reason why a judge gave no verdict, as it said itself."""


class JsonObject(list[tuple[str, Any]]):
    """The (key, value) pairs of a JSON object, repeated keys included."""


STRICT = re.compile(r"\{\s*[\"}]")  # the beginning of an object in JSON
LOOSE_PAIR = re.compile(
    r"\s*(?P<key>\"[^\"]{0,40}\"|'[^']{0,40}'|\w{1,40})\s*:"
    r"\s*(?P<value>\"[^\"]*\"|'[^']*'|[-+−\w./]{1,100})\s*(?P<end>,\s*\}|[,}])"
)
DECODER = json.JSONDecoder(strict=False, object_pairs_hook=JsonObject)
ESCAPE = re.compile(r"\\.?", re.DOTALL)
STAND_IN = "\ufffd"  # for each character of an escape; in no code and no verdict


@dataclass(frozen=True, slots=True)
class PlacedVerdict(Generic[V]):
    """A verdict, or a faulty one, and where it stands in the reply."""

    start: int
    end: int
    value: V | Unread


@dataclass(frozen=True, slots=True)
class VerdictForm(Generic[V]):
    """The form of a verdict.

    keys: names that it may stand under. pattern: in plain text. parse: gives its value. code: must
    stand with it, "" for none. alone: nothing may stand around it.
    """

    keys: Sequence[str]
    pattern: str
    parse: Callable[[Any], V | Unread]
    code: str
    alone: bool = False


RELEASED_GRADES = (
    re.compile(r'\{\s*"score"\s*:\s*(\d+)\s*\}', re.IGNORECASE),
    re.compile(r'"score"\s*:\s*(\d+)', re.IGNORECASE),
    re.compile(r"score\s*[:=]\s*(\d+)", re.IGNORECASE),
    re.compile(r"(\d+)\s*/\s*10"),
)
"""Where SPARTA's released judge looks for a grade, one place after the other: a whole object, a
field, a word with a colon, a number over ten.
"""


def read_score_as_released(reply: str) -> float | Unread:
    """A grade as SPARTA's released judge reads it: whole, of 1 to 10, wherever it stands.

    A reply that is one JSON object gives its score cut to a whole number, 0 included. Otherwise the
    first number of 1 to 10 counts in the first of `RELEASED_GRADES` that has one.
    """
    text = reply.strip()
    try:
        whole = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        whole = {}
    if not isinstance(whole, dict | list | str):
        return Unread("the reply is a bare value")
    if not isinstance(whole, dict) and "score" in whole:
        return Unread("the reply names a score and is no object")
    score = whole.get("score") if isinstance(whole, dict) else None
    if isinstance(score, int | float) and 0 <= score <= 10:
        return float(int(score))
    for place in RELEASED_GRADES:
        for number in place.findall(text):
            if len(number) <= 4 and 1 <= int(number) <= 10:
                return float(int(number))
    return Unread("no grade of 1 to 10")


def read_score(
    reply: str,
    low: float,
    high: float,
    code: str = "",
    keys: Sequence[str] = SCORE_KEYS,
    alone: bool = False,
) -> float | Unread:
    """The number from `low` to `high` that the reply ends with, or why there is none.

    With `alone` the reply must be that and nothing else: so no number that a judge
    quotes is taken for its own, where there is no code to tell them apart.

    `keys` are the names that it may stand under. With "boxed" among them, TeX's
    `\\boxed{7}` is one too, but only then: it is also how an answer to a mathematical
    problem ends, which a judge may quote.
    """

    def parse(value: Any) -> float | Unread:
        return amount_of(value, low, high)

    return last_verdict(reply, VerdictForm(keys, AMOUNT, parse, code, alone))


def read_choice(
    reply: str, labels: Sequence[str], code: str = "", alone: bool = False
) -> str | Unread:
    """The one of `labels`, in any case, that the reply ends with or (`alone`) is, or why none."""
    known = {label.casefold(): label for label in labels}

    def parse(value: Any) -> str | Unread:
        text = re.sub(rf"^{NOUN}", "", as_text(value).strip().casefold())
        label = known.get(text.strip(" .!*\"'"))
        if label is None:
            return Unread(f"the verdict {brief_text(value)} is none of {', '.join(labels)}")
        return label

    longest_first = sorted(labels, key=len, reverse=True)
    options = "|".join(map(re.escape, longest_first))
    pattern = rf"(?:{NOUN})?(?:{options})(?!\w)"
    return last_verdict(reply, VerdictForm(CHOICE_KEYS, pattern, parse, code, alone))


def last_verdict(reply: str, form: VerdictForm[V]) -> V | Unread:
    answer = parse_answer(reply)
    if answer.unfinished:
        return Unread(UNFINISHED)
    text = answer.text[-LONGEST:]
    if not text.strip():
        return Unread("the reply is empty")
    in_objects = list(find_in_objects(text, form))
    in_words = find_with_code(text, form) if form.code else find_labelled(text, form)
    starts = [verdict.start for verdict in in_objects]
    verdicts = in_objects + [
        verdict for verdict in in_words if not is_inside(verdict, in_objects, starts)
    ]
    if form.alone:
        verdicts = [verdict for verdict in verdicts if is_whole(verdict, text)]
    if not verdicts:
        lack = " with the code of the question" if form.code else ""
        lack += " and nothing else" if form.alone else ""
        return Unread(f"no verdict{lack} in the reply {brief_text(reply)}")
    return max(verdicts, key=lambda verdict: (verdict.end, verdict.start)).value


def is_whole(verdict: PlacedVerdict[V], text: str) -> bool:
    """True if nothing but marks, or a fence, stands around a verdict."""
    before, after = text[: verdict.start], text[verdict.end :]
    around = before.removesuffix("json\n") + after
    return not any(map(str.isalnum, around))


def is_inside(
    verdict: PlacedVerdict[V], objects: Sequence[PlacedVerdict[V]], starts: Sequence[int]
) -> bool:
    last = bisect_right(starts, verdict.start) - 1
    return last >= 0 and verdict.end <= objects[last].end


# -- objects


def find_in_objects(text: str, form: VerdictForm[V]) -> Iterator[PlacedVerdict[V]]:
    position = 0
    for start, (end, values) in sorted(objects_in(text, form).items()):
        if start >= position:
            yield PlacedVerdict(start, end, only_value(values, form))
            position = end


def objects_in(text: str, form: VerdictForm[V]) -> dict[int, tuple[int, list[Any]]]:
    """Start -> (end, verdicts) of objects with verdicts, from the last to the first.

    At most WORK characters are read: many that never end would each be read to the end.
    """
    objects = {}
    work = WORK
    # An escape keeps its length and ends no string, and is nothing that could be decoded.
    literal = ESCAPE.sub(lambda escape: STAND_IN * len(escape[0]), text)
    for opening in reversed(list(re.finditer(r"\{", literal))):
        start = opening.start()
        tree, end = parse_json(literal, start) if STRICT.match(literal, start) else (None, start)
        if tree is None:
            work -= end - start
            tree, end = loose_object(literal, start)
        work -= end - start
        values: list[Any] = []
        for pairs in all_objects(tree):
            values += verdict_values(pairs, form)
        if values:
            objects[start] = end, values
        if work < 0:
            break
    return objects


def only_value(values: Sequence[Any], form: VerdictForm[V]) -> V | Unread:
    """The value of the verdicts of one object, if it is the same."""
    distinct: dict[str, V | Unread] = {}
    for value in map(form.parse, values):
        distinct[repr(value)] = value
    if len(distinct) > 1:
        shown = ", ".join(map(brief_text, values))
        return Unread(f"contradicting verdicts in one object: {shown}")
    return next(iter(distinct.values()))


def parse_json(text: str, start: int) -> tuple[JsonObject | None, int]:
    """The JSON object that begins at `start`, if there is one, and where reading ended."""
    try:
        return DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return None, error.pos
    except (ValueError, RecursionError):  # a number of too many digits, deep nesting
        return None, len(text)


def loose_object(text: str, start: int) -> tuple[JsonObject | None, int]:
    """An object without inner ones in looser spelling, such as {'score': 7, code: "…",}, and where
    reading ended. Its texts are those between their quotes, as they stand.
    """
    pairs = JsonObject()
    end = start + 1
    while match := LOOSE_PAIR.match(text, end):
        pairs.append((match["key"].strip("\"'"), match["value"].strip("\"'")))
        end = match.end()
        if match["end"] != ",":
            return pairs, end
    return None, end


def all_objects(tree: Any) -> Iterator[JsonObject]:
    """The objects in a parsed text, outer ones first."""
    waiting = deque([tree])
    while waiting:
        branch = waiting.popleft()
        if isinstance(branch, JsonObject):
            yield branch
            waiting += [value for _, value in branch]
        elif isinstance(branch, list):
            waiting += branch


def verdict_values(pairs: JsonObject, form: VerdictForm[V]) -> list[Any]:
    """An object's values under the keys of a verdict; none where it lacks the code."""
    if form.code and not any(is_code(value, form.code) for _, value in pairs):
        return []
    return [
        value
        for key, value in pairs
        if key.strip().casefold() in form.keys and not isinstance(value, JsonObject)
    ]


def is_code(value: Any, code: str) -> bool:
    return isinstance(value, str) and value.strip() == code


# -- plain text


def find_labelled(text: str, form: VerdictForm[V]) -> list[PlacedVerdict[V]]:
    """`Score: 7/10`, `**Verdict:** A`, `<score>7</score>`, `[[7]]`, the whole reply.

    Also `boxed{7}`, where "boxed" is a key.
    """
    verdict = rf"(?P<verdict>{form.pattern})"
    names = "|".join(form.keys)
    patterns = [
        rf"\b(?:{names}){MARKS}(?:[:=]|(?<=>)){MARKS}{verdict}",
        rf"\[\[\s*{verdict}\s*\]\]",
        rf"\A{MARKS}{verdict}{MARKS}\.?{MARKS}\Z",
    ]
    if BOXED in form.keys:
        patterns.insert(2, rf"\\boxed\s*\{{\s*{verdict}\s*\}}")
    return matches_of(text, patterns, form, re.IGNORECASE)


def find_with_code(text: str, form: VerdictForm[V]) -> list[PlacedVerdict[V]]:
    """A line `CODE: 7` or `Score CODE: 7`, or a faulty object's end `…, "code": "CODE"`."""
    verdict = rf"(?P<verdict>{form.pattern})"
    names = "|".join(form.keys)
    code = rf"(?-i:{form.code})"
    marks, quote = MARKS_IN_LINE, r"[\"']"
    patterns = [
        rf"^{marks}(?:(?:{names})[:]?{marks})?{code}{marks}[:=]"
        rf"{marks}{verdict}{marks}\.?{marks}$",
        rf"{quote}(?:{names}){quote}\s*:\s*{quote}?{verdict}{quote}?\s*,"
        rf"\s*{quote}\w{{1,40}}{quote}\s*:\s*{quote}{code}{quote}",
    ]
    return matches_of(text, patterns, form, re.IGNORECASE | re.MULTILINE)


def matches_of(
    text: str, patterns: Sequence[str], form: VerdictForm[V], flags: re.RegexFlag
) -> list[PlacedVerdict[V]]:
    verdicts = []
    for pattern in patterns:
        for match in re.finditer(pattern, text, flags):
            value = form.parse(match["verdict"])
            verdicts.append(PlacedVerdict(match.start(), match.end(), value))
    return verdicts


def amount_of(value: Any, low: float, high: float) -> float | Unread:
    """A number in range, of a number or of a text like "7", "7/10" and "7 out of 10"."""
    if isinstance(value, (bool, type(None))):
        return Unread(f"the verdict {brief_text(value)} is no number")
    shown = as_text(value).strip()
    if len(shown) > LONGEST_NUMBER:
        return Unread(f"the verdict {brief_text(value)} is no number")
    parts = re.fullmatch(
        rf"({NUMBER})\s*"
        r"(?:(?P<of>/|out\s+of)\s*(?P<whole>\d+(?:\.\d+)?)"
        r"|(?P<to>-|–|to|or)\s*[\d.]+)?",
        shown,
        re.IGNORECASE,
    )
    try:
        text = parts[1].replace(",", ".").replace("−", "-") if parts else shown
        number = float(text)
    except ValueError:
        return Unread(f"the verdict {brief_text(value)} is no number")
    if parts and parts["to"]:
        return Unread(f"the verdict {brief_text(value)} is two numbers")
    if parts and parts["of"] and float(parts["whole"]) != high:
        return Unread(f"the verdict {brief_text(value)} is not on the scale to {high:g}")
    if not math.isfinite(number) or not low <= number <= high:
        return Unread(f"the verdict {brief_text(value)} is not within {low:g} and {high:g}")
    return number


def as_text(value: Any) -> str:
    """The value as a text; a kind's name where it has too many digits or levels."""
    try:
        return str(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is too large"


def brief_text(value: Any) -> str:
    text = " ".join(as_text(value)[:LONGEST].split())
    return repr(text if len(text) <= 80 else f"{text[:60]} … {text[-17:]}")
