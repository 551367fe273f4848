"""An engine that is another server: an OpenAI-compatible endpoint's streamed answers."""

import asyncio
import json
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from zlib import crc32

import msgspec

from equipoise.errors import ConfigError, ModelError
from equipoise.models.encoding import ToolMessage
from equipoise.players.endpoint import Endpoint
from equipoise.players.requests import Connection, Failure, configuration_fault
from equipoise.serve.engine import (
    CallPart,
    CannotContinue,
    Embedded,
    EngineError,
    EngineRequest,
    Piece,
    Refused,
)
from equipoise.types import Message

CONTINUE = "Go on exactly where your last message breaks off. Repeat nothing of it."


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream. `tokens` is the whole answer's count, where the server gives it."""

    text: str = ""
    finish: str | None = None
    tokens: int | None = None
    calls: tuple[CallPart, ...] = ()


class _Vector(msgspec.Struct):
    embedding: list[float]
    index: int


class _Count(msgspec.Struct):
    prompt_tokens: int = 0


class _Embeddings(msgspec.Struct):
    data: list[_Vector]
    usage: _Count = msgspec.field(default_factory=_Count)


class StreamingConnection(Connection):
    """The connection of an endpoint's player, for answers that come in pieces, and for vectors."""

    async def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[StreamEvent | Failure, None]:
        """The answer to `body`, retried until its first event; a failure comes last."""
        places = _servers_for(body["messages"])
        opened = await self.retry(lambda: self._open_stream(body, next(places)), asyncio.Event())
        if isinstance(opened, Failure):
            yield opened
            return
        events, first = opened
        try:
            yield read_event(first)
            async for event in self._rest(events):
                yield event
        finally:
            await events.close()

    async def embed(self, body: Mapping[str, Any]) -> Embedded | Failure:
        """The vectors that `body` asks for, retried."""
        places = _servers_for(body["input"])
        return await self.retry(lambda: self._embed(body, next(places)), asyncio.Event())

    async def _embed(self, body: Mapping[str, Any], place: int) -> Embedded | Failure:
        try:
            async with asyncio.timeout(self._timeout):
                reply = await self._client(place).embeddings.with_raw_response.create(
                    **body, encoding_format="float"
                )
                read = msgspec.json.decode(reply.content, type=_Embeddings)
        except TimeoutError:
            return Failure(f"no answer within {self._timeout:g} s", transient=True)
        except Exception as error:  # noqa: BLE001  what is no failure is raised again
            return self._failure_of(error, "embeddings")
        vectors = [each.embedding for each in sorted(read.data, key=lambda each: each.index)]
        if len(vectors) != len(body["input"]):
            message = f"not embeddings: {len(vectors)} for {len(body['input'])} texts"
            return Failure(message, transient=True)
        return Embedded(vectors, read.usage.prompt_tokens)

    async def _open_stream(self, body: Mapping[str, Any], place: int) -> tuple[Any, Any] | Failure:
        rest = {field: value for field, value in body.items() if field not in ("model", "messages")}
        try:
            async with asyncio.timeout(self._timeout):
                events = await self._client(place).chat.completions.create(
                    model=body["model"],
                    messages=body["messages"],
                    stream=True,
                    stream_options={"include_usage": True},
                    extra_body=rest,
                )
                first = await self._next(events)
        except TimeoutError:
            return Failure(f"no answer within {self._timeout:g} s", transient=True)
        except Exception as error:  # noqa: BLE001  what is no failure is raised again
            return self._failure_of(error)
        if first is None:
            return Failure(
                "not a stream of answers: it ended before its first event", transient=True
            )
        return events, first

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
                yield self._failure_of(error)
                return
            if event is None:
                return
            yield read_event(event)

    def _failure_of(self, error: Exception, wanted: str = "a stream of answers") -> Failure:
        import openai

        match error:
            case openai.APIStatusError():
                return self._refusal(error)
            case openai.APIConnectionError():
                return self._lost_connection(error)
            case openai.APIError():  # an error in place of an event
                return Failure(self._clean(error.message), transient=True)
            case ValueError():  # no JSON, or of another shape
                return Failure(self._clean(f"not {wanted}: {error}"), transient=True)
        raise error


