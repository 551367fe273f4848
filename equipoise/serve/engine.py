"""What answers a chat, token by token: the contract between the server and whatever
model stands behind it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from equipoise.errors import EquipoiseError, ModelError, UserError
from equipoise.types import Message


class Refused(UserError):  # noqa: N818
    """A request that an engine cannot take as it is; the client can mend it.

    `code` is the protocol's error code, `param` the field that is to blame.
    """

    def __init__(
        self, message: str, code: str = "invalid_value", param: str | None = "messages"
    ) -> None:
        super().__init__(message)
        self.code, self.param = code, param


class CannotContinue(ModelError):  # noqa: N818
    """A model behind an engine cannot continue an answer that is already begun."""


class EngineError(EquipoiseError):
    """An engine failed on a request that it should have answered."""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A chat for an engine to answer.

    `prefix` is text that the answer already begins with: generation continues it and
    does not repeat it. An answer ends before the first of the texts `stop`, at
    `max_tokens` generated tokens, or by itself. `temperature` 0 takes the most likely
    token; `top_k` 0 and `top_p` 1 cut nothing. Equal requests get equal answers.
    """

    messages: tuple[Message, ...]
    prefix: str = ""
    seed: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer as it is made: whole characters only, and how many tokens
    were generated since the last.

    The last piece of an answer has a `finish`; on "error", `error` says what happened.
    `fields` are further keys that a server shows beside the text, such as what an
    extension keeps hidden.
    """

    text: str = ""
    finish: Literal["stop", "length", "error"] | None = None
    tokens: int = 0
    error: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


def brief(messages: Sequence[Message], prefix: str = "") -> bool:
    """Whether a chat is so short that it is tokenised within a millisecond or two."""
    return sum(len(message.content) for message in messages) + len(prefix) < 4000


class Engine(Protocol):
    """A model that answers chats, many at once."""

    def generate(self, request: EngineRequest, /) -> AsyncGenerator[Piece, None]:
        """The answer in pieces, the last of them with a `finish`.

        Closing the generator (`aclose`) ends the work on it.

        Raises Refused, before the first piece, for a chat that cannot be answered.
        """
        ...

    def count(self, messages: Sequence[Message], prefix: str = "") -> int | None:
        """How many tokens the prompt has, `prefix` included; None where the engine cannot know.

        Raises Refused.
        """
        ...

    async def close(self) -> None:
        """End all work and give back memory and connections."""
        ...
