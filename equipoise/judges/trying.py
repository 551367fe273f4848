"""Tries a judge by rule on made answers before anything is played."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from equipoise.errors import shorten
from equipoise.types import Prompt

MADE_ANSWER = "This is a made answer: 42."
LONG_ANSWER = (
    "Sure! There are two sides to this; here is how to see them, step by step:\n\n"
    "1. In most cases, 0.75 of them or so, the short answer is yes.\n"
    '2. In some, such as {"case": "last", "score": 2}, it is no.\n\n'
    "```python\nprint('both', 3.5)\n```\n\nSo, all in all: **yes**. Do you want more details?"
)
REFUSAL = "I'm sorry, but I can't help with that."
PROMPTS = 3  # on which it is tried
PATIENCE = 10.0  # seconds, after which a slow judge is taken as it is

Verdict = Mapping[str, float] | str
"""Utilities, or why there are none."""


def made_answers(prompt: Prompt) -> list[str]:
    """Answers of several sorts to a prompt: right by its facts, made, none, refused, long."""
    rights = []
    for fact in prompt.facts.values():
        if isinstance(fact, str | int | float) and not isinstance(fact, bool):
            rights.append(str(fact))
    question = prompt.messages[-1].content if prompt.messages else ""
    answers = [MADE_ANSWER, *rights[:3], LONG_ANSWER, REFUSAL, question, ""]
    return list(dict.fromkeys(answers))


def fault_of_trial(
    name: str,
    prompts: Sequence[Prompt],
    verdict_on: Callable[[Prompt, str], Verdict],
    tried_on: Sequence[str] = (),
) -> str:
    """Why a judge cannot teach anything: it gave the same to all that it was tried on; "" for none.

    `verdict_on`: its utilities for an answer, or why there are none; `tried_on`: answers to try in
    place of made ones. It is asked until two verdicts differ.
    """
    begun = time.monotonic()
    verdicts: list[Mapping[str, float]] = []
    tried: dict[str, None] = {}
    for prompt, answer in trials(prompts, tried_on):
        verdict = verdict_on(prompt, answer)
        if isinstance(verdict, str):
            continue
        tried[answer] = None
        verdicts.append(verdict)
        if verdict != verdicts[0]:
            return ""
        if time.monotonic() - begun > PATIENCE:
            return ""
    if len(tried) < 2:
        return ""
    score = verdicts[0].get("score", 0.0)
    shown = ", ".join(repr(shorten(answer, 30)) for answer in islice(tried, 4))
    more = f" and {len(tried) - 4} more" if len(tried) > 4 else ""
    return (
        f"{name} gave {score:g} to every answer that it was tried on: {shown}{more}. Answers that "
        "score alike teach and measure nothing; mend it"
    )


def trials(prompts: Sequence[Prompt], tried_on: Sequence[str]) -> Iterator[tuple[Prompt, str]]:
    """(prompt, answer) of every trial."""
    for prompt in prompts[:PROMPTS]:
        for answer in tried_on or made_answers(prompt):
            yield prompt, answer


def first_judgeable(
    prompts: Sequence[Prompt], why_unjudgeable: Callable[[Prompt], str]
) -> list[Prompt]:
    """The first prompts that a judge can judge answers to."""
    judgeable: Iterator[Any] = (prompt for prompt in prompts if not why_unjudgeable(prompt))
    return list(islice(judgeable, PROMPTS))
