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
BULLET = re.compile(r"^\s*[-*•] \S", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} \S", re.MULTILINE)
TITLED = re.compile(r"\A#{1,3} \S[^\n]*\n+(?!\s*[-*•] )\s*\S")

# [F, F]: how often the row's form is preferred to the column's; the last one is `none`.
BEATS_FF = np.array([[0.5, 1, 0, 1], [0, 0.5, 1, 1], [1, 0, 0.5, 1], [0, 0, 0, 0.5]], float)


def form_of(text: str) -> str:
    """The one form that an answer has; `none` for no form, and for several at once.

    >>> form_of("- Bees make honey.\\n- They dance."), form_of("# Bees\\nThey make honey.")
    ('bullets', 'title')
    >>> form_of("Bees make honey."), form_of("# Bees\\n- They dance.\\n- They sing.")
    ('sentence', 'none')
    """
    plain = text.strip()
    bullets = len(BULLET.findall(plain))
    headings = len(HEADING.findall(plain))
    if bullets >= 2 and not headings:
        return BULLETS
    if headings == 1 and not bullets and TITLED.search(plain):
        return TITLE
    is_one_line = "\n" not in plain and plain.endswith((".", "!"))
    return SENTENCE if is_one_line and not bullets and not headings else NONE


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
