"""What a client asks for: the body of /v1/chat/completions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from equipoise.serve.engine import EngineRequest
from equipoise.serve.extension import Wish, offered
from equipoise.serve.gate import Limits
from equipoise.serve.protocol import Problem
from equipoise.serve.request_body import (
    LIKELY_TOKENS,
    Body,
    SamplingRequest,
    StreamOptions,
    check_most,
    check_unserved,
    most_answers,
    read_object,
    validated,
)
from equipoise.types import Message

# Fields that this server knows and cannot serve, with the values that ask for nothing.
UNSERVED: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
}


class _Text(Body):
    type: Literal["text"]
    text: str


class ChatMessage(Body):
    """A message as clients write it."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[_Text], Field(fail_fast=True)]

    def read(self) -> Message:
        """The message."""
        content = (
            self.content
            if isinstance(self.content, str)
            else "".join(part.text for part in self.content)
        )
        return Message("system" if self.role == "developer" else self.role, content)


class ChatRequest(SamplingRequest):
    """A request for chat completions; `request_type` adds the fields of extensions."""

    messages: list[ChatMessage] = Field(min_length=1, fail_fast=True)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=LIKELY_TOKENS)
    continue_final_message: bool | None = None
    equipoise: Any = None

    @property
    def wishes(self) -> dict[str, Wish]:
        """What the client asks of each extension, by field."""
        return {
            field: Wish(
                getattr(self, field, None), report=bool(getattr(self.equipoise, offer.report, None))
            )
            for field, offer in offered().items()
        }

    @property
    def answers(self) -> int:
        """How many answers are wanted."""
        return self.n or 1

    def engine_requests(
        self, seed: int, defaults: EngineRequest, max_tokens: int
    ) -> list[EngineRequest]:
        """One request to the engine for each answer; what the client leaves open is as in
        `defaults`.

        The first answer has the request's own seed. `max_tokens` of an answer where the client does
        not say.
        """
        messages, prefix = self._chat()
        tokens = self.max_completion_tokens or self.max_tokens
        first = replace(
            self.sampled(seed, defaults),
            messages=messages,
            prefix=prefix,
            max_tokens=tokens or min(defaults.max_tokens, max_tokens),
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
        )
        return self.repeated(first)

    def _chat(self) -> tuple[tuple[Message, ...], str]:
        """The messages, and the text that the answer begins with."""
        messages = [message.read() for message in self.messages]
        if self.continue_final_message and messages[-1].role == "assistant":
            return tuple(messages[:-1]), messages[-1].content
        return tuple(messages), ""


@cache
def request_type() -> type[ChatRequest]:
    """`ChatRequest` with the fields of the environments' extensions."""
    offers = offered().values()
    reports: dict[str, Any] = {offer.report: (bool | None, None) for offer in offers}
    further = create_model("Further", __base__=Body, **reports)
    fields: dict[str, Any] = {offer.field: (Any, None) for offer in offers}
    fields["equipoise"] = (further | None, None)
    return create_model("ChatRequest", __base__=ChatRequest, **fields)


def read_request(body: bytes, limits: Limits) -> ChatRequest:
    """The request in a body. Raises Problem, status 400, that names the field."""
    values = read_object(body)
    request = validated(request_type(), values, _field_names())
    check_unserved(values, UNSERVED)
    if request.top_logprobs and not request.logprobs:
        raise Problem(400, "'top_logprobs' needs logprobs: true", "invalid_value", "top_logprobs")
    tokens = {
        "max_tokens": request.max_tokens,
        "max_completion_tokens": request.max_completion_tokens,
    }
    check_most(tokens, limits.max_tokens)
    check_most({"n": request.n}, most_answers(limits))
    return request


@cache
def _field_names() -> frozenset[str]:
    """The names of fields within fields."""
    kinds = (request_type(), ChatMessage, _Text, StreamOptions)
    names = {name for kind in kinds for name in kind.model_fields}
    return frozenset(names | {offer.report for offer in offered().values()})
