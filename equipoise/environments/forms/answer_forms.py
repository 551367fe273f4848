"""The three forms that an answer may have, and what a policy's shares of them are worth.

Each form beats the next in a circle, a tie is worth a half, and an answer of no form loses to all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

BULLETS, TITLE, SENTENCE, NONE = "bullets", "title", "sentence", "none"
FORMS = (BULLETS, TITLE, SENTENCE)
BULLET = re.compile(r"[-*•] \S")
HEADING = re.compile(r"#{1,6} \S")

# [F, F]: how often the row's form is preferred to the column's; the last one is `none`.
BEATS_FF = np.array([[0.5, 1, 0, 1], [0, 0.5, 1, 1], [1, 0, 0.5, 1], [0, 0, 0, 0.5]], float)


def form_of(text: str) -> str:
    """The one form that an answer has; `none` for no form, and for several at once.

    Bullets: every line is one. A title: the first line, and nothing but plain lines below it. A
    sentence: one line that ends as one.

    >>> form_of("- Bees make honey."), form_of("# Bees make honey."), form_of("Bees make honey.")
    ('bullets', 'title', 'sentence')
    >>> form_of("# Bees\\n- They dance."), form_of("Bees make honey and")
    ('none', 'none')
    """
    first, *rest = [line.strip() for line in text.strip().split("\n") if line.strip()] or [""]
    marked = [bool(BULLET.match(line) or HEADING.match(line)) for line in rest]
    if BULLET.match(first):
        return BULLETS if all(BULLET.match(line) for line in rest) else NONE
    if HEADING.match(first):
        return NONE if any(marked) else TITLE
    return SENTENCE if not rest and first.endswith((".", "!")) else NONE


def form_shares(texts: Iterable[str]) -> dict[str, float]:
    """form -> its share of the texts, `none` included. Raises ValueError for no text."""
    counts = Counter(map(form_of, texts))
    total = counts.total()
    if not total:
        raise ValueError("there is no answer to count forms of")
    return {form: counts[form] / total for form in (*FORMS, NONE)}


def exploitability(share_F: np.ndarray) -> float:
    """The share of meetings beyond a half that the best form wins against a policy; 0 at (⅓, ⅓, ⅓).

    `share_F`: of bullets, title, sentence and none.

    >>> exploitability(np.array([0.5, 0.25, 0.25, 0])), exploitability(np.array([0, 1, 0, 0]))
    (0.125, 0.5)
    """
    return float((BEATS_FF @ share_F).max() - 0.5)
