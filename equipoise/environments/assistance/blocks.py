"""The four blocks that an assistant writes.

    <thinking>…</thinking><payoff>{…}</payoff><analyze>…</analyze><response>…</response>

The pay-off block is a matrix of six outcomes, as JSON. Source: GTAlign (arXiv 2510.08872), section
3.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from equipoise.environments.assistance.payoff_matrix import (
    CELLS,
    MatrixError,
    PayoffMatrix,
    read_matrix,
    read_matrix_as_released,
    write_matrix,
)
from equipoise.errors import DataError

BLOCKS = ("thinking", "payoff", "analyze", "response")

_TAG = re.compile(rf"</?(?:{'|'.join(BLOCKS)})>")
# Between two blocks, and after the last, as the released pattern has them.
_SEAMS = (
    *(re.compile(rf"</{before}>\s*<{after}>") for before, after in pairwise(BLOCKS)),
    re.compile(rf"</{BLOCKS[-1]}>$", re.MULTILINE),
)
_CELL = rf"\b({'|'.join(CELLS)})\b"
_MENTION = re.compile(_CELL, re.IGNORECASE)
# What is chosen is the next cell in the same part of a sentence.
_CHOICE = re.compile(
    r"\b(?P<chooses>choos\w*|chose\w*|choice|pick\w*|select\w*|recommend\w*|best|"
    rf"strategy)\b|{_CELL.replace('(', '(?P<cell>')}|(?P<ends>[.;\n])",
    re.IGNORECASE,
)


class FormatError(DataError):
    """A text that is not the four blocks."""


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """An output taken apart; a block that is not there is None, and `faults` are in words.

    `matrix` is None where it cannot be read. `before` counts the characters before the response.
    """

    text: str
    thinking: str | None
    payoff: str | None
    analyze: str | None
    response: str | None
    matrix: PayoffMatrix | None
    faults: tuple[str, ...]
    before: int

    @property
    def well_formed(self) -> bool:
        """The four blocks in order, nothing outside them, and a matrix that can be read."""
        return not self.faults

    @property
    def chosen(self) -> str | None:
        """The cell that <analyze> names last as chosen or, without one, names last."""
        if self.analyze is None:
            return None
        cells = chosen_cells(self.analyze) or _MENTION.findall(self.analyze)
        return cells[-1].upper() if cells else None

    @property
    def contents(self) -> dict[str, str | None]:
        """Block name -> text."""
        return {
            "thinking": self.thinking,
            "payoff": self.payoff,
            "analyze": self.analyze,
            "response": self.response,
        }


@dataclass(frozen=True, slots=True)
class Block:
    """A block's place in a text, its tags included, and the text between them."""

    name: str
    start: int
    end: int
    content: str


def find_block(text: str, name: str) -> Block | None:
    """The first block of this name that is opened and closed."""
    opening = f"<{name}>"
    closing = f"</{name}>"
    start = text.find(opening)
    stop = text.find(closing, start + len(opening)) if start >= 0 else -1
    if stop < 0:
        return None
    content = text[start + len(opening) : stop].strip()
    return Block(name, start, stop + len(closing), content)


def parse(text: str, *, strict: bool = False) -> ParsedOutput:
    """Take `text` apart, wherever blocks stand; matrices may have Python's or curly quotes.

    With `strict`, raises FormatError that names every fault; otherwise nothing is raised.
    """
    blocks = [find_block(text, name) for name in BLOCKS]
    present = [block for block in blocks if block]
    faults = [*tag_faults(text, blocks), *order_faults(present), *text_outside(text, present)]
    thinking, payoff, analyze, response = (block and block.content for block in blocks)
    matrix = None
    if payoff is not None:
        try:
            matrix = read_matrix(payoff)
        except MatrixError as error:
            faults.append(f"<payoff>: {error}")
    if strict and faults:
        raise FormatError("; ".join(faults))
    before = text.find("<response>")
    return ParsedOutput(
        text,
        thinking,
        payoff,
        analyze,
        response,
        matrix,
        tuple(faults),
        before if before >= 0 else len(text),
    )


def parse_as_released(text: str) -> ParsedOutput:
    """Take `text` apart as GTAlign's code does; nothing is raised.

    The text is taken as it stands: it begins with <thinking>, and a line ends behind </response>.
    Of a block that stands there more than once the first counts, which is no fault.
    """
    blocks = [find_block(text, name) for name in BLOCKS]
    thinking, payoff, analyze, response = (block and block.content for block in blocks)
    faults = []
    matrix = None
    opening = f"<{BLOCKS[0]}>"
    place = len(opening) if text.startswith(opening) else -1
    for seam in _SEAMS:
        found = seam.search(text, place) if place >= 0 else None
        place = found.end() if found else -1
    if place < 0:
        faults.append("the four blocks do not stand in order, from the first character on")
    try:
        matrix = read_matrix_as_released(payoff or "")
    except MatrixError as error:
        faults.append(f"<payoff>: {error}")
    before = len(text.split("<response>")[0])
    return ParsedOutput(text, thinking, payoff, analyze, response, matrix, tuple(faults), before)


def response_only(output: str) -> ParsedOutput:
    return ParsedOutput(output, None, None, None, output.strip(), None, (), 0)


def chosen_cells(analyze: str) -> list[str]:
    cells: list[str] = []
    chooses = False
    for match in _CHOICE.finditer(analyze):
        if match["cell"] and chooses:
            cells.append(match["cell"])
        chooses = bool(match["chooses"])
    return cells


def tag_faults(text: str, blocks: Sequence[Block | None]) -> Iterator[str]:
    tags = Counter(_TAG.findall(text))
    for name, block in zip(BLOCKS, blocks, strict=True):
        opened = tags[f"<{name}>"]
        closed = tags[f"</{name}>"]
        if block is None:
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


def order_faults(present: Sequence[Block]) -> Iterator[str]:
    in_order = sorted(present, key=lambda block: block.start)
    if list(present) != in_order:
        order = ", ".join(block.name for block in in_order)
        yield f"the blocks stand in the order {order}"


def text_outside(text: str, present: Sequence[Block]) -> Iterator[str]:
    end = 0
    for block in sorted(present, key=lambda block: block.start):
        if block.start < end:
            yield f"<{block.name}> begins within another block"
        if text[end : block.start].strip():
            yield f"text stands outside the blocks, before <{block.name}>"
        end = max(end, block.end)
    if present and text[end:].strip():
        yield "text stands outside the blocks, after the last one"


def write(thinking: str, matrix: PayoffMatrix, analyze: str, response: str) -> str:
    """The four blocks as a text, without anything between them."""
    contents = (thinking, write_matrix(matrix), analyze, response)
    return "".join(
        f"<{name}>{content}</{name}>" for name, content in zip(BLOCKS, contents, strict=True)
    )
