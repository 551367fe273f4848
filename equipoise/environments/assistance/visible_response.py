"""The response block of an output that comes in pieces: the part that a client sees."""

from __future__ import annotations

import re
from collections.abc import Sequence

from equipoise.environments.assistance.blocks import BLOCKS
from equipoise.serve.detokenizer import StopTexts

RESPONSE_START, RESPONSE_END = "<response>", "</response>"
_HIDDEN = re.compile(r"<(/?)(thinking|payoff|analyze)>")
_TAGS = tuple(f"<{name}>" for name in BLOCKS)


class VisibleResponse:
    """Takes an output in pieces and gives its response block, stripped, as soon as it is sure.

    `output`: all so far; `opened`: the block has begun; `ended`: it, or the answer by a client's
    stop text, is over: the rest is dropped.
    """

    def __init__(self, stop: Sequence[str] = (), *, plain: bool = False) -> None:
        """With `plain`, an output that does not begin with a block's tag is all response."""
        self.output, self.opened, self.ended = "", False, False
        self._plain, self._stop = plain, stop
        self._stops = StopTexts((RESPONSE_END, *stop))
        self._begun, self._space = False, ""

    def begin(self, output: str) -> str:
        """Take `output` for all that was written so far."""
        self.output = ""
        return self.add(output)

    def add(self, text: str) -> str:
        """Take in `text`; returns the text that a client may see now."""
        if self.ended:
            return ""
        searched = max(0, len(self.output) - len(RESPONSE_START) + 1)
        self.output += text
        if not self.opened:
            place = self.output.find(RESPONSE_START, searched)
            if self._plain and not _may_be_blocks(self.output):
                text = self.output
            elif place >= 0:
                text = self.output[place + len(RESPONSE_START) :]
            else:
                return ""
            self.opened = True
        visible, self.ended = self._stops.add(text)
        return self._trim(visible)

    def end(self) -> str:
        """The text held back, once no more comes. A closing tag that was cut short is dropped."""
        if self.ended or not self.opened:
            return ""
        self.ended = True
        held = self._stops.end()
        is_cut_tag = len(held) > 1 and RESPONSE_END.startswith(held)
        return self._trim("" if is_cut_tag else held)

    def whole_text(self) -> str:
        """An output without response block as one: without hidden blocks, if more is there."""
        outside = strip_hidden(self.output).strip()
        visible, _ = StopTexts(self._stop).add(outside or self.output.strip())
        return visible

    @property
    def begins_blocks(self) -> bool:
        """True if the output has a tag of the four blocks."""
        return any(tag in self.output for tag in _TAGS)

    def _trim(self, text: str) -> str:
        """`text` without white space at the response's beginning, that at its end kept back."""
        text = self._space + text if self._begun else text.lstrip()
        self._begun = self._begun or bool(text)
        kept = text.rstrip()
        self._space = text[len(kept) :]
        return kept


def strip_hidden(output: str) -> str:
    """`output` without its hidden blocks; one that is never closed stays."""
    last_closing = {match[2]: match.start() for match in _HIDDEN.finditer(output) if match[1]}
    kept, end = [], 0
    hidden = ""  # the name of the block that is open
    for match in _HIDDEN.finditer(output):
        closes, name = match[1], match[2]
        if hidden and closes and name == hidden:
            hidden, end = "", match.end()
        elif not hidden and not closes and last_closing.get(name, -1) > match.start():
            kept.append(output[end : match.start()])
            hidden = name
    return "".join([*kept, output[end:]])


def _may_be_blocks(output: str) -> bool:
    text = output.lstrip()
    return any(tag.startswith(text) or text.startswith(tag) for tag in _TAGS)
