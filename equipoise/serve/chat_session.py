"""One conversation with an engine: its messages, the extensions' wishes, the next answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from equipoise import seeds
from equipoise.errors import EquipoiseError
from equipoise.serve.engine import Engine, EngineRequest
from equipoise.serve.extension import Extension
from equipoise.types import Message, user


@dataclass(slots=True)
class Exchange:
    """A question, its answer or `error`, and what an extension keeps `hidden` from the client."""

    question: str
    answer: str = ""
    finish: str = "error"
    tokens: int = 0
    error: str = ""
    hidden: dict[str, Any] = field(default_factory=dict)


class ChatSession:
    """Questions and answers in turn. An answer's seed depends on its place in the conversation."""

    def __init__(
        self, engine: Engine, extensions: Mapping[str, Extension], defaults: EngineRequest
    ) -> None:
        """`defaults` holds the seed, the sampling, and the messages at the beginning."""
        self._engine, self._extensions, self._defaults = engine, extensions, defaults
        self._wishes: dict[str, str] = {}
        self._turn = 0
        self.messages = defaults.messages

    def wish(self, field: str, value: str) -> None:
        """Ask something of an extension from now on. Raises Refused where it cannot be."""
        self._extensions[field].describe(value)
        self._wishes[field] = value

    def describe(self, field: str) -> str:
        """The short name of what an extension does now."""
        return self._extensions[field].describe(self._wishes.get(field))

    def reset(self) -> None:
        """Forget what was said."""
        self.messages = self._defaults.messages

    async def ask(self, question: str, show: Callable[[str], None]) -> Exchange:
        """The answer as it comes; not remembered if it breaks off before the first text."""
        exchange = Exchange(question)
        request = replace(
            self._defaults,
            messages=(*self.messages, user(question)),
            seed=seeds.child(self._defaults.seed, "conversation", self._turn),
        )
        self._turn += 1
        try:
            await self._answer(request, exchange, show)
        except EquipoiseError as error:
            exchange.error = str(error)
        finally:
            if exchange.answer:
                answer = Message("assistant", exchange.answer)
                self.messages = (*self.messages, user(question), answer)
        return exchange

    async def _answer(
        self, request: EngineRequest, exchange: Exchange, show: Callable[[str], None]
    ) -> None:
        engine = self._engine
        for field_name, extension in self._extensions.items():
            wish = self._wishes.get(field_name)
            engine = extension.wrap(engine, wish, report=True)
        async with aclosing(engine.generate(request)) as pieces:
            async for piece in pieces:
                show(piece.text)
                exchange.answer += piece.text
                exchange.tokens += piece.tokens
                if piece.finish:
                    exchange.finish, exchange.error = piece.finish, piece.error
                    exchange.hidden = dict(piece.fields.get("equipoise", {}))