def _servers_for(content: Any) -> Iterator[int]:
    """Numbers of a pool's servers to be tried in turn; equal requests begin with one server."""
    return count(crc32(json.dumps(content).encode()))


def read_event(event: Any) -> StreamEvent:
    """An event of the official client; one without the first choice is empty."""
    data = event.model_dump(exclude_unset=True, warnings=False)
    usage = data.get("usage") or {}
    tokens = usage.get("completion_tokens")
    match data:
        case {"choices": [{**choice}, *_]}:
            delta = choice.get("delta") or {}
            text = delta.get("content") or delta.get("refusal") or ""
            calls = tuple(map(_call_part, delta.get("tool_calls") or ()))
            return StreamEvent(text, choice.get("finish_reason"), tokens, calls)
    return StreamEvent(tokens=tokens)


def _call_part(delta: Mapping[str, Any]) -> CallPart:
    function = delta.get("function") or {}
    arguments = (function.get("arguments") or "").encode("utf-16", "surrogatepass")
    name, whole = function.get("name"), arguments.decode("utf-16", "replace")
    return CallPart(delta.get("index") or 0, delta.get("id"), name, whole)


class UpstreamEngine:
    """The model behind an endpoint's player; a request's sampling settings take precedence.

    A begun answer is continued by the convention of vLLM and SGLang: it is the chat's last message,
    with `continue_final_message: true` and `add_generation_prompt: false`. With `continues` false a
    user message asks the model to go on.
    """

    def __init__(self, player: Endpoint, *, continues: bool = True) -> None:
        """Nothing is sent yet. Raises ConfigError for an unset key, or a budget (of runs only)."""
        if any(limit is not None for _, limit in player.budget):
            raise ConfigError(
                f"{player.model}: budget: a server keeps no account; leave it out, or limit the key"
            )
        self.player, self._continues = player, continues
        self._connection = StreamingConnection(player)
        self._places = asyncio.Semaphore(player.concurrency)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The answer in pieces; closing the generator closes the stream.

        Raises ModelError for what concerns every request (the key, the model, the address), Refused
        where the server does not take this one, EngineError before its first event; later failures
        come last.
        """
        if request.prompt_ids is not None or request.logprobs is not None:
            raise Refused(
                f"{self.player.model}: log-probabilities and texts in place of a chat "
                "are not passed on to the server behind this one",
                "unsupported_value",
                "prompt" if request.logprobs is None else "logprobs",
            )
        async with self._places:
            stream = self._connection.stream(self._body(request))
            try:
                async for piece in self._pieces(stream, request.prefix):
                    yield piece
            finally:
                await stream.aclose()

    async def _pieces(
        self, stream: AsyncIterator[StreamEvent | Failure], prefix: str
    ) -> AsyncIterator[Piece]:
        finish, counted, begun = None, 0, False
        without_prefix = PrefixFilter(prefix)
        halves = getincrementaldecoder("utf-16-le")("replace")  # of a character, in two events
        async for event in stream:
            if isinstance(event, Failure):
                if not begun:
                    raise self._error(event)
                yield self._broken_piece(f"the answer broke off: {event.message}")
                return
            begun, finish = True, event.finish or finish
            whole = halves.decode(event.text.encode("utf-16-le", "surrogatepass"))
            text = without_prefix.feed(whole)
            # An event is a token nearly everywhere; where the server counts, its last count makes
            # up for the rest.
            tokens = int(bool(event.text or event.calls))
            if event.tokens is not None:
                tokens = max(0, event.tokens - counted)
            counted += tokens
            if text or tokens or event.calls:
                yield Piece(text, tokens=tokens, calls=event.calls)
        if finish == "content_filter":
            yield self._broken_piece("the server's content filter withheld the answer")
        elif finish is None:
            yield self._broken_piece(
                "the answer broke off without an end", without_prefix.release()
            )
        else:
            known = finish in ("length", "tool_calls")
            rest = without_prefix.release() + halves.decode(b"", final=True)
            yield Piece(rest, finish if known else "stop")

    def _broken_piece(self, message: str, text: str = "") -> Piece:
        return Piece(text, "error", error=f"{self.player.model}: {message}")

    async def count(
        self, messages: Sequence[Message], prefix: str = "", tools: Sequence[Mapping[str, Any]] = ()
    ) -> int | None:
        """Only the server knows."""
        return None

    async def embed(self, texts: Sequence[str | Sequence[int]], dimensions: int | None) -> Embedded:
        """The texts' vectors by the server; raises as `generate` does before its first event."""
        body: dict[str, Any] = {"model": self.player.model, "input": list(texts)}
        if dimensions is not None:
            body["dimensions"] = dimensions
        async with self._places:
            embedded = await self._connection.embed(body)
        if isinstance(embedded, Failure):
            raise self._error(embedded)
        return embedded

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    def _body(self, request: EngineRequest) -> dict[str, Any]:
        player, penalty = self.player, request.repetition_penalty
        body = {
            "model": player.model,
            "messages": self._messages(request),
            player.max_tokens_field: request.max_tokens,
            # Null in the player's settings says that the service takes no such field.
            "temperature": None if player.temperature is None else request.temperature,
            "top_p": None if player.top_p is None else request.top_p,
            "top_k": request.top_k or None,
            "min_p": request.min_p or None,
            "presence_penalty": request.presence_penalty or None,
            "frequency_penalty": request.frequency_penalty or None,
            "repetition_penalty": None if penalty == 1 else penalty,
            "response_format": request.response_format,
            "tools": list(request.tools) or None,
            "tool_choice": request.tool_choice if request.tools else None,
            "parallel_tool_calls": None if request.several_calls else False,
            "stop": [*request.stop, *player.stop] or None,
            "seed": request.seed % 2**31 if player.send_seed else None,
        }
        wished = {field: value for field, value in body.items() if value is not None}
        body = {**player.extra_body, **wished}
        if request.prefix and self._continues:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return body

    def _messages(self, request: EngineRequest) -> list[dict[str, Any]]:
        messages = [_fields(message) for message in request.messages]
        if request.prefix:
            messages.append({"role": "assistant", "content": request.prefix})
            if not self._continues:
                messages.append({"role": "user", "content": CONTINUE})
        return messages

    def _error(self, failure: Failure) -> Exception:
        """The error that `generate` raises for a failure before the first event."""
        model, address = self.player.model, self.player.base_url
        refused = failure.status in (400, 413, 422)
        if refused and "continue_final_message" in f"{failure.message} {failure.field}":
            return CannotContinue(
                f"endpoint {address}: the server cannot continue an answer that is "
                f"already begun ({failure.message})"
            )
        fault = configuration_fault(self.player, failure)
        if fault:
            return ModelError(f"endpoint {address}: {fault}")
        if refused:
            return Refused(
                f"{model}: {failure.message}",
                failure.code or "invalid_value",
                failure.field or None,
            )
        return EngineError(f"{model}: {failure}")


def _fields(message: Message) -> dict[str, Any]:
    further = json.loads(message.further) if isinstance(message, ToolMessage) else {}
    return {"role": message.role, "content": message.content, **further}


class PrefixFilter:
    """Takes a given beginning out of an answer, where the model repeats it."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._text = prefix, ""

    def feed(self, text: str) -> str:
        """The new part of the answer; "" as long as all of it may be repetition."""
        if not self._prefix:
            return text
        self._text += text
        if len(self._text) < len(self._prefix) and self._prefix.startswith(self._text):
            return ""
        prefix, self._prefix = self._prefix, ""
        return self.release().removeprefix(prefix)

    def release(self) -> str:
        """Give out the text that was held back."""
        text, self._text = self._text, ""
        return text
