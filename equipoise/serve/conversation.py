"""One conversation with an engine: what was said, how it is steered, and the next
answer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from equipoise import seeds
from equipoise.environments.assistance.serving.engine import SteeredEngine
from equipoise.environments.assistance.serving.settings import Steering, wished
from equipoise.errors import EquipoiseError
from equipoise.serve.engine import Engine, EngineRequest
from equipoise.types import Message, user


@dataclass(slots=True)
class Exchange:
    """A question and what came of it. `hidden` is what a steered model's client does
    not see; `error` says why none.
    """

    question: str
    answer: str = ""
    finish: str = "error"
    tokens: int = 0
    error: str = ""
    hidden: dict[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


class Conversation:
    """Questions and answers in turn. An answer's dice are counted by its place in the
    conversation.
    """

    def __init__(
        self, engine: Engine, steering: Steering, asked: EngineRequest
    ) -> None:
        """`asked` holds the seed, how to sample, and the messages that everything
        begins with.
        """
        self._engine, self._base, self._asked = engine, steering, asked
        self.steering, self.messages, self._turn = steering, asked.messages, 0

    def steer(self, wish: str) -> None:
        """Steer by a pricing's name, `strip` or `off`. Raises Refused for an unknown
        one.
        """
        self.steering = wished(wish, self._base)

    def reset(self) -> None:
        """Forget what was said."""
        self.messages = self._asked.messages

    async def ask(self, question: str, show: Callable[[str], None]) -> Exchange:
        """The answer, which is shown as it comes. What fails, or is broken off before a
        word, leaves no trace.
        """
        found = Exchange(question)
        asked = replace(
            self._asked,
            messages=(*self.messages, user(question)),
            seed=seeds.child(self._asked.seed, "conversation", self._turn),
        )
        self._turn += 1
        try:
            async with aclosing(
                SteeredEngine(self._engine, self.steering, report=True).generate(asked)
            ) as pieces:
                async for piece in pieces:
                    show(piece.text)
                    found.answer += piece.text
                    found.tokens += piece.tokens
                    if piece.finish:
                        found.finish, found.error = piece.finish, piece.error
                        found.hidden = dict(piece.fields.get("equipoise", {}))
        except EquipoiseError as error:
            found.error = str(error)
        finally:
            if found.answer:
                self.messages = (
                    *self.messages,
                    user(question),
                    Message("assistant", found.answer),
                )
        return found
