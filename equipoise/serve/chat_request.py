"""What a client asks for: the body of /v1/chat/completions, read strictly; unknown
fields are ignored.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from equipoise import seeds
from equipoise.serve.engine import EngineRequest
from equipoise.serve.extension import Wish, offered
from equipoise.serve.gate import Limits
from equipoise.serve.protocol import Problem
from equipoise.types import Message

T = TypeVar("T")
SEED = 2**63
# Fields that this server knows and cannot serve, with the values that ask for nothing.
UNSERVED: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
}


class _Body(BaseModel):
    model_config = ConfigDict(
        strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class _Text(_Body):
    type: Literal["text"]
    text: str


class _Message(_Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Text]

    def read(self) -> Message:
        content = (
            self.content
            if isinstance(self.content, str)
            else "".join(part.text for part in self.content)
        )
        return Message("system" if self.role == "developer" else self.role, content)


class _StreamOptions(_Body):
    include_usage: bool | None = None


_Stop = Annotated[str, Field(max_length=1000)]


class ChatRequest(_Body):
    """A request for chat completions; `request_type` adds the fields of extensions."""

    model: str
    messages: list[_Message] = Field(min_length=1)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=2**31)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: _Stop | Annotated[list[_Stop], Field(max_length=16)] | None = None
    seed: int | None = Field(None, ge=-SEED, lt=SEED)
    n: int | None = Field(None, ge=1)
    continue_final_message: bool | None = None
    equipoise: Any = None

    @property
    def wishes(self) -> dict[str, Wish]:
        """What the client asks of each extension, by field."""
        return {
            field: Wish(
                getattr(self, field, None),
                report=bool(getattr(self.equipoise, offer.report, None)),
            )
            for field, offer in offered().items()
        }

    @property
    def counts_in_stream(self) -> bool:
        """Whether the last event of a stream states the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def answers(self) -> int:
        """How many answers are wanted."""
        return self.n or 1

    def engine_requests(
        self, seed: int, defaults: EngineRequest, max_tokens: int
    ) -> list[EngineRequest]:
        """One request to the engine for each answer; what the client leaves open is as
        in `defaults`.

        The first answer has the request's own seed. `max_tokens` of an answer where the
        client does not say.
        """
        messages, prefix = self._chat()
        tokens = self.max_completion_tokens or self.max_tokens
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        first = replace(
            defaults,
            messages=messages,
            prefix=prefix,
            seed=seed,
            temperature=_given(self.temperature, defaults.temperature),
            top_p=_given(self.top_p, defaults.top_p),
            top_k=max(_given(self.top_k, defaults.top_k), 0),
            max_tokens=tokens or min(defaults.max_tokens, max_tokens),
            stop=stop,
        )
        further = [
            replace(first, seed=seeds.child(seed, "answer", n))
            for n in range(1, self.answers)
        ]
        return [first, *further]

    def _chat(self) -> tuple[tuple[Message, ...], str]:
        """The messages, and the text that the answer begins with."""
        messages = [message.read() for message in self.messages]
        if self.continue_final_message and messages[-1].role == "assistant":
            return tuple(messages[:-1]), messages[-1].content
        return tuple(messages), ""

    def seed_or_fresh(self) -> int:
        """The seed that was given, or a random one."""
        return secrets.randbits(63) if self.seed is None else self.seed


def _given(value: T | None, default: T) -> T:
    return default if value is None else value


@cache
def request_type() -> type[ChatRequest]:
    """`ChatRequest` with the fields of the environments' extensions."""
    offers = offered().values()
    reports: dict[str, Any] = {offer.report: (bool | None, None) for offer in offers}
    further = create_model("Further", __base__=_Body, **reports)
    fields: dict[str, Any] = {offer.field: (Any, None) for offer in offers}
    fields["equipoise"] = (further | None, None)
    return create_model("ChatRequest", __base__=ChatRequest, **fields)


def read_request(body: bytes, limits: Limits) -> ChatRequest:
    """The request in a body. Raises Problem, status 400, that names the field."""
    try:
        values = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}", "invalid_json") from error
    if not isinstance(values, dict):
        raise Problem(400, "the body is not a JSON object", "invalid_json")
    try:
        request = request_type().model_validate(values)
    except ValidationError as error:
        raise _problem(error) from error
    _check_unserved(values)
    _check_limits(request, limits)
    return request


def _check_unserved(values: Mapping[str, Any]) -> None:
    """Raises Problem for a field that asks for what this server does not do."""
    for field, harmless in UNSERVED.items():
        if values.get(field) is not None and values[field] not in harmless:
            raise Problem(
                400,
                f"'{field}' is not supported here; leave it out",
                "unsupported_value",
                field,
            )


def _check_limits(request: ChatRequest, limits: Limits) -> None:
    """Raises Problem for a number above the server's limit."""
    most_answers = min(limits.answers, limits.concurrency)
    for field, value, most in (
        ("max_tokens", request.max_tokens, limits.max_tokens),
        ("max_completion_tokens", request.max_completion_tokens, limits.max_tokens),
        ("n", request.n, most_answers),
    ):
        if (value or 0) > most:
            message = f"'{field}' is at most {most} here"
            raise Problem(400, message, "invalid_value", field)


def _problem(error: ValidationError) -> Problem:
    """The first fault, with the path of the field as clients write it: messages[0].content."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    # Of the ways in which a value could have been right, the one that it came nearest
    # to says most.
    alternatives = [
        fault for fault in faults if fault["loc"][:1] == faults[0]["loc"][:1]
    ]
    nearest = max(alternatives, key=lambda fault: len(fault["loc"]))
    path = _path(nearest["loc"])
    code = "invalid_value"
    if nearest["type"] == "missing":
        code = "missing_required_parameter"
    elif nearest["type"].endswith("_type"):
        code = "invalid_type"
    return Problem(400, f"'{path}': {nearest['msg']}", code, path)


def _path(location: tuple[int | str, ...]) -> str:
    """A fault's place, without the names of types that the value could have had."""
    known = _field_names()
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not path:
            path = part
        elif part in known:
            path += f".{part}"
    return path


@cache
def _field_names() -> set[str]:
    kinds = (request_type(), _Message, _Text, _StreamOptions)
    names = {name for kind in kinds for name in kind.model_fields}
    return names | {offer.report for offer in offered().values()}
