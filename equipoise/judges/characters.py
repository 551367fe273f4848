"""Characters of a text that a rule reads: their width, and how many marks one carries."""

from __future__ import annotations

import unicodedata
from itertools import groupby

MARKS = 30  # combining marks on one character; languages need ten


def even_width(text: str) -> str:
    """`text` in Unicode's form NFKC: wide, styled and joined characters as plain ones.

    Of a longer run of combining marks the first 30 stay: putting a run in order takes time by the
    square of its length. Source: Unicode Standard Annex 15, section 13.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _with_few_marks(text))


def _with_few_marks(text: str) -> str:
    pieces = []
    for are_marks, run in groupby(text, _is_mark):
        piece = "".join(run)
        pieces.append(piece[:MARKS] if are_marks else piece)
    return "".join(pieces)


def _is_mark(character: str) -> bool:
    return unicodedata.combining(character) != 0
