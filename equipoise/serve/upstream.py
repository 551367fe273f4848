"""An engine that is another server: an OpenAI-compatible endpoint, asked for its
answers piece by piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.errors import ConfigError, ModelError
from equipoise.players.endpoint import Endpoint
from equipoise.players.faults import configuration_fault
from equipoise.players.requests import Connection, Failure
from equipoise.serve.engine import EngineError, EngineRequest, Piece, Refused
from equipoise.types import Message

CONTINUE = "Go on exactly where your last message breaks off. Repeat nothing of it."


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """What one event of a stream says. `tokens` is the whole answer's count, where the
    server gives it.
    """

    text: str = ""
    finish: str | None = None
    tokens: int | None = None


class StreamingConnection(Connection):
    """The connection of an endpoint's player, for answers that come in pieces."""

    async def stream(
        self, body: Mapping[str, Any]
    ) -> AsyncGenerator[StreamEvent | Failure, None]:
        """The answer to `body`. Until its first event it is tried again as an
        endpoint's is; a failure is the last.
        """
        opened = await self.retried(lambda: self._opened(body), asyncio.Event())
        if isinstance(opened, Failure):
            yield opened
            return
        events, first = opened
        try:
            yield read(first)
            async for event in self._rest(events):
                yield event
        finally:
            await events.close()

    async def _opened(self, body: Mapping[str, Any]) -> tuple[Any, Any] | Failure:
        """The stream of events, and its first."""
        rest = {
            field: value
            for field, value in body.items()
            if field not in ("model", "messages")
        }
        try:
            async with asyncio.timeout(self._timeout):
                events = await self._client.chat.completions.create(
                    model=body["model"],
                    messages=body["messages"],
                    stream=True,
                    stream_options={"include_usage": True},
                    extra_body=rest,
                )
                first = await self._next(events)
        except TimeoutError:
            return Failure(f"no answer within {self._timeout:g} s", transient=True)
        except Exception as error:  # noqa: BLE001  all that the client raises is told apart there, the rest raised again
            return self._failed(error)
        if first is None:
            return Failure(
                "not a stream of answers: it ended before its first event",
                transient=True,
            )
        return (events, first) if not isinstance(first, Failure) else first

    async def _next(self, events: Any) -> Any:
        """The next event; None at the end. A stream that fails is closed."""
        try:
            return await anext(events, None)
        except BaseException:
            await events.close()
            raise

    async def _rest(self, events: Any) -> AsyncIterator[StreamEvent | Failure]:
        while True:
            try:
                event = await self._next(events)
            except Exception as error:  # noqa: BLE001
                yield self._failed(error)
                return
            if event is None:
                return
            yield read(event)

    def _failed(self, error: Exception) -> Failure:
        import openai

        match error:
            case openai.APIStatusError():
                return self._refused(error)
            case openai.APIConnectionError():
                return self._unconnected(error)
            case openai.APIError():  # an error in place of an event
                return Failure(self._clean(error.message), transient=True)
            case ValueError():  # an event that is no JSON
                return Failure(
                    self._clean(f"not a stream of answers: {error}"), transient=True
                )
        raise error


def read(event: Any) -> StreamEvent:
    """What an event of the official client says; one that says nothing of the first
    choice is empty.
    """
    data = event.model_dump(exclude_unset=True, warnings=False)
    text, finish = "", None
    match data:
        case {"choices": [{**choice}, *_]}:
            delta = choice.get("delta") or {}
            text, finish = (
                delta.get("content") or delta.get("refusal") or "",
                choice.get("finish_reason"),
            )
    usage = data.get("usage") or {}
    return StreamEvent(text, finish, usage.get("completion_tokens"))


