"""/v1/responses: OpenAI's other protocol for chats, over the same engines. Nothing is stored."""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from equipoise.serve.asgi_endpoint import Limits, ModelEndpoint
from equipoise.serve.chat_completions import (
    CalledFunction,
    ChatMessage,
    ChatRequest,
    Function,
    FunctionName,
    NamedTool,
    Tool,
    ToolCall,
    check_tool_choice,
    scored_token,
)
from equipoise.serve.engine import (
    CallPart,
    EngineRequest,
    Piece,
    TokenScore,
    extension_offers,
    merge_answers,
)
from equipoise.serve.protocol import (
    LIKELY_TOKENS,
    Body,
    NamedSchema,
    Problem,
    Reply,
    SamplingRequest,
    TextFormat,
    check_most,
    check_unserved,
    read_object,
    validate_body,
)

# Fields that this server knows and cannot serve, with the values that ask for nothing.
UNSERVED: dict[str, tuple[Any, ...]] = {
    "previous_response_id": (),
    "conversation": (),
    "prompt": (),
    "background": (False,),
    "max_tool_calls": (),
    "n": (1,),
}
LOGPROBS = "message.output_text.logprobs"


# -- requests


class _Part(Body):
    type: Literal["input_text", "output_text", "text"]
    text: str


_Content = str | Annotated[list[_Part], Field(fail_fast=True)]


