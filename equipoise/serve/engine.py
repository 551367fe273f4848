"""Engines answer chats, token by token: the contract between server and models.

An environment may put an engine in front of the model's own, as a client asks. Its `plugin.py`
lists such extensions under `SERVING`, by the field of a request that asks for it: field -> the
other settings of an `ExtensionOffer`. `-s FIELD=…` of `serve` and `chat` sets what holds where
a client asks for nothing.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from equipoise.component import import_object
from equipoise.errors import EquipoiseError, UserError
from equipoise.system.plugins import plugin_table
from equipoise.types import Message

if TYPE_CHECKING:
    from equipoise.component import Settings
    from equipoise.games.base import Game


class Refused(UserError):  # noqa: N818
    """A request that the client must mend: the protocol's error `code`, the `param` to blame."""

    def __init__(
        self, message: str, code: str = "invalid_value", param: str | None = "messages"
    ) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


class EngineError(EquipoiseError):
    """An engine failed on a request that it should have answered."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token's text and how likely it was in its place.

    `logprob` is under softmax(logits) in nats; None for a prompt's first token. `top`: the
    likeliest tokens there with theirs, in descending order.
    """

    text: str
    logprob: float | None
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A chat for an engine to answer, or a text to go on with.

    `prefix` is text that the answer already begins with: generation does not repeat it. An answer
    ends before the first of `stop`, at `max_tokens`, or by itself. `temperature` 0 takes the most
    likely token; `top_k` 0 and `top_p` 1 cut nothing. Equal requests get equal answers.
    `prompt_ids` are a text's tokens in place of a chat; with `echo` the answer begins with the
    text. `logprobs`: pieces hold the scores of the answer's tokens and, with `echo`, the text's,
    and so many likeliest ones. `response_format`, `tools`, `tool_choice` and `several_calls` (the
    field `parallel_tool_calls`) are in the protocol's form.
    """

    messages: tuple[Message, ...]
    prefix: str = ""
    seed: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    prompt_ids: tuple[int, ...] | None = None
    echo: bool = False
    logprobs: int | None = None
    response_format: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] = "auto"
    several_calls: bool = True


@dataclass(frozen=True, slots=True)
class CallPart:
    """A part of an answer's call `index` of a tool: of the first, id and name; more `arguments`."""

    index: int
    id: str | None
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer in whole characters, the number of its tokens, and their `scores`.

    The last has a `finish`; on "error", `error` says why. `fields` are further keys for the client.
    `thoughts` are a part of what a model that thinks says to itself before it answers.
    """

    text: str = ""
    finish: Literal["stop", "length", "tool_calls", "error"] | None = None
    tokens: int = 0
    error: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[TokenScore, ...] = ()
    calls: tuple[CallPart, ...] = ()
    thoughts: str = ""


class Engine(Protocol):
    """A model that answers chats, many at once."""

    def generate(self, request: EngineRequest, /) -> AsyncGenerator[Piece, None]:
        """The answer in pieces, the last with a `finish`; closing the generator ends the work.

        Raises Refused, before the first piece, for a chat that cannot be answered.
        """
        ...

    async def count(
        self, messages: Sequence[Message], prefix: str = "", tools: Sequence[Mapping[str, Any]] = ()
    ) -> int | None:
        """The prompt's tokens with `prefix`; None if the engine cannot know. Raises Refused."""
        ...

    async def close(self) -> None:
        """End all work and give back memory and connections."""
        ...


@runtime_checkable
class TextEngine(Engine, Protocol):
    """An engine that also goes on with a text's own tokens (`prompt_ids`)."""

    @property
    def tokenizer_facts(self) -> dict[str, Any]:
        """Facts for a client that prepares prompts itself, as vLLM's endpoint /tokenizer_info."""
        ...

    async def tokenize(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The tokens of a text, its control tokens as such. Raises Refused for one too long."""
        ...

    async def detokenize(self, ids: Sequence[int]) -> str:
        """The text of tokens, control tokens shown. Raises Refused for an unknown one."""
        ...


async def merge_answers(
    engine: Engine, requests: Sequence[EngineRequest]
) -> AsyncGenerator[tuple[int, Piece], None]:
    """The pieces of several answers as they come, with their numbers; raises as the engine."""
    arrived: asyncio.Queue[tuple[int, Piece | Exception]] = asyncio.Queue()

    async def follow(number: int, request: EngineRequest) -> None:
        try:
            async with aclosing(engine.generate(request)) as pieces:
                async for piece in pieces:
                    arrived.put_nowait((number, piece))
                    if piece.finish:
                        return
            raise EngineError("the answer broke off")
        except Exception as error:  # noqa: BLE001  raised again where the pieces are read
            arrived.put_nowait((number, error))

    tasks = [asyncio.create_task(follow(*numbered)) for numbered in enumerate(requests)]
    try:
        unfinished = len(tasks)
        while unfinished:
            number, piece = await arrived.get()
            if isinstance(piece, Exception):
                raise piece
            if piece.finish == "error":
                raise EngineError(piece.error)
            yield number, piece
            unfinished -= piece.finish is not None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# -- extensions


class Extension(ABC):
    """Puts an engine in front of another."""

    @abstractmethod
    def wrap(self, engine: Engine, value: Any = None, *, report: bool = False) -> Engine:
        """The engine that answers in place of `engine`, perhaps `engine` itself.

        `value`: of the request's field, or a name's suffix; None: the client asks for nothing.
        `report`: the last piece's field `equipoise` holds what the client does not see. Raises
        Refused for a value that cannot be.
        """


@dataclass(frozen=True)
class ExtensionOffer:
    """An extension as it appears to clients and on the command line.

    `extension` is its maker's import path, `field` a request's field and a setting of `serve` and
    `chat`, `option` that setting's help. `report` is the key of a request's object `equipoise` that
    asks for what is hidden.
    """

    field: str
    extension: str
    option: str
    report: str


@dataclass(frozen=True)
class ExtensionRequest:
    """A client's request of an extension: the field's value or None, and hidden parts or not."""

    value: Any = None
    report: bool = False


def extension_offers() -> dict[str, ExtensionOffer]:
    """Request field -> the extension behind it."""
    return {
        field: ExtensionOffer(field, **settings)
        for field, settings in plugin_table("SERVING").items()
    }


def extension(field: str, option: Any, game: Game | None) -> Extension:
    """The extension for this field of requests.

    `option`: the setting FIELD or None; `game`: of the run, None for a model alone. Raises
    ConfigError for an option that cannot be read, DataError for a template that cannot be used.
    """
    made = import_object(extension_offers()[field].extension)(option, game)
    assert isinstance(made, Extension), made
    return made


def extensions(settings: Settings, game: Game | None) -> dict[str, Extension]:
    """Every extension, by field, as the settings of a verb have it (`with_extensions`)."""
    return {field: extension(field, getattr(settings, field), game) for field in extension_offers()}
