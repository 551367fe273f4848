"""How measures of likeness cut a text into words.

    whitespace   what stands between white space: "Stop!" is one word
    words        NLTK's words: sentences by Punkt, then the Penn Treebank's rules, which
                 set punctuation and contractions apart: "Stop", "!"

Where a machine lacks Punkt's data, it runs on the list of abbreviations that lies in
`nltk_data`, in Punkt's own format. Source: Bird et al. 2009, NLTK; Kiss and Strunk 2006.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

from equipoise.errors import ConfigError

Tokens = Literal["whitespace", "words"]
Words = Callable[[str], list[str]]

PUNKT = Path(__file__).parent / "nltk_data"


def splitter(tokens: Tokens) -> Words:
    """The function from a text to its words.

    Raises ConfigError for an unknown kind, and where NLTK is not installed.
    """
    if tokens == "whitespace":
        return str.split
    if tokens == "words":
        return _nltk_words()
    raise ConfigError(f"tokens: '{tokens}' is unknown; known: whitespace, words")


def find_punkt() -> None:
    """Let NLTK find Punkt's data; what the machine has comes first. NLTK is installed."""
    import nltk

    if str(PUNKT) not in nltk.data.path:
        nltk.data.path.append(str(PUNKT))


@cache
def _nltk_words() -> Words:
    try:
        import nltk
    except ImportError as error:
        raise ConfigError(
            "tokens: words are NLTK's, which is not installed; pip install nltk, or "
            "use tokens: whitespace"
        ) from error
    find_punkt()
    return nltk.word_tokenize