class _Message(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: _Content

    def read(self) -> ChatMessage:
        return ChatMessage(role=self.role, content=_text(self.content))


class _Call(Body):
    call_id: str
    name: str
    arguments: str

    def read(self) -> ChatMessage:
        function = CalledFunction(name=self.name, arguments=self.arguments)
        call = ToolCall(id=self.call_id, function=function)
        return ChatMessage(role="assistant", content="", tool_calls=[call])


class _CallOutput(Body):
    call_id: str
    output: _Content

    def read(self) -> ChatMessage:
        return ChatMessage(role="tool", content=_text(self.output), tool_call_id=self.call_id)


def _kind(item: Any) -> Any:
    return item.get("type", "message") if isinstance(item, dict) else "message"


_Item = Annotated[
    Annotated[_Message, Tag("message")]
    | Annotated[_Call, Tag("function_call")]
    | Annotated[_CallOutput, Tag("function_call_output")],
    Discriminator(_kind),
]


class _Typed(Body):
    type: Literal["function"]


class _Tool(Function, _Typed):
    def read(self) -> Tool:
        function = Function(**self.model_dump(exclude={"type"}))
        return Tool(type="function", function=function)


class _NamedTool(_Typed):
    name: str


class _Format(Body):
    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")

    @model_validator(mode="after")
    def _has_schema(self) -> Self:
        if (self.type == "json_schema") != (self.schema_ is not None):
            raise ValueError("the type json_schema needs the field schema, no other has it")
        return self


class _TextSettings(Body):
    format: _Format | None = None


class ResponseRequest(SamplingRequest):
    """A request for a response."""

    input: str | Annotated[list[_Item], Field(min_length=1, fail_fast=True)]
    instructions: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    text: _TextSettings | None = None
    tools: Annotated[list[_Tool], Field(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | _NamedTool | None = None
    parallel_tool_calls: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=LIKELY_TOKENS)
    include: list[str] | None = None
    truncation: Literal["disabled"] | None = None

    @property
    def scored(self) -> bool:
        """True if the tokens' log-probabilities are wanted."""
        return LOGPROBS in (self.include or ())

    def chat(self) -> ChatRequest:
        """The same request as one for a chat's completion."""
        choice = self.tool_choice
        if isinstance(choice, _NamedTool):
            choice = NamedTool(type="function", function=FunctionName(name=choice.name))
        shared = {*SamplingRequest.model_fields} - {"n", "response_format", "stream_options"}
        fields = {
            **self.model_dump(include=shared),
            "response_format": self._format(),
            "messages": self._messages(),
            "max_tokens": self.max_output_tokens,
            "logprobs": self.scored,
            "top_logprobs": self.top_logprobs if self.scored else None,
            "tools": [tool.read() for tool in self.tools or ()],
            "tool_choice": choice,
            "parallel_tool_calls": self.parallel_tool_calls,
        }
        return ChatRequest.model_validate(fields)

    def _format(self) -> TextFormat | None:
        form = self.text.format if self.text else None
        if form is None:
            return None
        schema = None
        if form.schema_ is not None:
            schema = NamedSchema(name=form.name, schema=form.schema_)
        return TextFormat(type=form.type, json_schema=schema)

    def _messages(self) -> list[ChatMessage]:
        """The messages; calls that follow an answer or each other are one message's."""
        items = self.input
        if isinstance(items, str):
            items = [_Message(role="user", content=items)]
        messages: list[ChatMessage] = []
        if self.instructions:
            messages.append(ChatMessage(role="system", content=self.instructions))
        for item in items:
            message = item.read()
            if message.tool_calls and messages and messages[-1].role == "assistant":
                last = messages.pop()
                calls = [*(last.tool_calls or ()), *message.tool_calls]
                message = last.model_copy(update={"tool_calls": calls})
            messages.append(message)
        return messages


def _text(content: str | Sequence[_Part]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


def read_response_request(values: Mapping[str, Any], limits: Limits) -> ResponseRequest:
    """The request of these fields. Raises Problem, status 400, that names the field."""
    if values.get("response_format") is not None:
        message = "'response_format' is of chats; a response's is text: {format: …}"
        raise Problem(400, message, "unsupported_value", "response_format")
    check_unserved(values, UNSERVED | dict.fromkeys(extension_offers(), ()))
    request = validate_body(ResponseRequest, values, _NAMES)
    if request.top_logprobs and not request.scored:
        message = f"'top_logprobs' needs include: [{LOGPROBS}]"
        raise Problem(400, message, "invalid_value", "top_logprobs")
    check_most({"max_output_tokens": request.max_output_tokens}, limits.max_tokens)
    return request


_KINDS = (ResponseRequest, _Message, _Call, _CallOutput, _Part, _Tool, _NamedTool, _TextSettings)
_NAMES = frozenset({"schema"}.union(*(kind.model_fields for kind in (*_KINDS, _Format))))


# -- answers


class Response:
    """The answer to one request, as a body and as events, in OpenAI's own shapes."""

    def __init__(self, head: Mapping[str, Any], prompt_tokens: int | None, *, scored: bool) -> None:
        """`prompt_tokens` None: no usage is stated. `scored`: log-probabilities are shown."""
        self._head = {
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response",
            "created_at": int(time.time()),
            **head,
        }
        self._prompt_tokens, self._scored = prompt_tokens, scored
        self._items: list[dict[str, Any]] = []
        self._open = False  # the last item
        self._calls: dict[int, int] = {}  # a call's index -> its item's
        self._tokens, self._events = 0, 0
        self._status = "in_progress"

    def body(self) -> dict[str, Any]:
        """The whole response as far as it has come."""
        incomplete = self._status == "incomplete"
        return {
            **self._head,
            "status": self._status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if incomplete else None,
            "output": list(self._items),
            "usage": None if self._status == "in_progress" else self._usage(),
        }

    def begin(self) -> list[dict[str, Any]]:
        """The events before the first piece."""
        kinds = ("response.created", "response.in_progress")
        return [self._event(kind, response=self.body()) for kind in kinds]

    def take(self, piece: Piece) -> list[dict[str, Any]]:
        """Take in a piece of the answer; its events."""
        self._tokens += piece.tokens
        events: list[dict[str, Any]] = []
        if piece.text or piece.scores:
            events += self._add_text(piece.text, piece.scores)
        for part in piece.calls:
            events += self._add_call(part)
        if piece.finish:
            if not self._items:
                events += self._open_message()
            self._status = "incomplete" if piece.finish == "length" else "completed"
            events += self._close()
            events.append(self._event(f"response.{self._status}", response=self.body()))
        return events

    def _add_text(self, text: str, scores: Sequence[TokenScore]) -> Iterator[dict[str, Any]]:
        if not self._open or self._items[-1]["type"] != "message":
            yield from self._close()
            yield from self._open_message()
        content = self._items[-1]["content"][0]
        content["text"] += text
        logprobs = [scored_token(score) for score in scores] if self._scored else []
        content["logprobs"] += logprobs
        yield self._item_event("output_text.delta", content_index=0, delta=text, logprobs=logprobs)

    def _add_call(self, part: CallPart) -> Iterator[dict[str, Any]]:
        if part.index not in self._calls:
            yield from self._close()
            self._calls[part.index] = len(self._items)
            call = {"call_id": part.id or "", "name": part.name or "", "arguments": ""}
            yield self._open_item({"type": "function_call", **call}, "fc")
        self._items[self._calls[part.index]]["arguments"] += part.arguments
        yield self._item_event("function_call_arguments.delta", delta=part.arguments)

    def _open_message(self) -> list[dict[str, Any]]:
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        opening = self._open_item({"type": "message", "role": "assistant", "content": []}, "msg")
        begun = self._item_event(
            "content_part.added", content_index=0, part={**part, "logprobs": []}
        )
        self._items[-1]["content"].append(part)
        return [opening, begun]

    def _open_item(self, item: dict[str, Any], prefix: str) -> dict[str, Any]:
        item |= {"id": f"{prefix}_{secrets.token_hex(12)}", "status": "in_progress"}
        self._items.append(item)
        self._open = True
        shown = {**item, **({"content": []} if "content" in item else {})}
        place = len(self._items) - 1
        return self._event("response.output_item.added", output_index=place, item=shown)

    def _close(self) -> Iterator[dict[str, Any]]:
        """The events that end the open item."""
        if not self._open:
            return
        self._open = False
        item = self._items[-1]
        item["status"] = "incomplete" if self._status == "incomplete" else "completed"
        if item["type"] == "message":
            (part,) = item["content"]
            done = partial(self._item_event, content_index=0)
            yield done("output_text.done", text=part["text"], logprobs=part["logprobs"])
            yield done("content_part.done", part=part)
        else:
            facts = {"name": item["name"], "arguments": item["arguments"]}
            yield self._item_event("function_call_arguments.done", **facts)
        place = len(self._items) - 1
        yield self._event("response.output_item.done", output_index=place, item=item)

    def _item_event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """An event of the last item."""
        place = {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1}
        return self._event(f"response.{kind}", **place, **fields)

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._events += 1
        return {"type": kind, "sequence_number": self._events - 1, **fields}

    def _usage(self) -> dict[str, Any] | None:
        if self._prompt_tokens is None:
            return None
        return {
            "input_tokens": self._prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self._tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self._prompt_tokens + self._tokens,
        }


class ResponseEndpoint(ModelEndpoint):
    """Answers chats in the form of responses."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        values = read_object(body)
        request = read_response_request(values, self._limits)
        chat = request.chat()
        check_tool_choice(chat)
        seed = request.seed_or_fresh()
        async with self._gate.place(1):
            served = await self._catalogue.find(request.model, seed)
            (asked,) = chat.engine_requests(seed, served.defaults, self._limits.max_tokens)
            response = Response(
                _head(served.name, values, asked),
                await served.engine.count(asked.messages, asked.prefix, asked.tools),
                scored=request.scored,
            )
            async with aclosing(merge_answers(served.engine, [asked])) as pieces:
                begun = False
                async for _, piece in pieces:
                    events = response.take(piece) if begun else _with_opening(response, piece)
                    begun = True
                    for event in events if request.stream else ():
                        await reply.event(event, event["type"])
            await (reply.end() if request.stream else reply.json(response.body()))


def _with_opening(response: Response, piece: Piece) -> list[dict[str, Any]]:
    return [*response.begin(), *response.take(piece)]


def _head(model: str, values: Mapping[str, Any], asked: EngineRequest) -> dict[str, Any]:
    """The request's settings, as a response repeats them."""
    return {
        "model": model,
        "instructions": values.get("instructions"),
        "max_output_tokens": asked.max_tokens,
        "metadata": values.get("metadata") or {},
        "parallel_tool_calls": asked.several_calls,
        "previous_response_id": None,
        "store": False,
        "temperature": asked.temperature,
        "text": values.get("text") or {"format": {"type": "text"}},
        "tool_choice": values.get("tool_choice") or "auto",
        "tools": values.get("tools") or [],
        "top_p": asked.top_p,
        "truncation": "disabled",
    }
