"""Cutting texts into words for measures of likeness.

    whitespace   split at white space: "Stop!" is one word
    words        NLTK's words: sentences by Punkt, then the Penn Treebank's rules, which
                 set punctuation and contractions apart: "Stop", "!"

Where a machine lacks Punkt's data, it runs on the list of abbreviations that lies in `nltk_data`,
in Punkt's own format. Source: Bird et al. 2009, NLTK; Kiss and Strunk 2006.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

from equipoise.errors import ConfigError

Tokens = Literal["whitespace", "words"]
Words = Callable[[str], list[str]]

PUNKT = Path(__file__).parent / "nltk_data"


def splitter(tokens: Tokens) -> Words:
    """The function from a text to its words. Raises ConfigError for an unknown kind or without
    NLTK.

    >>> splitter("whitespace")("Stop! Now")
    ['Stop!', 'Now']
    """
    if tokens == "whitespace":
        return str.split
    if tokens == "words":
        return _nltk_words()
    raise ConfigError(f"tokens: '{tokens}' is unknown; known: whitespace, words")


def find_punkt() -> None:
    """Let NLTK find Punkt's data, the machine's first.

    NLTK reads no data that another account could change (a checkout writable by its group); it is
    given a copy then.
    """
    import nltk

    folder = str(_private(PUNKT))
    if folder not in nltk.data.path:
        nltk.data.path.append(folder)


@cache
def _private(folder: Path) -> Path:
    """The folder, or a copy of it for as long as this process lives."""
    paths = [folder, *sorted(folder.rglob("*"))]
    if os.name != "posix" or all(_is_ours(path.stat()) for path in paths):
        return folder
    copy = Path(tempfile.mkdtemp(prefix="equipoise-punkt-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    for path in paths[1:]:
        target = copy / path.relative_to(folder)
        if path.is_dir():
            target.mkdir(mode=0o700)
        else:
            target.write_bytes(path.read_bytes())
            target.chmod(0o600)
    return copy


def _is_ours(stat: os.stat_result) -> bool:
    return stat.st_uid in (0, os.getuid()) and not stat.st_mode & 0o022


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