class UpstreamEngine:
    """The model behind an endpoint's player. What a question says of sampling goes
    before the player's settings.

    A begun answer is gone on with by the convention of vLLM and SGLang: it is the
    chat's last message, with `continue_final_message: true` and `add_generation_prompt:
    false`; with `continues` false the model is asked to go on in words, for servers
    that know no such fields.
    """

    def __init__(self, player: Endpoint, *, continues: bool = True) -> None:
        """Nothing is sent yet. Raises ConfigError when the key is not set, or for a
        budget, which only runs keep.
        """
        if any(limit is not None for _, limit in player.budget):
            raise ConfigError(
                f"{player.model}: budget: a server keeps no account; leave it out, or limit the key"
            )
        self.player, self._continues = player, continues
        self._connection = StreamingConnection(
            player.base_url,
            player.key(),
            timeout=player.timeout,
            retries=player.retries,
        )
        self._places = asyncio.Semaphore(player.concurrency)

    async def generate(self, asked: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The answer in pieces. Closing the generator closes the stream, upon which
        servers end their work.

        Raises ModelError for what concerns every question (the key, the model, the
        address), Refused where the server does not take this one, EngineError where it
        fails before its first word; later, the last piece says so.
        """
        async with self._places:
            stream = self._connection.stream(self._body(asked))
            try:
                async for piece in self._pieces(stream, asked.prefix):
                    yield piece
            finally:
                await stream.aclose()

    async def _pieces(
        self, stream: AsyncIterator[StreamEvent | Failure], prefix: str
    ) -> AsyncIterator[Piece]:
        finish, counted, begun, said = None, 0, False, PrefixFilter(prefix)
        async for chunk in stream:
            if isinstance(chunk, Failure):
                if not begun:
                    raise self._error(chunk)
                yield Piece(
                    finish="error",
                    error=f"{self.player.model}: the answer broke off: {chunk.message}",
                )
                return
            begun, finish = True, chunk.finish or finish
            text = said.feed(chunk.text)
            # A chunk is a token nearly everywhere; where the server counts, its last
            # word makes up for the rest.
            tokens = (
                int(bool(chunk.text))
                if chunk.tokens is None
                else max(0, chunk.tokens - counted)
            )
            counted += tokens
            if text or tokens:
                yield Piece(text, tokens=tokens)
        if finish == "content_filter":
            yield Piece(
                finish="error",
                error=f"{self.player.model}: the server's content filter withheld the answer",
            )
        elif finish is None:
            yield Piece(
                said.held(),
                "error",
                error=f"{self.player.model}: the answer broke off without an end",
            )
        else:
            yield Piece(said.held(), "length" if finish == "length" else "stop")

    def count(self, messages: Sequence[Message], prefix: str = "") -> int | None:
        """Only the server knows."""
        return None

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    def _body(self, asked: EngineRequest) -> dict[str, Any]:
        player = self.player
        messages = [
            {"role": message.role, "content": message.content}
            for message in asked.messages
        ]
        further: dict[str, Any] = {}
        if asked.prefix:
            messages.append({"role": "assistant", "content": asked.prefix})
            if self._continues:
                further = {
                    "continue_final_message": True,
                    "add_generation_prompt": False,
                }
            else:
                messages.append({"role": "user", "content": CONTINUE})
        body = {
            "model": player.model,
            "messages": messages,
            player.max_tokens_field: asked.max_tokens,
            # Null in the player's settings says that the service takes no such field.
            "temperature": None if player.temperature is None else asked.temperature,
            "top_p": None if player.top_p is None else asked.top_p,
            "top_k": asked.top_k or None,
            "stop": [*asked.stop, *player.stop] or None,
            "seed": asked.seed % 2**31 if player.send_seed else None,
        }
        return (
            {field: value for field, value in body.items() if value is not None}
            | player.extra_body
            | further
        )

    def _error(self, failure: Failure) -> Exception:
        player = self.player
        refused = failure.status in (400, 413, 422)
        if refused and "continue_final_message" in f"{failure.message} {failure.field}":
            return ModelError(
                f"endpoint {player.base_url}: the server does not go on with a begun answer ({failure.message}); "
                "steer by asking anew: mode: reask"
            )
        wrong = configuration_fault(player, failure)
        if wrong:
            return ModelError(f"endpoint {player.base_url}: {wrong}")
        if refused:
            return Refused(
                f"{player.model}: {failure.message}",
                failure.code or "invalid_value",
                failure.field or None,
            )
        said = (
            f"HTTP {failure.status}: {failure.message}"
            if failure.status
            else failure.message
        )
        return EngineError(f"{player.model}: {said}")


class PrefixFilter:
    """An answer without the beginning that was given to it, should the model have
    repeated that.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix, self._text = prefix, ""

    def feed(self, text: str) -> str:
        """What is new in the answer; nothing as long as all of it may be repetition."""
        if not self._prefix:
            return text
        self._text += text
        if len(self._text) < len(self._prefix) and self._prefix.startswith(self._text):
            return ""
        return self.held().removeprefix(self._forget())

    def held(self) -> str:
        """What was held back, given up."""
        text, self._text = self._text, ""
        return text

    def _forget(self) -> str:
        prefix, self._prefix = self._prefix, ""
        return prefix
