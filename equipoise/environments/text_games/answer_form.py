"""How a move is written in an answer: what players are told, and how it is read.

    whole     the answer is the move
    bracket   the last [ … ] of the answer, brackets included
    tagged    what stands between the last <move> and </move>
    boxed     what stands in the last \\boxed{ … }

All but `whole` let a player think aloud first; what stands around the move is not
passed on to the game, and so not to the other players.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

FormName = Literal["whole", "bracket", "tagged", "boxed"]


class AnswerForm(NamedTuple):
    """`instruction` is what players are told, `written` a move in this form, and `pattern` finds
    it; None: the whole answer is the move.
    """

    instruction: str
    written: str
    pattern: re.Pattern[str] | None

    def write(self, move: str) -> str:
        """The shortest answer that makes this move."""
        return self.written.format(move)

    def read(self, answer: str) -> str | None:
        """The move in an answer; None where there is none in this form."""
        if self.pattern is None:
            return answer.strip() or None
        moves = self.pattern.findall(answer)
        return moves[-1].strip() if moves else None


FORMS: dict[FormName, AnswerForm] = {
    "whole": AnswerForm("Answer with your move alone.", "{}", None),
    "bracket": AnswerForm(
        "End your answer with your move in square brackets.", "[{}]", re.compile(r"\[[^\[\]]*\]")
    ),
    "tagged": AnswerForm(
        "End your answer with your move between <move> and </move>.",
        "<move>{}</move>",
        re.compile(r"<move>(.*?)</move>", re.DOTALL),
    ),
    "boxed": AnswerForm(
        "End your answer with your move in \\boxed{}.",
        "\\boxed{{{}}}",
        re.compile(r"\\boxed\{([^{}]*)\}"),
    ),
}


def named(move: str | None, legal: Sequence[str]) -> int | None:
    """The place of `move` among the legal moves; case, blanks and marks around it do not matter.
    None where it is none of them.
    """
    if move is None:
        return None
    plain = [_plain(text) for text in legal]
    return plain.index(_plain(move)) if _plain(move) in plain else None


def _plain(text: str) -> str:
    return text.strip(" \t\n.,;:!\"'`*[]").casefold()
