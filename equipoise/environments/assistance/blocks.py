"""The four blocks that an assistant writes: its thoughts, the game as it sees it, the
choice, and the response.

    <thinking>…</thinking><payoff>{…}</payoff><analyze>…</analyze><response>…</response>

The pay-off block is a matrix of six outcomes, as JSON. Source: GTAlign (arXiv
2510.08872), section 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from equipoise.environments.assistance.payoff_matrix import (
    CELLS,
    MatrixError,
    PayoffMatrix,
    read_matrix,
    write_matrix,
)
from equipoise.errors import DataError

BLOCKS = ("thinking", "payoff", "analyze", "response")

_WHOLE = re.compile(
    "".join(rf"\s*<{name}>(.*?)</{name}>" for name in BLOCKS) + r"\s*", re.DOTALL
)
_BLOCK = {name: re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL) for name in BLOCKS}
_TAG = re.compile(rf"</?(?:{'|'.join(BLOCKS)})>")
_CELL = rf"\b({'|'.join(CELLS)})\b"
_MENTION = re.compile(_CELL, re.IGNORECASE)
_CHOICE = re.compile(
    r"\b(?:choos\w*|chose\w*|choice|pick\w*|select\w*|recommend\w*|best|strategy)\b"
    r"[^.;\n]*?" + _CELL,
    re.IGNORECASE,
)


class FormatError(DataError):
    """A text that is not the four blocks."""


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """An output taken apart.

    A block that is not there is None; `faults` says all that is wrong, in words.

    `matrix` is None where the pay-off block does not hold one. `before` counts the
    characters before the response's opening tag, which a user waits for.
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
        """The cell that <analyze> names last as chosen, or, where it names none as
        chosen, the one that it names last.
        """
        if self.analyze is None:
            return None
        cells = _CHOICE.findall(self.analyze) or _MENTION.findall(self.analyze)
        return cells[-1].upper() if cells else None

    @property
    def contents(self) -> dict[str, str | None]:
        """What each block holds, by its name."""
        return {
            "thinking": self.thinking,
            "payoff": self.payoff,
            "analyze": self.analyze,
            "response": self.response,
        }


def parse(text: str, *, strict: bool = False) -> ParsedOutput:
    """`text` taken apart.

    Blocks are found wherever they stand, so that a faulty output is still read.

    Python's quotes and curly ones are accepted in the matrix. With `strict`, raises
    FormatError that names every fault; otherwise nothing is raised.
    """
    thinking, payoff, analyze, response, faults = _blocks_of(text)
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


def unparsed(output: str) -> ParsedOutput:
    """An output that is a response and nothing else."""
    return ParsedOutput(output, None, None, None, output.strip(), None, (), 0)


def _blocks_of(
    text: str,
) -> tuple[str | None, str | None, str | None, str | None, list[str]]:
    """The contents of the four blocks, and what is wrong with their tags."""
    whole = _WHOLE.fullmatch(text)
    if whole is not None and not any(map(_TAG.search, whole.groups())):
        thinking, payoff, analyze, response = (part.strip() for part in whole.groups())
        return thinking, payoff, analyze, response, []
    matches = [_BLOCK[name].search(text) for name in BLOCKS]
    thinking, payoff, analyze, response = (
        None if match is None else match[1].strip() for match in matches
    )
    faults = [
        *_tag_faults(text, matches),
        *_order_faults(matches),
        *_text_outside(text, matches),
    ]
    return thinking, payoff, analyze, response, faults


BlockMatches = Sequence[re.Match[str] | None]  # one a block, in the order of BLOCKS


def _tag_faults(text: str, matches: BlockMatches) -> Iterator[str]:
    """Which tags are missing or stand there more than once."""
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


def _order_faults(matches: BlockMatches) -> Iterator[str]:
    present = _present(matches)
    if present != sorted(present):
        order = ", ".join(name for *_, name in sorted(present))
        yield f"the blocks stand in the order {order}"


def _text_outside(text: str, matches: BlockMatches) -> Iterator[str]:
    present = sorted(_present(matches))
    end = 0
    for start, stop, name in present:
        if text[end:start].strip():
            yield f"text stands outside the blocks, before <{name}>"
        end = max(end, stop)
    if present and text[end:].strip():
        yield "text stands outside the blocks, after the last one"


def _present(matches: BlockMatches) -> list[tuple[int, int, str]]:
    """(start, end, name) of each block that was found, in the order of BLOCKS."""
    return [
        (match.start(), match.end(), name)
        for name, match in zip(BLOCKS, matches, strict=True)
        if match
    ]


def write(thinking: str, matrix: PayoffMatrix, analyze: str, response: str) -> str:
    """The four blocks as a text, without anything between them."""
    contents = (thinking, write_matrix(matrix), analyze, response)
    return "".join(
        f"<{name}>{content}</{name}>"
        for name, content in zip(BLOCKS, contents, strict=True)
    )
