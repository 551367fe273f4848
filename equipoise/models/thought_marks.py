"""The marks between which a model thinks, as its chat template has them.

The template is tried on a chat whose answer has a thought: what it writes around the thought are
its marks. A template that drops thoughts names their end itself, or begins one in the prompt.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from equipoise.answer import ENDINGS, KNOWN
from equipoise.types import Marks

Render = Callable[[Sequence[Mapping[str, Any]], bool], str]
"""The text of a chat: its messages, and whether the opening of an answer's turn follows."""

THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""What templates call the thoughts of a message."""
SWITCHES = ("enable_thinking", "thinking")
"""What templates call the switch that lets the model think."""
QUESTION, THOUGHT, ANSWER = "Xyzzy?", "Plugh.", "Plover."
LAST_MARK = re.compile(r"(<[^<>]+>|\[[^\[\]]+\]|\S+)\s*\Z")


def template_marks(
    template: str, render: Render, errors: tuple[type[Exception], ...]
) -> Marks | None:
    """The marks of a template's thoughts; None where it knows none.

    `errors`: what `render` raises where the template refuses a chat.
    """
    asked = {"role": "user", "content": QUESTION}
    answered = {"role": "assistant", "content": ANSWER}
    try:
        beginning = render([asked], True)
    except errors:
        return None
    try:
        chat = render([asked, answered | dict.fromkeys(THOUGHT_FIELDS, THOUGHT)], False)
    except errors:
        chat = ""
    before, thought, after = chat.partition(THOUGHT)
    closing, answer, _ = after.partition(ANSWER)
    if thought and answer and closing.strip():
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(beginning, before, strict=False))
        opening = before[len(list(alike)) :]
        if not opening.strip():
            last = LAST_MARK.search(before)
            assert last is not None, "a chat begins with something"
            opening = last[0]
        return Marks(opening, closing, opened=ends_with(beginning, opening))
    opened = opened_marks(beginning)
    if opened is not None:
        return opened
    ending = ENDINGS.search(template)
    if ending is None:
        return None
    known = next(marks for marks in KNOWN if marks.closing.casefold() == ending[0].casefold())
    return Marks(known.opening, f"\n{known.closing}\n\n")


def opened_marks(prompt: str) -> Marks | None:
    """The marks of a thought that a prompt's text begins at its end; None where it begins none."""
    for marks in KNOWN:
        if ends_with(prompt, marks.opening):
            return Marks(marks.opening, f"\n{marks.closing}\n\n", opened=True)
    return None


def ends_with(beginning: str, opening: str) -> bool:
    return beginning.rstrip().endswith(opening.strip())
