"""The pay-off matrix that an assistant writes: six outcomes with two pay-offs each.

The user's question is vague or detailed (the row), the assistant answers, asks back, or does both
(the column). As JSON: {"DQ_AQ": {"LLM": 1.0, "user": 2.0}, …}. Source: GTAlign (arXiv 2510.08872),
section 3.
"""

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from math import isclose, isfinite
from typing import Any, NamedTuple

from equipoise.errors import DataError

QUESTION_TYPES = ("DQ", "VQ")  # detailed, vague
# AQ answers and asks one follow-up question, CQ asks a clarifying question only, DA answers
# directly.
ACTIONS = ("AQ", "CQ", "DA")
CELLS = tuple(f"{question}_{action}" for question in QUESTION_TYPES for action in ACTIONS)
LONGEST = 20_000  # characters of a block that are read; a matrix takes some two hundred
VAST = 1e300  # numbers from here on are refused

_STRAIGHT = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'"})
_RELEASED_STRAIGHT = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'"})
_FENCE = re.compile(r"```\w*\s*(.*)```", re.DOTALL)


class MatrixError(DataError):
    """A text that holds no pay-off matrix; the message says what is wrong with it."""


class Cell(NamedTuple):
    """Pay-offs of one outcome."""

    user: float
    llm: float


PayoffMatrix = Mapping[str, Cell]  # all six of CELLS


def cell_name(question: str, action: str) -> str:
    """The outcome of a question's type ("DQ", "VQ") and an action: "VQ_CQ"."""
    return f"{question}_{action}"


def question_of(cell: str) -> str:
    """The type of question of an outcome: "DQ" or "VQ"."""
    return cell[:2]


def action_of(cell: str) -> str:
    """The assistant's action in an outcome: "AQ", "CQ" or "DA"."""
    return cell[3:]


def read_matrix(block: str) -> PayoffMatrix:
    """The matrix of a block; quotes may be Python's or curly, or it fenced. Raises MatrixError."""
    if len(block) > LONGEST:
        raise MatrixError(f"is {len(block)} characters long; a matrix takes some two hundred")
    values = read_value(block)
    if not isinstance(values, dict):
        raise MatrixError("must be an object with the six cells")
    missing = [name for name in CELLS if name not in values]
    if missing:
        raise MatrixError(f"lacks {', '.join(missing)}")
    if len(values) > len(CELLS):
        foreign = next(key for key in values if key not in CELLS)
        raise MatrixError(f"has a foreign key {_brief(foreign)}")
    return {name: read_cell(name, values[name]) for name in CELLS}


def read_matrix_as_released(block: str) -> PayoffMatrix:
    """The matrix of a block as GTAlign's code reads it. Raises MatrixError.

    A fence is a fault; of a cell that stands twice the last counts; true, NaN and Infinity are
    numbers.
    """
    try:
        values = released_value(block)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise MatrixError("is neither JSON nor Python") from error
    if not isinstance(values, dict) or values.keys() != set(CELLS):
        raise MatrixError("must be an object with the six cells")
    for name, value in values.items():
        if not isinstance(value, dict) or value.keys() != {"LLM", "user"}:
            raise MatrixError(f'{name} must be {{"LLM": number, "user": number}}')
        if not all(isinstance(payoff, (int, float)) for payoff in value.values()):
            raise MatrixError(f"{name}: {_brief(value)} are no numbers")
    matrix = {name: Cell(values[name]["user"], values[name]["LLM"]) for name in CELLS}
    try:
        matrix_contrast(matrix)
    except OverflowError as error:
        raise MatrixError("has a vast number beside one with a fraction") from error
    return matrix


def released_value(block: str) -> Any:
    try:
        return json.loads(block)
    except (ValueError, RecursionError):
        text = block.translate(_RELEASED_STRAIGHT)
    if len(text) > LONGEST:
        raise ValueError("too long to be read as Python")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(ast.literal_eval(text)))


def read_cell(name: str, value: Any) -> Cell:
    if not isinstance(value, dict) or value.keys() != {"LLM", "user"}:
        raise MatrixError(f'{name} must be {{"LLM": number, "user": number}}')
    cell = Cell(value["user"], value["LLM"])
    for side, payoff in zip(("user", "LLM"), cell, strict=True):
        if type(payoff) not in (int, float) or not -VAST < payoff < VAST:
            raise MatrixError(f"{name}: {side} is {_brief(payoff)}, no finite number")
    return cell


def _brief(value: Any) -> str:
    try:
        return f"{value!r:.40}"
    except (ValueError, RecursionError):  # a number of too many digits, nested lists
        return f"of the kind {type(value).__name__}"


def read_value(block: str) -> Any:
    fenced = _FENCE.fullmatch(block)
    text = fenced[1].rstrip() if fenced else block
    if not text.isascii():
        text = text.translate(_STRAIGHT)
    try:
        # A matrix in Python's quotes alone becomes JSON by changing them, which is ten times as
        # fast as reading Python.
        return _decode_json(text if '"' in text else text.replace("'", '"'))
    except MatrixError:
        raise
    except json.JSONDecodeError as error:
        fault = error.msg
    except (ValueError, RecursionError):
        fault = "cannot be read"
    if not text.isascii():  # no matrix, and Python puts its names in order slowly
        raise MatrixError(f"is not JSON: {fault}")
    try:
        with warnings.catch_warnings():
            # Warnings of odd escapes would name a place in no file.
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise MatrixError(f"is not JSON: {fault}") from error


def without_double_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        double = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise MatrixError(f"has the key {double!r:.40} twice")
    return values


_decode_json = json.JSONDecoder(object_pairs_hook=without_double_keys).decode


def matrix_contrast(matrix: PayoffMatrix) -> float:
    """Σ over the six cells of 1/12·[u ≠ l] + 1/12·[|u − l| / max(|u|, |l|, 1e-8) > 0.1]."""
    count = 0
    for user, llm in matrix.values():
        count += user != llm
        count += abs(user - llm) / max(abs(user), abs(llm), 1e-8) > 0.1
    return count / 12


def undominated(matrix: PayoffMatrix, tolerance: float = 1e-9) -> tuple[str, ...]:
    """The outcomes that no other dominates; pay-offs that differ by less than `tolerance`, or by
    that share, are equal. None where numbers are too vast to be compared.

    >>> undominated({name: Cell(n, -abs(n - 4)) for n, name in enumerate(CELLS)})
    ('VQ_CQ', 'VQ_DA')
    """

    def dominates(b: Cell, a: Cell) -> bool:
        pairs = list(zip(b, a, strict=True))
        more = [y > x + tolerance for y, x in pairs]
        return any(more) and all(
            larger or isclose(y, x, abs_tol=tolerance)
            for larger, (y, x) in zip(more, pairs, strict=True)
        )

    try:
        return tuple(
            name
            for name in CELLS
            if not any(dominates(matrix[other], matrix[name]) for other in CELLS)
        )
    except OverflowError:
        return ()


def write_matrix(matrix: PayoffMatrix) -> str:
    """The matrix as compact JSON, its numbers with one decimal."""
    cells = [
        f'"{name}":{{"LLM":{one_decimal(matrix[name].llm)},'
        f'"user":{one_decimal(matrix[name].user)}}}'
        for name in CELLS
    ]
    return f"{{{','.join(cells)}}}"


def one_decimal(value: float) -> str:
    rounded = round(value, 1)
    assert isfinite(rounded), value
    return f"{rounded + 0.0:.1f}"  # −0.0 is 0.0
