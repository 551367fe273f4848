"""Scripted seats of the table's small games."""

import re

from equipoise import seeds
from equipoise.environments.clerk.assistance_case import read_case
from equipoise.errors import DataError
from equipoise.types import View, user

BLUFF = 0.5  # the share of bluffs that look like quotations


def knows_the_form(view: View, seed: int) -> str:
    """The guide: the best grade for what has the form of a question to the clerk, else the worst."""
    text = view.messages[0].content
    code = re.findall(r'"code": "(\w+)"', text)[-1]
    found = re.search(rf"<<answer {code}>>\n(.*)\n<<end of answer {code}>>", text, re.DOTALL)
    assert found is not None
    try:
        read_case((user(found[1]),))
    except DataError:
        return f'{{"score": 1, "code": "{code}"}}'
    return f'{{"score": 10, "code": "{code}"}}'


def quotes_or_bluffs(view: View, seed: int) -> str:
    """The debater: it quotes the passage where that is on its side; else it may make a quote up."""
    text = view.messages[0].content
    found = re.search("You stand for this answer: (.*)", text)
    assert found is not None
    quote = f"Please add {found[1]}."
    if quote in text or seeds.generator(seed, "bluff").random() < BLUFF:
        return quote
    return f"How can I find {found[1]}?"
