"""What a player is: a configuration that opens into an actor, and the capabilities an
actor may have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from equipoise.component import Component
from equipoise.types import Message, Move, View

T = TypeVar("T")


class Actor(Protocol):
    """A player that is ready to move."""

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One move per view, in order. A row's dice depend on its own seed alone. A row
        that fails is an error move.
        """
        ...

    def close(self) -> None:
        """Give back memory and connections."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """An actor that can also say how likely it finds a text."""

    @property
    def encoding(self) -> str:
        """Fingerprint of tokenizer, template and truncation; players whose
        log-probabilities meet must share it.
        """
        ...

    def logprobs(
        self,
        chats: Sequence[tuple[Message, ...]],
        texts: Sequence[str],
        *,
        whole: bool = False,
    ) -> list[tuple[float, int]]:
        """For each (chat, answer): the sum of the answer's token log-probabilities in
        nats, and the token count.

        An answer too long is cut at its end; with `whole`, it raises DataError.
        """
        ...


@runtime_checkable
class Distribution(Protocol):
    """An actor whose whole policy can be written down."""

    def probabilities(self, actions: Sequence[str]) -> Sequence[float]:
        """The probability of each of `actions`."""
        ...


@dataclass(frozen=True, slots=True)
class Spending:
    """What an account has spent so far: calls, tokens (asked and answered) and money,
    in the currency of its prices.
    """

    calls: int = 0
    tokens: int = 0
    money: float = 0.0


class Replies(Protocol):
    """Where paid answers are kept, by the hash of what was asked, so that nothing is
    paid for twice.
    """

    def reply(self, key: str) -> dict[str, Any] | None:
        """The kept answer to the question `key`, or None."""
        ...

    def add_reply(
        self, key: str, account: str, reply: dict[str, Any], tokens: int, cost: float
    ) -> None:
        """Keep an answer at once, with what it cost the account."""
        ...

    def spent(self, account: str) -> Spending:
        """What the account has spent, also before the run was resumed."""
        ...


class Resources:
    """Opened things by key, shared by all who ask for the same key, closed together:
    one base model, many adapters.

    `replies` is where players that are paid for keep their answers; None: only in
    memory.
    """

    def __init__(self, replies: Replies | None = None) -> None:
        self.replies = replies
        self._things: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The thing under `key`, made on first asking."""
        if key not in self._things:
            self._things[key] = make()
        return self._things[key]

    def clear(self) -> None:
        """Forget everything; models leave memory when their last user does."""
        self._things.clear()


class Player(Component):
    """A player's configuration. `learns` says whether the run's learner trains it."""

    KINDS: ClassVar = {
        "scripted": "equipoise.players.scripted:Scripted",
        "tabular": "equipoise.players.tabular:Tabular",
        "local": "equipoise.players.local:Local",
        "endpoint": "equipoise.players.endpoint:Endpoint",
    }

    learns: bool = False

    @property
    def start(self) -> Path | None:
        """The folder of the weights that generation 0 has, where they are not the
        model's own.
        """
        return None

    def open(self, weights: Path | None, resources: Resources) -> Actor:
        """The actor at `weights` (a folder written by a learner), or as given when
        None.
        """
        raise TypeError(f"{type(self).__name__} must define open()")
