"""OpenAI's protocol, the server's side: errors, bodies (read strictly), replies from pieces."""

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self, TypeVar

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from starlette.types import Send

from equipoise import seeds
from equipoise.errors import EquipoiseError
from equipoise.serve.engine import CallPart, EngineRequest, Piece, TokenScore

T = TypeVar("T")
B = TypeVar("B", bound="Body")
TYPES = {
    401: "authentication_error",
    403: "permission_error",
    408: "timeout_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}
SEED = 2**63
LIKELY_TOKENS = 20
"""The most of the likeliest tokens that are shown beside each."""
# Fields that this server knows and cannot serve, with the values that ask for nothing.
UNSERVED: dict[str, tuple[Any, ...]] = {"logit_bias": ({},), "prompt_logprobs": ()}
LEAST = -9999.0
"""Stands for the logarithm of 0, which JSON cannot write, as in OpenAI's own replies."""


# -- errors and replies


class Problem(EquipoiseError):  # noqa: N818
    """An error as the protocol answers it, with its `code` and the field `param` to blame."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """`{"error": {message, type, param, code}}`."""
        other = "invalid_request_error" if self.status < 500 else "server_error"
        kind = TYPES.get(self.status, other)
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


class Reply:
    """One answer on its way to the client: either one body, or a stream of events."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def json(
        self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send the whole answer."""
        body = msgspec.json.encode(content)
        length = {"content-length": str(len(body))}
        await self._start(status, {**length, **(headers or {})}, "application/json")
        await self._send({"type": "http.response.body", "body": body})

    async def event(self, content: Any) -> None:
        """Send an event of a stream, which begins with its first."""
        if not self.begun:
            headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
            await self._start(200, headers, "text/event-stream")
        await self._part(msgspec.json.encode(content))

    async def done(self) -> None:
        """End a stream with the mark of completions."""
        await self._part(b"[DONE]")
        await self._send({"type": "http.response.body", "body": b""})

    async def fail(self, problem: Problem) -> None:
        """Send an error: a whole answer, or where a stream has begun, its last event."""
        if not self.begun:
            await self.json(problem.body(), problem.status, problem.headers)
            return
        await self._part(msgspec.json.encode(problem.body()))
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, headers: Mapping[str, str], content_type: str) -> None:
        self.begun = True
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        pairs.append((b"content-type", content_type.encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def _part(self, data: bytes) -> None:
        body = b"data: " + data + b"\n\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


# -- requests


class Body(BaseModel):
    """A part of a request's body."""

    model_config = ConfigDict(
        strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )


def whole(value: Any) -> Any:
    """A whole number that JSON wrote as 5.0, as 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(whole)]
"""An integer as JSON has it: 5, or 5.0."""


class StreamOptions(Body):
    """Settings of a stream of events."""

    include_usage: bool | None = None


SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
_Stop = Annotated[str, Field(max_length=1000)]


class NamedSchema(Body):
    """A JSON schema of answers."""

    name: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")


class TextFormat(Body):
    """The form of an answer; the schema in `json_schema`, where it is of that type."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None

    @model_validator(mode="after")
    def _has_schema(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("the type json_schema needs the field json_schema, no other has it")
        return self


class SamplingRequest(Body):
    """Fields that chats and texts share: the model, the sampling, the number of answers."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: Whole | None = Field(None, ge=-1, le=2**31)
    min_p: float | None = Field(None, ge=0, lt=1)
    repetition_penalty: float | None = Field(None, gt=0, le=10)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    response_format: TextFormat | None = None
    stop: _Stop | Annotated[list[_Stop], Field(max_length=16)] | None = None
    seed: Whole | None = Field(None, ge=-SEED, lt=SEED)
    n: Whole | None = Field(None, ge=1)

    @property
    def answers(self) -> int:
        """Answers to each prompt."""
        return self.n or 1

    @property
    def counts_in_stream(self) -> bool:
        """True if the last event of a stream states the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def seed_or_fresh(self) -> int:
        """The request's seed, or a random one."""
        return secrets.randbits(63) if self.seed is None else self.seed

    def over(self, defaults: EngineRequest, seed: int) -> EngineRequest:
        """`defaults` with the client's sampling."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        sampling = {name: value for name in SAMPLING if (value := getattr(self, name)) is not None}
        if "top_k" in sampling:
            sampling["top_k"] = max(sampling["top_k"], 0)
        form = self.response_format
        if form is not None and form.type != "text":
            sampling["response_format"] = form.model_dump(exclude_none=True, by_alias=True)
        return replace(defaults, seed=seed, stop=stop, **sampling)

    def repeat(self, first: EngineRequest) -> list[EngineRequest]:
        """`n` requests; the first has the request's own seed."""
        further = [
            replace(first, seed=seeds.child(first.seed, "answer", number))
            for number in range(1, self.answers)
        ]
        return [first, *further]


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises Problem, status 400."""
    try:
        values = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}", "invalid_json") from error
    if not isinstance(values, dict):
        raise Problem(400, "the body is not a JSON object", "invalid_json")
    return values


def validate_body(
    kind: type[B], values: Mapping[str, Any], names: frozenset[str] = frozenset()
) -> B:
    """The request of this kind, with these fields. Raises Problem (400) that names the field."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        # The first fault, with the path of the field as clients write it: messages[0].content.
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        # Of the ways in which a value could have been right, the nearest one says most.
        alternatives = [fault for fault in faults if fault["loc"][:1] == faults[0]["loc"][:1]]
        nearest = max(
            alternatives, key=lambda fault: (len(fault["loc"]), not fault["type"].endswith("_type"))
        )
        # The place, without the names of types that the value could have had.
        path = ""
        for part in nearest["loc"]:
            if isinstance(part, int):
                path += f"[{part}]"
            elif not path:
                path = part
            elif part in names:
                path += f".{part}"
        code = "invalid_value"
        if nearest["type"] == "missing":
            code = "missing_required_parameter"
        elif nearest["type"].endswith("_type"):
            code = "invalid_type"
        raise Problem(400, f"'{path}': {nearest['msg']}", code, path) from error


def check_unserved(values: Mapping[str, Any], unserved: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises Problem for a field that asks for what this server does not do."""
    for name, harmless in {**unserved, **UNSERVED}.items():
        if values.get(name) is not None and values[name] not in harmless:
            message = f"'{name}' is not supported here; leave it out"
            raise Problem(400, message, "unsupported_value", name)


def check_most(values: Mapping[str, int | None], most: int) -> None:
    """Raises Problem for a field whose number is above the server's limit."""
    for name, value in values.items():
        if (value or 0) > most:
            raise Problem(400, f"'{name}' is at most {most} here", "invalid_value", name)


# -- answers


@dataclass(slots=True)
class Answer:
    """An answer as far as it has come."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    scores: list[TokenScore] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    finish: str | None = None
    length: int = 0  # of the tokens' texts
    calls: list[CallPart] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.texts)

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """Its calls of tools, each whole."""
        parts: dict[int, list[CallPart]] = {}
        for part in self.calls:
            parts.setdefault(part.index, []).append(part)
        return [
            {
                "id": next((part.id for part in own if part.id), ""),
                "type": "function",
                "function": {
                    "name": next((part.name for part in own if part.name), ""),
                    "arguments": "".join(part.arguments for part in own),
                },
            }
            for _, own in sorted(parts.items())
        ]


class Completion(ABC):
    """The answers to one request, as a body or as events, in OpenAI's own shapes."""

    kind, event_kind, prefix = "", "", ""

    def __init__(
        self,
        model: str,
        answers: int,
        prompt_tokens: int | None,
        count_in_stream: bool,
        *,
        scored: bool,
    ) -> None:
        """`prompt_tokens` None: no usage is stated. `scored`: log-probabilities are shown."""
        self._head = {
            "id": f"{self.prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }
        self._prompt_tokens = prompt_tokens
        self._count_in_stream = count_in_stream
        self._answers = [Answer() for _ in range(answers)]
        self._scored = scored
        self._tokens = 0

    def add(self, number: int, piece: Piece) -> None:
        """Take in a piece of an answer."""
        answer = self._answers[number]
        answer.texts.append(piece.text)
        answer.thoughts.append(piece.thoughts)
        answer.scores += piece.scores
        answer.calls += piece.calls
        answer.fields.update(piece.fields)
        answer.finish = piece.finish
        self._tokens += piece.tokens

    async def send(
        self, pieces: AsyncIterator[tuple[int, Piece]], reply: Reply, *, stream: bool
    ) -> None:
        """Send the answers as they come, or where `stream` is false as one body."""
        async for number, piece in pieces:
            events = self.take(number, piece)
            if stream:
                for event in events:
                    await reply.event(event)
        if not stream:
            await reply.json(self.body())
            return
        if self._count_in_stream:
            await reply.event(self.closing())
        await reply.done()

    @abstractmethod
    def take(self, number: int, piece: Piece) -> list[dict[str, Any]]:
        """Take in a piece of an answer; its events."""

    def body(self) -> dict[str, Any]:
        """All answers at once."""
        choices = [self._choice(number, answer) for number, answer in enumerate(self._answers)]
        return {**self._head, "object": self.kind, "choices": choices, "usage": self._usage()}

    def closing(self) -> dict[str, Any]:
        """The event that states the usage of all answers."""
        return {**self._head, "object": self.event_kind, "choices": [], "usage": self._usage()}

    @abstractmethod
    def _choice(self, number: int, answer: Answer) -> dict[str, Any]:
        """A whole answer."""

    def _event(
        self, number: int, content: dict[str, Any], logprobs: Any, finish: str | None
    ) -> dict[str, Any]:
        choice = {"index": number, **content, "logprobs": logprobs, "finish_reason": finish}
        usage = {"usage": None} if self._count_in_stream else {}
        return {**self._head, "object": self.event_kind, "choices": [choice], **usage}

    def _usage(self) -> dict[str, int] | None:
        if self._prompt_tokens is None:
            return None
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._tokens,
            "total_tokens": self._prompt_tokens + self._tokens,
        }


def json_logprob(logprob: float | None) -> float | None:
    """A log-probability as JSON can write it."""
    return None if logprob is None else max(logprob, LEAST)
