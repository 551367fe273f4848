"""What a player is: a configuration that opens into an actor, and the capabilities an actor may have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from equipoise.component import Component
from equipoise.types import Message, Move, View

T = TypeVar("T")


class Actor(Protocol):
    """A player that is ready to move."""

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One move per view, in order. A row's dice depend on its own seed alone. A row that fails is an error move."""
        ...

    def close(self) -> None:
        """Give back memory and connections."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """An actor that can also say how likely it finds a text."""

    @property
    def encoding(self) -> str:
        """Fingerprint of tokenizer, template and truncation; players whose log-probabilities meet must share it."""
        ...

    def logprobs(self, chats: Sequence[tuple[Message, ...]], texts: Sequence[str]) -> list[tuple[float, int]]:
        """For each (chat, answer): the sum of the answer's token log-probabilities in nats, and the token count."""
        ...


@runtime_checkable
class Distribution(Protocol):
    """An actor whose whole policy can be written down."""

    def probabilities(self, actions: Sequence[str]) -> Sequence[float]:
        """The probability of each of `actions`."""
        ...


class Shelf:
    """Opened things by key, shared by all who ask for the same key, closed together: one base model, many adapters."""

    def __init__(self) -> None:
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
    }

    learns: bool = False

    def open(self, weights: Path | None, shelf: Shelf) -> Actor:
        """The actor at `weights` (a folder written by a learner), or as given when None."""
        raise TypeError(f"{type(self).__name__} must define open()")
