"""Verdicts out of a judge's own words: the last one counts, and what is not clearly a
verdict is none.

A reply may hold its verdict as a JSON object (fenced or bare, in single or double
quotes, among other words), as `Score: 7/10`, as `[[7]]`, or be nothing but the verdict.
Where the question gave a code, only a verdict that carries it counts: an object with a
field that equals the code, or a line `CODE: 7`. The judged text does not know the code,
so nothing that the judge quotes from it can be taken for the verdict.
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

SCORE_KEYS = ("score", "rating", "grade")
BOXED = "boxed"
CHOICE_KEYS = ("verdict", "winner", "choice", "better", "preferred", "preference")
NUMBER = r"[-+−]?\d+(?:[.,]\d+)?"
AMOUNT = rf"{NUMBER}(?:\s*(?:/|out\s+of)\s*\d+(?:\.\d+)?|\s*(?:-|–|to|or)\s*\d+(?:\.\d+)?)?(?!\w|[.,]\d|\s?%)"
MARKS = r"[\s\"'*_`<>()\[\]{}]{0,40}"  # bounded: a reply of nothing but marks must not take long to read
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Unread:
    """Why no verdict was read."""

    reason: str


class Pairs(list[tuple[str, Any]]):
    """A JSON object with its double keys."""


@dataclass(frozen=True, slots=True)
class Found(Generic[V]):
    """A verdict, or one that is none, and where it stands in the reply."""

    start: int
    end: int
    value: V | Unread


def score(
    reply: str,
    low: float,
    high: float,
    code: str = "",
    keys: Sequence[str] = SCORE_KEYS,
) -> float | Unread:
    """The number from `low` to `high` that the reply ends with, or why there is none.

    `keys` are the names that it may stand under. With "boxed" among them, TeX's
    `\\boxed{7}` is one too, but only then: it is also how an answer to a mathematical
    problem ends, which a judge may quote.
    """

    def value_of(said: Any) -> float | Unread:
        return _amount(said, low, high)

    return _last(reply, keys, AMOUNT, value_of, code)


def choice(reply: str, labels: Sequence[str], code: str = "") -> str | Unread:
    """The one of `labels` that the reply ends with, or why there is none. Case does not
    matter.
    """
    known = {label.casefold(): label for label in labels}

    def value_of(said: Any) -> str | Unread:
        word = re.sub(
            r"^(?:answer|response|assistant|option)\s+",
            "",
            str(said).strip().casefold(),
        ).strip(" .!*\"'")
        return known.get(
            word, Unread(f"the verdict {_brief(said)} is none of {', '.join(labels)}")
        )

    words = "|".join(
        re.escape(label) for label in sorted(labels, key=len, reverse=True)
    )
    return _last(
        reply,
        CHOICE_KEYS,
        rf"(?:(?:answer|response|assistant|option)\s+)?(?:{words})(?!\w)",
        value_of,
        code,
    )


def _last(
    reply: str,
    keys: Sequence[str],
    amount: str,
    value_of: Callable[[Any], V | Unread],
    code: str,
) -> V | Unread:
    words = spoken(reply)
    if not words.strip():
        return Unread("the reply is empty")
    objects = list(_objects(words, keys, value_of, code))
    found = objects + (_coded if code else _labelled)(
        words, keys, amount, value_of, code
    )
    inside = [(one.start, one.end) for one in objects]
    found = [
        one
        for one in found
        if one in objects or not any(s <= one.start and one.end <= e for s, e in inside)
    ]
    if not found:
        return Unread(
            f"no verdict{' with the code of the question' if code else ''} in the reply {_brief(reply)}"
        )
    return max(found, key=lambda one: (one.end, one.start)).value


def spoken(reply: str) -> str:
    """The reply without the thoughts that a reasoning model shows before it, ended or
    not.
    """
    rest = re.sub(r"<think>.*?(?:</think>|\Z)", "", reply, flags=re.DOTALL)
    return rest.rpartition("</think>")[2]


# -- objects


def _objects(
    words: str, keys: Sequence[str], value_of: Callable[[Any], V | Unread], code: str
) -> Iterator[Found[V]]:
    """The verdict of each outermost object in the text that has one."""
    at = 0
    while (start := words.find("{", at)) >= 0:
        read = _json(words, start) or _literal(words, start)
        at = start + 1
        if read is None:
            continue
        tree, end = read
        said = [
            value for pairs in _all_pairs(tree) for value in _said(pairs, keys, code)
        ]
        if said:
            values = {repr(value): value for value in map(value_of, said)}
            two = Unread(
                f"contradicting verdicts in one object: {', '.join(map(_brief, said))}"
            )
            yield Found(
                start, end, two if len(values) > 1 else next(iter(values.values()))
            )
            at = end


def _json(words: str, start: int) -> tuple[Any, int] | None:
    try:
        return json.JSONDecoder(strict=False, object_pairs_hook=Pairs).raw_decode(
            words, start
        )
    except (ValueError, RecursionError):
        return None


def _literal(words: str, start: int) -> tuple[Any, int] | None:
    """An object without inner ones in Python's spelling, which models often write:
    {'score': 7}.
    """
    match = re.compile(r"\{[^{}]*\}").match(words, start)
    if match is None:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # the reply's own odd escapes
            tree = ast.parse(match.group(), mode="eval").body
        if not isinstance(tree, ast.Dict):
            return None
        pairs = [
            (ast.literal_eval(k), ast.literal_eval(v))
            for k, v in zip(tree.keys, tree.values, strict=True)
            if k
        ]
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return Pairs((str(key), value) for key, value in pairs), match.end()


def _all_pairs(tree: Any) -> Iterator[Pairs]:
    waiting = [tree]
    while waiting:
        branch = waiting.pop(0)
        if isinstance(branch, Pairs):
            yield branch
            waiting += [value for _, value in branch]
        elif isinstance(branch, list):
            waiting += branch


def _said(pairs: Pairs, keys: Sequence[str], code: str) -> list[Any]:
    """What an object says under the keys of a verdict; nothing where it lacks the code."""
    if code and not any(
        isinstance(value, str) and value.strip().casefold() == code
        for _, value in pairs
    ):
        return []
    return [
        value
        for key, value in pairs
        if key.strip().casefold() in keys and not isinstance(value, Pairs)
    ]


# -- words


def _labelled(
    words: str,
    keys: Sequence[str],
    amount: str,
    value_of: Callable[[Any], V | Unread],
    code: str,
) -> list[Found[V]]:
    """`Score: 7/10`, `**Verdict:** A`, `<score>7</score>`, `[[7]]`, the whole reply;
    `boxed{7}` where that is a key.
    """
    label = rf"\b(?:{'|'.join(keys)}){MARKS}(?:[:=]|(?<=>)){MARKS}(?P<said>{amount})"
    boxed = [rf"\\boxed\s*\{{\s*(?P<said>{amount})\s*\}}"] if BOXED in keys else []
    whole = rf"\A{MARKS}(?P<said>{amount}){MARKS}\.?{MARKS}\Z"
    patterns = (label, rf"\[\[\s*(?P<said>{amount})\s*\]\]", *boxed, whole)
    return [
        Found(match.start(), match.end(), value_of(match["said"]))
        for pattern in patterns
        for match in re.finditer(pattern, words, re.IGNORECASE)
    ]


def _coded(
    words: str,
    keys: Sequence[str],
    amount: str,
    value_of: Callable[[Any], V | Unread],
    code: str,
) -> list[Found[V]]:
    """A line `CODE: 7` or `Score CODE: 7`, or the end of a faulty object: `"score": 7,
    "code": "CODE"`.
    """
    named = "|".join(keys)
    marks = r"[ \t\"'*_`]{0,40}"
    line = rf"^{marks}(?:(?:{named})[:]?{marks})?{code}{marks}[:=]{marks}(?P<said>{amount}){marks}\.?{marks}$"
    tail = rf"[\"'](?:{named})[\"']\s*:\s*[\"']?(?P<said>{amount})[\"']?\s*,\s*[\"']\w+[\"']\s*:\s*[\"']{code}[\"']"
    return [
        Found(match.start(), match.end(), value_of(match["said"]))
        for pattern in (line, tail)
        for match in re.finditer(pattern, words, re.IGNORECASE | re.MULTILINE)
    ]


def _amount(said: Any, low: float, high: float) -> float | Unread:
    """A number in range, of a number or of words like "7", "7/10" and "7 out of 10"."""
    if isinstance(said, (bool, type(None))):
        return Unread(f"the verdict {_brief(said)} is no number")
    parts = re.fullmatch(
        rf"\s*({NUMBER})\s*(?:(?P<of>/|out\s+of)\s*(?P<whole>\d+(?:\.\d+)?)|(?P<to>-|–|to|or)\s*[\d.]+)?\s*",
        str(said),
        re.IGNORECASE,
    )
    try:
        value = (
            float(parts[1].replace(",", ".").replace("−", "-"))
            if parts
            else float(said)
        )
    except (TypeError, ValueError, OverflowError):
        return Unread(f"the verdict {_brief(said)} is no number")
    if parts and parts["to"]:
        return Unread(f"the verdict {_brief(said)} is two numbers")
    if parts and parts["of"] and float(parts["whole"]) != high:
        return Unread(f"the verdict {_brief(said)} is not on the scale to {high:g}")
    if not math.isfinite(value) or not low <= value <= high:
        return Unread(f"the verdict {_brief(said)} is not within {low:g} and {high:g}")
    return value


def _brief(said: Any) -> str:
    text = " ".join(str(said).split())
    return repr(text if len(text) <= 80 else f"{text[:60]} … {text[-17:]}")
