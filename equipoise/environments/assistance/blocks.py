"""The four blocks that an assistant writes: its thoughts, the game as it sees it, the
choice, and the response.

    <thinking>…</thinking><payoff>{…}</payoff><analyze>…</analyze><response>…</response>

The pay-off block is JSON: for each of six cells (the user's question vague or detailed,
the assistant's answer direct, clarifying or both) what the cell is worth to the user
and to the model. Source: GTAlign (arXiv 2510.08872), section 3.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from equipoise.errors import DataError

BLOCKS = ("thinking", "payoff", "analyze", "response")
TYPES = ("DQ", "VQ")  # the user's question: detailed, vague
ACTIONS = (
    "AQ",
    "CQ",
    "DA",
)  # the answer: with one follow-up question, a clarifying question only, direct
CELLS = tuple(f"{question}_{answer}" for question in TYPES for answer in ACTIONS)
LONGEST = 20_000  # characters of a pay-off block that are read; a matrix takes some two hundred

_WHOLE = re.compile(
    "".join(rf"\s*<{name}>(.*?)</{name}>" for name in BLOCKS) + r"\s*", re.DOTALL
)
_BLOCK = {name: re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL) for name in BLOCKS}
_TAG = re.compile(rf"</?(?:{'|'.join(BLOCKS)})>")
_STRAIGHT = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'"})
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
_CELL = rf"\b({'|'.join(CELLS)})\b"
_MENTION = re.compile(_CELL, re.IGNORECASE)
_CHOICE = re.compile(
    r"\b(?:choos\w*|chose\w*|choice|pick\w*|select\w*|recommend\w*|best|strategy)\b[^.;\n]*?"
    + _CELL,
    re.IGNORECASE,
)


class FormatError(DataError):
    """A text that is not the four blocks."""


class Cell(NamedTuple):
    """What one outcome is worth to either side."""

    user: float
    llm: float


Matrix = Mapping[str, Cell]  # all six of CELLS


@dataclass(frozen=True, slots=True)
class Parsed:
    """An output taken apart. A block that is not there is None; `faults` says all that
    is wrong, in words.

    `matrix` is None where the pay-off block does not hold one. `before` counts the
    characters before the response's opening tag, which a user waits for.
    """

    text: str
    thinking: str | None
    payoff: str | None
    analyze: str | None
    response: str | None
    matrix: Matrix | None
    faults: tuple[str, ...]
    before: int

    @property
    def well_formed(self) -> bool:
        """The four blocks in order, nothing outside them, and a matrix that can be
        read.
        """
        return not self.faults

    @property
    def chosen(self) -> str | None:
        """The cell that <analyze> names last as chosen, or, where no word of choice
        stands, names last.
        """
        if self.analyze is None:
            return None
        named = _CHOICE.findall(self.analyze) or _MENTION.findall(self.analyze)
        return named[-1].upper() if named else None


def parse(text: str, *, strict: bool = False) -> Parsed:
    """`text` taken apart. Blocks are found wherever they stand, so that a faulty output
    is still read.

    Python's quotes and curly ones are accepted in the matrix. With `strict`, raises
    FormatError that names every fault; otherwise nothing is raised.
    """
    whole = _WHOLE.fullmatch(text)
    if whole is not None and not any(map(_TAG.search, whole.groups())):
        found: list[str | None] = [part.strip() for part in whole.groups()]
        faults: list[str] = []
    else:
        matches = [_BLOCK[name].search(text) for name in BLOCKS]
        found = [None if match is None else match[1].strip() for match in matches]
        faults = list(_misplaced(text, matches))
    thinking, payoff, analyze, response = found
    matrix = None
    if payoff is not None:
        matrix = _matrix(payoff)
        if isinstance(matrix, str):
            faults.append(f"<payoff>: {matrix}")
            matrix = None
    if strict and faults:
        raise FormatError("; ".join(faults))
    before = text.find("<response>")
    return Parsed(
        text,
        thinking,
        payoff,
        analyze,
        response,
        matrix,
        tuple(faults),
        before if before >= 0 else len(text),
    )


def _misplaced(text: str, matches: list[re.Match[str] | None]) -> Iterator[str]:
    """What is wrong with the tags of a text that is not four blocks in order."""
    for name, match in zip(BLOCKS, matches, strict=True):
        opened, closed = text.count(f"<{name}>"), text.count(f"</{name}>")
        if match is None:
            if opened and closed:
                yield f"<{name}> is closed before it is opened"
            elif opened:
                yield f"<{name}> is not closed"
            elif closed:
                yield f"</{name}> closes nothing"
            else:
                yield f"there is no <{name}>"
        elif opened > 1 or closed > 1:
            yield f"<{name}> stands there more than once"
    there = [
        (match.start(), match.end(), name)
        for name, match in zip(BLOCKS, matches, strict=True)
        if match
    ]
    if there != sorted(there):
        yield f"the blocks stand in the order {', '.join(name for *_, name in sorted(there))}"
    end = 0
    for start, stop, name in sorted(there):
        if text[end:start].strip():
            yield f"text stands outside the blocks, before <{name}>"
        end = max(end, stop)
    if there and text[end:].strip():
        yield "text stands outside the blocks, after the last one"


def _matrix(block: str) -> Matrix | str:
    """The matrix in a pay-off block, or what is wrong with it."""
    if len(block) > LONGEST:
        return f"is {len(block)} characters long; a matrix takes some two hundred"
    values = _read(block)
    if isinstance(values, str):
        return values
    if not isinstance(values, dict):
        return "must be an object with the six cells"
    if missing := [name for name in CELLS if name not in values]:
        return f"lacks {', '.join(missing)}"
    if len(values) > len(CELLS):
        return (
            f"has a foreign key {next(key for key in values if key not in CELLS)!r:.40}"
        )
    matrix: dict[str, Cell] = {}
    for name in CELLS:
        cell = values[name]
        if not isinstance(cell, dict) or cell.keys() != {"LLM", "user"}:
            return f'{name} must be {{"LLM": number, "user": number}}'
        matrix[name] = Cell(cell["user"], cell["LLM"])
        for who, value in zip(("user", "LLM"), matrix[name], strict=True):
            if type(value) not in (int, float) or not -1e300 < value < 1e300:
                return f"{name}: {who} is {value!r:.40}, no finite number"
    return matrix


def _read(block: str) -> Any:
    """The block's value; a text says what is wrong."""
    fenced = _FENCE.fullmatch(block)
    text = fenced[1] if fenced else block
    text = text if text.isascii() else text.translate(_STRAIGHT)
    try:
        # A matrix in Python's quotes alone becomes JSON by changing them, which is ten
        # times as fast as reading Python.
        return _read_json(text if '"' in text else text.replace("'", '"'))
    except _Twice as error:
        return f"has the key {error.args[0]!r:.40} twice"
    except (ValueError, RecursionError) as error:
        fault = (
            error.msg if isinstance(error, json.JSONDecodeError) else "cannot be read"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of odd escapes, whose place in no file would help anybody
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return f"is not JSON: {fault}"


class _Twice(Exception):  # noqa: N818  never leaves this file
    """A key that stands twice in one object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(next(key for key in keys if keys.count(key) > 1))
    return found


_read_json = json.JSONDecoder(object_pairs_hook=_once).decode


def write(thinking: str, matrix: Matrix, analyze: str, response: str) -> str:
    """The four blocks as a text, without anything between them."""
    contents = (thinking, write_matrix(matrix), analyze, response)
    return "".join(
        f"<{name}>{content}</{name}>"
        for name, content in zip(BLOCKS, contents, strict=True)
    )


def write_matrix(matrix: Matrix) -> str:
    """The matrix as compact JSON, its numbers with one decimal."""
    cells = (
        f'"{name}":{{"LLM":{_plain(matrix[name].llm)},"user":{_plain(matrix[name].user)}}}'
        for name in CELLS
    )
    return f"{{{','.join(cells)}}}"


def _plain(value: float) -> str:
    rounded = round(value, 1)
    assert isfinite(rounded), value
    return f"{rounded + 0.0:.1f}"  # −0.0 is 0.0


_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]*", re.DOTALL)
_REQUEST = re.compile(
    r"\b(?:please (?:clarify|specify|tell|share|provide|confirm|give)|let me know (?:which|what|whether|if|how)|"
    r"(?:could|can|would) you (?:please )?(?:clarify|specify|tell|share|provide|confirm|give|explain))",
    re.IGNORECASE,
)
_MANNERS = re.compile(
    r"\W*(?:sure(?: thing)?|of course|certainly|absolutely|ok(?:ay)?|thanks?(?: you)?|hello|hi|hey|great|got it|"
    r"good question|happy to help|(?:i|we)(?:'d| would|'m| am)\b[^,]*\b(?:happy|glad|love)\b.*|"
    r"(?:i|we) (?:need|want) .*|to (?:help|answer|assist|clarify)\b.*|(?:before|so that) i .*|for example.*)\W*",
    re.IGNORECASE | re.DOTALL,
)


def action(response: str) -> str:
    """Which move a response is, by rule: "CQ" only asks, "AQ" says something and asks,
    "DA" asks nothing.

    A request to clarify counts as a question without its mark; a courtesy says nothing,
    nor does a list of choices that stands under a question.
    """
    asks = says = False
    for line in response.splitlines():
        listed = bool(re.match(r"\s*(?:[-*•]|\d+[.)]|\w[.)])\s", line))
        for sentence in _SENTENCE.findall(line):
            plain = sentence.strip()
            if not any(map(str.isalnum, plain)):
                continue
            if plain.rstrip("*_\"')”’ ").endswith("?") or _REQUEST.search(plain):
                asks = True
            elif not _MANNERS.fullmatch(plain) and not (listed and asks):
                says = True
    return ("AQ" if says else "CQ") if asks else "DA"
