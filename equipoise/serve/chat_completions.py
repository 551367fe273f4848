"""/v1/chat/completions: requests, their answers, and the endpoint."""

import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, model_validator

from equipoise.component import nearest
from equipoise.serve.asgi_endpoint import Limits, ModelEndpoint
from equipoise.serve.detokenizer import BROKEN
from equipoise.serve.engine import (
    CallPart,
    EngineRequest,
    ExtensionRequest,
    Piece,
    TokenScore,
    extension_offers,
    merge_answers,
)
from equipoise.serve.protocol import (
    LIKELY_TOKENS,
    Answer,
    Body,
    Completion,
    NamedSchema,
    Problem,
    Reply,
    SamplingRequest,
    StreamOptions,
    TextFormat,
    Whole,
    check_most,
    check_unserved,
    json_logprob,
    read_object,
    validate_body,
)
from equipoise.types import Message

# Fields that this server knows and cannot serve, with the values that ask for nothing.
UNSERVED: dict[str, tuple[Any, ...]] = {
    "functions": ([],),
    "function_call": ("none", "auto"),
    "chat_template_kwargs": ({},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
}


class _Text(Body):
    type: Literal["text"]
    text: str


class _Refusal(Body):
    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        """What the model said in place of an answer."""
        return self.refusal


class CalledFunction(Body):
    """A function with the arguments of a call, in JSON."""

    name: str
    arguments: str


class ToolCall(Body):
    """A call that an answer made."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class ChatMessage(Body):
    """A message as clients write it."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[_Text | _Refusal], Field(fail_fast=True)]
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _an_answer_needs_no_content(cls, values: Any) -> Any:
        """An assistant's content may be null: it called tools, refused, or said nothing."""
        if not isinstance(values, dict) or values.get("content") is not None:
            return values
        if values.get("role") == "assistant" or values.get("tool_calls"):
            refusal = values.get("refusal")
            return {**values, "content": refusal if isinstance(refusal, str) else ""}
        return values

    def read(self) -> Message:
        """The message in this package's form."""
        content = self.content
        if not isinstance(content, str):
            content = "".join(part.text for part in content)
        if self.role == "tool" or self.tool_calls:
            given = self.model_dump(include={"tool_calls", "tool_call_id"}, exclude_none=True)
            return Message(self.role, content, json.dumps(given, ensure_ascii=False))
        return Message("system" if self.role == "developer" else self.role, content)


class Function(Body):
    """A function of a client's."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Body):
    """A function that an answer may call."""

    type: Literal["function"]
    function: Function


class FunctionName(Body):
    """The name of a function."""

    name: str


class NamedTool(Body):
    """The choice of one tool."""

    type: Literal["function"]
    function: FunctionName


class ChatRequest(SamplingRequest):
    """A request for chat completions; `request_type` adds the fields of extensions."""

    messages: list[ChatMessage] = Field(min_length=1, fail_fast=True)
    max_tokens: Whole | None = Field(None, ge=1)
    max_completion_tokens: Whole | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: Whole | None = Field(None, ge=0, le=LIKELY_TOKENS)
    continue_final_message: bool | None = None
    tools: Annotated[list[Tool], Field(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    equipoise: Any = None

    @property
    def extension_requests(self) -> dict[str, ExtensionRequest]:
        """The client's request of each extension, by field."""
        requests: dict[str, ExtensionRequest] = {}
        for field, offer in extension_offers().items():
            report = bool(getattr(self.equipoise, offer.report, None))
            requests[field] = ExtensionRequest(getattr(self, field, None), report=report)
        return requests

    def engine_requests(
        self, seed: int, defaults: EngineRequest, max_tokens: int
    ) -> list[EngineRequest]:
        """One request to the engine for each answer, over `defaults`; `max_tokens` if unbounded."""
        messages = tuple(message.read() for message in self.messages)
        prefix = ""
        if self.continue_final_message and messages[-1].role == "assistant":
            *before, last = messages
            messages = tuple(before)
            prefix = last.content
        tokens = self.max_completion_tokens or self.max_tokens
        first = replace(
            self.over(defaults, seed),
            messages=messages,
            prefix=prefix,
            max_tokens=tokens or min(defaults.max_tokens, max_tokens),
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            **self._tool_settings(),
        )
        return self.repeat(first)

    def _tool_settings(self) -> dict[str, Any]:
        choice = self.tool_choice or "auto"
        if not self.tools or choice == "none":
            return {}
        return {
            "tools": tuple(tool.model_dump(exclude_none=True) for tool in self.tools),
            "tool_choice": choice if isinstance(choice, str) else choice.model_dump(),
            "several_calls": self.parallel_tool_calls is not False,
        }


@cache
def request_type() -> type[ChatRequest]:
    """`ChatRequest` with the fields of the environments' extensions."""
    offers = extension_offers().values()
    reports: dict[str, Any] = {offer.report: (bool | None, None) for offer in offers}
    further = create_model("Further", __base__=Body, **reports)
    fields: dict[str, Any] = {offer.field: (Any, None) for offer in offers}
    fields["equipoise"] = (further | None, None)
    return create_model("ChatRequest", __base__=ChatRequest, **fields)


def read_request(body: bytes, limits: Limits) -> ChatRequest:
    """The request in a body. Raises Problem, status 400, that names the field."""
    values = read_object(body)
    request = validate_body(request_type(), values, field_names())
    check_unserved(values, UNSERVED)
    check_tool_choice(request)
    if request.top_logprobs and not request.logprobs:
        raise Problem(400, "'top_logprobs' needs logprobs: true", "invalid_value", "top_logprobs")
    tokens = {
        "max_tokens": request.max_tokens,
        "max_completion_tokens": request.max_completion_tokens,
    }
    check_most(tokens, limits.max_tokens)
    check_most({"n": request.n}, limits.answers_at_once)
    return request


def check_tool_choice(request: ChatRequest) -> None:
    """Raises Problem, status 400, for the choice of a tool that is not among the tools."""
    choice = request.tool_choice
    names = [tool.function.name for tool in request.tools or ()]
    if len(set(names)) < len(names):
        raise Problem(400, "two 'tools' have one name", "invalid_value", "tools")
    if choice in (None, "none", "auto"):
        return
    if not names:
        message = "'tool_choice' needs 'tools' to choose from"
        raise Problem(400, message, "invalid_value", "tool_choice")
    if isinstance(choice, NamedTool) and choice.function.name not in names:
        message = f"'tool_choice' names no tool; {nearest(choice.function.name[:100], names)}"
        raise Problem(400, message, "invalid_value", "tool_choice")


@cache
def field_names() -> frozenset[str]:
    kinds = (
        request_type(),
        ChatMessage,
        _Text,
        _Refusal,
        StreamOptions,
        ToolCall,
        CalledFunction,
        Tool,
        Function,
        NamedTool,
        FunctionName,
        TextFormat,
        NamedSchema,
    )
    names = {offer.report for offer in extension_offers().values()}
    for kind in kinds:
        names.update(kind.model_fields)
    return frozenset(names)


class ChatCompletion(Completion):
    """Answers to a chat."""

    kind, event_kind = "chat.completion", "chat.completion.chunk"
    prefix = "chatcmpl"

    def take(self, number: int, piece: Piece) -> list[dict[str, Any]]:
        """Take in a piece of an answer; its events, before the first of which stands an opening."""
        events = []
        if not self._answers[number].texts:
            opening = {"role": "assistant", "content": ""}
            events.append(self._event(number, {"delta": opening}, None, None))
        self.add(number, piece)
        shown = piece.text or piece.thoughts or piece.calls
        if shown or piece.finish or piece.fields or piece.scores:
            delta: dict[str, Any] = {"content": piece.text} if piece.text else {}
            delta |= piece.fields
            if piece.thoughts:
                delta["reasoning_content"] = piece.thoughts
            if piece.calls:
                delta["tool_calls"] = [call_delta(part) for part in piece.calls]
            logprobs = self._logprobs(piece.scores) if piece.scores else None
            events.append(self._event(number, {"delta": delta}, logprobs, piece.finish))
        return events

    def _choice(self, number: int, answer: Answer) -> dict[str, Any]:
        message = {"role": "assistant", "content": answer.text, "refusal": None, **answer.fields}
        thoughts = "".join(answer.thoughts).rstrip()
        if thoughts:
            message["reasoning_content"] = thoughts
        if answer.calls:
            message |= {"content": answer.text or None, "tool_calls": answer.tool_calls}
        return {
            "index": number,
            "message": message,
            "logprobs": self._logprobs(answer.scores),
            "finish_reason": answer.finish,
        }

    def _logprobs(self, scores: Sequence[TokenScore]) -> dict[str, Any] | None:
        if not self._scored:
            return None
        return {"content": list(map(scored_token, scores)), "refusal": None}


def call_delta(part: CallPart) -> dict[str, Any]:
    function = {"arguments": part.arguments}
    if part.name is None:
        return {"index": part.index, "function": function}
    function = {"name": part.name, **function}
    return {"index": part.index, "id": part.id, "type": "function", "function": function}


def scored_token(score: TokenScore) -> dict[str, Any]:
    """A token and the likeliest ones in its place, as the protocol has them."""
    top = [labelled(text, logprob) for text, logprob in score.top]
    return {**labelled(score.text, score.logprob), "top_logprobs": top}


def labelled(text: str, logprob: float | None) -> dict[str, Any]:
    written = None if BROKEN in text else list(text.encode())
    return {"token": text, "logprob": json_logprob(logprob), "bytes": written}


class ChatEndpoint(ModelEndpoint):
    """Answers chats."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        request = read_request(body, self._limits)
        seed = request.seed_or_fresh()
        async with self._gate.place(request.answers):
            served = await self._catalogue.find(request.model, seed, request.extension_requests)
            requests = request.engine_requests(seed, served.defaults, self._limits.max_tokens)
            first = requests[0]
            completion = ChatCompletion(
                served.name,
                len(requests),
                await served.engine.count(first.messages, first.prefix, first.tools),
                request.counts_in_stream,
                scored=first.logprobs is not None,
            )
            async with aclosing(merge_answers(served.engine, requests)) as pieces:
                await completion.send(pieces, reply, stream=bool(request.stream))
