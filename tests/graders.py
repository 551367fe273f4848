"""Judging models for tests: scripted players that read the question as a model would, and do as
they are told.
"""

import re

from equipoise.types import View

ANSWER = re.compile(r"<<(answer[ AB]*) (\w+)>>\n(.*?)\n<<end of", re.DOTALL)


def blocks(view: View) -> dict[str, str]:
    """label -> text of every quoted answer in a judge's question."""
    return {label.strip(): text for label, _, text in ANSWER.findall(view.messages[-1].content)}


def by_length(view: View, seed: int) -> str:
    """Grades an answer by its length, 1 to 10; the code is given back where the question has one to
    give.
    """
    (text,) = blocks(view).values()
    return verdict(view, f'"score": {min(10, 1 + len(text) // 4)}')


def full_marks(view: View, seed: int) -> str:
    """1 for everything."""
    return verdict(view, '"score": 1')


def prefers_longer(view: View, seed: int) -> str:
    """A, B or tie, by length."""
    found = blocks(view)
    a, b = len(found["answer A"]), len(found["answer B"])
    return verdict(view, f'"verdict": "{"A" if a > b else "B" if b > a else "tie"}"')


def verdict(view: View, words: str) -> str:
    """The reply in JSON, reason first, verdict last."""
    code = re.search(r"<<\w[\w ]* (\w+)>>", view.messages[-1].content)
    assert code is not None
    return f'{{"reason": "by length", {words}, "code": "{code[1]}"}}'
