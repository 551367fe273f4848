"""A schema of rows: a name, the columns by which it is known, and its reader."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from equipoise.prompts.columns import Columns
from equipoise.prompts.written_chat import Chat
from equipoise.types import Answer

PromptText = Literal["prompt", "chat", "single"]


@dataclass(frozen=True)
class RowOptions:
    """Settings of a source of rows that decide how a row is read."""

    text: PromptText = "prompt"
    column: str | None = None
    norm: str = "country"


@dataclass
class Reading:
    """A conversation, its answers and further facts, as a schema reads them.

    `asked_in` names the column of the question; `learned` are places of the assistant's messages
    in the conversation that fine-tuning learns, too. `gold`: the answer is the right one of a task,
    which other columns say nothing of; `named`: the user named the question's column, so that all
    others are facts.
    """

    messages: Chat
    answers: list[Answer] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    learned: tuple[int, ...] = ()
    source: str = ""
    asked_in: str = "prompt"
    gold: bool = False
    named: bool = False


@dataclass(frozen=True)
class Schema:
    """A schema by its name. `columns` describes for people what `matches` asks for."""

    name: str
    columns: str
    matches: Callable[[Columns, RowOptions], bool]
    read: Callable[[Columns, RowOptions], Reading]


def with_best_and_worst(answers: list[Answer]) -> list[Answer]:
    """Scored answers, of which the best is `chosen` and the worst is not, unless all are equal."""
    scored = []
    for place, answer in enumerate(answers):
        if answer.score is not None and not answer.fault:
            scored.append((answer.score, place))
    if len(scored) < 2:
        return answers
    best = max(scored, key=lambda pair: pair[0])
    worst = min(scored, key=lambda pair: pair[0])
    if best[0] == worst[0]:
        return answers
    ranked = list(answers)
    ranked[best[1]] = msgspec.structs.replace(answers[best[1]], chosen=True)
    ranked[worst[1]] = msgspec.structs.replace(answers[worst[1]], chosen=False)
    return ranked
