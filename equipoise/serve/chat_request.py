"""What a client asks: the body of /v1/chat/completions, read strictly, but for unknown
fields, which are left aside.
"""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise import seeds
from equipoise.serve.engine import EngineRequest
from equipoise.serve.gate import Limits
from equipoise.serve.protocol import Problem
from equipoise.types import Message

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


class _Further(_Body):
    blocks: bool | None = None


class ChatRequest(_Body):
    """A request for chat completions. `steering` is passed on as it is, to whoever
    steers.
    """

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
    steering: Any = None
    equipoise: _Further | None = None

    @property
    def blocks(self) -> bool:
        """Whether the hidden blocks of a steered answer are wanted too."""
        return bool(self.equipoise and self.equipoise.blocks)

    @property
    def counts_in_stream(self) -> bool:
        """Whether the last event of a stream states what it took."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def answers(self) -> int:
        """How many answers are asked for."""
        return self.n or 1

    def asked(self, seed: int, given: EngineRequest, most: int) -> list[EngineRequest]:
        """The questions for the engine, one an answer; what the client leaves open is
        as in `given`.

        The first answer has the request's own seed. `most`: tokens of an answer where
        the client does not say.
        """
        messages, prefix = [message.read() for message in self.messages], ""
        if self.continue_final_message and messages[-1].role == "assistant":
            prefix = messages.pop().content
        tokens = (
            self.max_completion_tokens or self.max_tokens or min(given.max_tokens, most)
        )
        return [
            EngineRequest(
                messages=tuple(messages),
                prefix=prefix,
                seed=seeds.child(seed, "answer", n) if n else seed,
                temperature=given.temperature
                if self.temperature is None
                else self.temperature,
                top_p=given.top_p if self.top_p is None else self.top_p,
                top_k=given.top_k if self.top_k is None else max(self.top_k, 0),
                max_tokens=tokens,
                stop=(self.stop,)
                if isinstance(self.stop, str)
                else tuple(self.stop or ()),
            )
            for n in range(self.answers)
        ]

    def dice(self) -> int:
        """The seed that was given, or a fresh one."""
        return secrets.randbits(63) if self.seed is None else self.seed


def read(body: bytes, limits: Limits) -> ChatRequest:
    """The question in a request's body. Raises Problem, status 400, that names the
    field.
    """
    try:
        values = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}", "invalid_json") from error
    if not isinstance(values, dict):
        raise Problem(400, "the body is not a JSON object", "invalid_json")
    try:
        question = ChatRequest.model_validate(values)
    except ValidationError as error:
        raise _problem(error) from error
    for field, harmless in UNSERVED.items():
        if values.get(field) is not None and values[field] not in harmless:
            raise Problem(
                400,
                f"'{field}' is not supported here; leave it out",
                "unsupported_value",
                field,
            )
    for field in ("max_tokens", "max_completion_tokens"):
        if (values.get(field) or 0) > limits.max_tokens:
            raise Problem(
                400,
                f"'{field}' is at most {limits.max_tokens} here",
                "invalid_value",
                field,
            )
    if question.answers > min(limits.answers, limits.concurrency):
        most = min(limits.answers, limits.concurrency)
        raise Problem(400, f"'n' is at most {most} here", "invalid_value", "n")
    return question


def _problem(error: ValidationError) -> Problem:
    """The first fault, with the path of the field as clients write it:
    messages[0].content.
    """
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    # Of the ways in which a value could have been right, the one that it came nearest
    # to says most.
    fault = max(
        (one for one in faults if one["loc"][:1] == faults[0]["loc"][:1]),
        key=lambda one: len(one["loc"]),
    )
    path = ""
    for part in fault["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif (
            path == "" or part in _NAMES
        ):  # the rest are names of types that a value could have had
            path += f".{part}" if path else part
    codes = {"missing": "missing_required_parameter"}
    code = codes.get(
        fault["type"],
        "invalid_type" if fault["type"].endswith("_type") else "invalid_value",
    )
    return Problem(400, f"'{path}': {fault['msg']}", code, path)


_NAMES = {
    name
    for kind in (ChatRequest, _Message, _Text, _StreamOptions, _Further)
    for name in kind.model_fields
}
