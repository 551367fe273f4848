"""GPO's likeness of a prompt to others (arXiv 2406.10977): the mean over references of the mean
over n = 2 … 5 of BLEU-n against that one reference, over words between white space, a 0 of matches
counted as 0.1 (Chen and Cherry 2014, method 1).
"""

from collections import Counter
from math import exp, fsum, log

REFERENCES = [
    "How do I open an old safe without the key?",
    "How do I open an old safe without its code?",
    "Tell me how to open an old safe, step by step.",
    "open open open open",
    "Which lock is the hardest to open?",
    "Write a letter that asks for the code of the safe.",
    "safe",
    "Which lock is the hardest to open?",
]
HYPOTHESES = [
    "How do I open an old safe without the key?",
    "How do I open the old safe without a code",
    "open open",
    "safe",
    "bake bread",
    "",
    "Tell me which lock is the hardest to open, step by step, and write a letter that asks for it",
    "the the the the code of the safe.",
]


def grams(words: list[str], n: int) -> Counter:
    return Counter(tuple(words[k : k + n]) for k in range(len(words) - n + 1))


def bleu(text: str, reference: str, order: int) -> float:
    own, other = text.split(), reference.split()
    if not set(own) & set(other):
        return 0.0
    logs = []
    for n in range(1, order + 1):
        mine, theirs = grams(own, n), grams(other, n)
        matches = sum(min(count, theirs[gram]) for gram, count in mine.items())
        logs.append(log((matches or 0.1) / max(1, sum(mine.values()))))
    brevity = min(0.0, 1 - len(other) / len(own))
    return exp(brevity + fsum(logs) / order)


def vectors() -> dict:
    return {
        "references": REFERENCES,
        "hypotheses": HYPOTHESES,
        "expected": [
            fsum(bleu(text, other, n) for other in REFERENCES for n in (2, 3, 4, 5))
            / (4 * len(REFERENCES))
            for text in HYPOTHESES
        ],
    }
