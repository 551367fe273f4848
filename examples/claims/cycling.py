"""Three countable rubrics whose majority goes round, and how often it does.

    equipoise run cycling.yaml --out RUN        and then
    python cycling.py RUN                       of the start's own answers

Each rubric alone orders all answers; the majority of the three need not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt

WORD = re.compile(r"\w+")


def brief(prompt: Prompt, text: str) -> float:
    """Fewer words."""
    return -float(len(WORD.findall(text)))


def long_words(prompt: Prompt, text: str) -> float | None:
    """Letters a word; None without a word."""
    words = WORD.findall(text)
    return sum(map(len, words)) / len(words) if words else None


def on_question(prompt: Prompt, text: str) -> float:
    """The share of the question's words that the answer has."""
    asked = set(WORD.findall(prompt.messages[-1].content.lower()))
    return len(asked & set(WORD.findall(text.lower()))) / max(len(asked), 1)


def beats(prompt: Prompt, first: str, second: str) -> bool:
    """Whether more rubrics prefer the first answer than the second."""
    lead = 0
    for rubric in (brief, long_words, on_question):
        one, other = rubric(prompt, first), rubric(prompt, second)
        if one is not None and other is not None:
            lead += (one > other) - (one < other)
    return lead > 0


def cyclic_share(prompt: Prompt, texts: Sequence[str]) -> float:
    """The share of triples of answers to a prompt of which each beats the next."""
    triples = list(combinations(texts, 3))
    cyclic = 0
    for a, b, c in triples:
        for x, y, z in ((a, b, c), (a, c, b)):
            pairs = ((x, y), (y, z), (z, x))
            cyclic += all(beats(prompt, *pair) for pair in pairs)
    return cyclic / len(triples)


def main() -> None:
    """Print the mean share of cyclic triples among the start's answers."""
    with RunDirectory.read(Path(sys.argv[1])) as run:
        prompts = {prompt.id: prompt for prompt in run.ledger.prompts("train", 0)}
        shares = [
            cyclic_share(prompts[match.prompt], [turn.move.text for turn in match.turns])
            for match in run.ledger.matches("train", 0)
        ]
    print(f"{sum(shares) / len(shares):.1%} of {len(shares)} prompts' triples go round")


if __name__ == "__main__":
    main()
