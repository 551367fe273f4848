"""What the bodies of requests have in common: they are read strictly; unknown fields are
ignored.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise import seeds
from equipoise.serve.engine import EngineRequest
from equipoise.serve.gate import Limits
from equipoise.serve.protocol import Problem

T = TypeVar("T")
B = TypeVar("B", bound="Body")
SEED = 2**63
LIKELY_TOKENS = 20
"""The most of the likeliest tokens that are shown beside each."""
# Fields that this server knows and cannot serve, with the values that ask for nothing.
UNSERVED: dict[str, tuple[Any, ...]] = {
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "prompt_logprobs": (),
    "response_format": ({"type": "text"},),
}


class Body(BaseModel):
    """A part of a request's body."""

    model_config = ConfigDict(
        strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class StreamOptions(Body):
    """Settings of a stream of events."""

    include_usage: bool | None = None


_Stop = Annotated[str, Field(max_length=1000)]


class SamplingRequest(Body):
    """The fields that say who answers and how; an answer's own tokens are asked for with
    `max_tokens`.
    """

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=2**31)
    stop: _Stop | Annotated[list[_Stop], Field(max_length=16)] | None = None
    seed: int | None = Field(None, ge=-SEED, lt=SEED)
    n: int | None = Field(None, ge=1)

    @property
    def counts_in_stream(self) -> bool:
        """Whether the last event of a stream states the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def seed_or_fresh(self) -> int:
        """The seed that was given, or a random one."""
        return secrets.randbits(63) if self.seed is None else self.seed

    def sampled(self, seed: int, defaults: EngineRequest) -> EngineRequest:
        """`defaults` with what the client asks for."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return replace(
            defaults,
            seed=seed,
            temperature=given(self.temperature, defaults.temperature),
            top_p=given(self.top_p, defaults.top_p),
            top_k=max(given(self.top_k, defaults.top_k), 0),
            stop=stop,
        )

    def repeated(self, first: EngineRequest) -> list[EngineRequest]:
        """`n` requests; the first has the request's own seed."""
        further = [
            replace(first, seed=seeds.child(first.seed, "answer", number))
            for number in range(1, self.n or 1)
        ]
        return [first, *further]


def given(value: T | None, default: T) -> T:
    """A field's value, or what holds where it is left open."""
    return default if value is None else value


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises Problem, status 400."""
    try:
        values = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}", "invalid_json") from error
    if not isinstance(values, dict):
        raise Problem(400, "the body is not a JSON object", "invalid_json")
    return values


def validated(kind: type[B], values: Mapping[str, Any], names: frozenset[str] = frozenset()) -> B:
    """The request of this kind; `names` are the fields of its parts.

    Raises Problem, status 400, that names the field.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _problem(error, names) from error


def check_unserved(values: Mapping[str, Any], unserved: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises Problem for a field that asks for what this server does not do."""
    for field, harmless in {**unserved, **UNSERVED}.items():
        if values.get(field) is not None and values[field] not in harmless:
            raise Problem(
                400, f"'{field}' is not supported here; leave it out", "unsupported_value", field
            )


def check_most(values: Mapping[str, int | None], most: int) -> None:
    """Raises Problem for a field whose number is above the server's limit."""
    for field, value in values.items():
        if (value or 0) > most:
            message = f"'{field}' is at most {most} here"
            raise Problem(400, message, "invalid_value", field)


def most_answers(limits: Limits) -> int:
    """Answers to one prompt."""
    return min(limits.answers, limits.concurrency)


def _problem(error: ValidationError, names: frozenset[str]) -> Problem:
    """The first fault, with the path of the field as clients write it: messages[0].content."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    # Of the ways in which a value could have been right, the one that it came nearest to says most.
    alternatives = [fault for fault in faults if fault["loc"][:1] == faults[0]["loc"][:1]]
    nearest = max(alternatives, key=lambda fault: len(fault["loc"]))
    path = _path(nearest["loc"], names)
    code = "invalid_value"
    if nearest["type"] == "missing":
        code = "missing_required_parameter"
    elif nearest["type"].endswith("_type"):
        code = "invalid_type"
    return Problem(400, f"'{path}': {nearest['msg']}", code, path)


def _path(location: tuple[int | str, ...], names: frozenset[str]) -> str:
    """A fault's place, without the names of types that the value could have had."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not path:
            path = part
        elif part in names:
            path += f".{part}"
    return path
