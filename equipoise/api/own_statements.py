"""A model's own sentences as short statements, of which the rows of a start are made."""

import re
from collections.abc import Sequence
from pathlib import Path

SENTENCE = re.compile(r"[^.!?\n]+[.!?]")
MODULE = Path(__file__)  # a start that uses it names it among its files


def own_statements(
    text: str, lengths: tuple[int, int], pauses: Sequence[str], *, to_the_comma: bool = False
) -> list[str]:
    """The sentences of an answer that assert something, each of so many words (from, to).

    A sentence with too many words ends at the last of these pauses that leaves few enough; with
    `to_the_comma` it ends at its first comma, where that leaves enough.

    >>> text = "Bees make honey from nectar. Why? They live in hives, often of wood."
    >>> own_statements(text, (4, 10), (", ",))
    ['Bees make honey from nectar.', 'They live in hives, often of wood.']
    >>> own_statements(text, (4, 10), (", ",), to_the_comma=True)
    ['Bees make honey from nectar.', 'They live in hives.']
    """
    least, most = lengths
    statements: list[str] = []
    for sentence in SENTENCE.findall(text):
        plain = " ".join(sentence.split()).rstrip(".!")
        if plain.endswith("?") or not re.match(r"[A-Z]\w", plain):
            continue
        ends = {match.start() for pause in pauses for match in re.finditer(re.escape(pause), plain)}
        candidates = [plain, *(plain[:end] for end in sorted(ends, reverse=True))]
        if to_the_comma:
            candidates.insert(0, plain.partition(",")[0])
        for candidate in candidates:
            if least <= len(candidate.split()) <= most:
                statements.append(f"{candidate.rstrip(',;')}.")
                break
    return statements
