"""What players and judges share while a run lasts: opened models, and the replies that
were paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


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
    """Opened models by key, shared by everybody who uses the same key and closed
    together: one base model, many adapters.

    `replies` is where players that are paid for keep their answers; None: only in
    memory.
    """

    def __init__(self, replies: Replies | None = None) -> None:
        self.replies = replies
        self._opened: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The resource under `key`, made at its first use."""
        if key not in self._opened:
            self._opened[key] = make()
        return self._opened[key]

    def clear(self) -> None:
        """Forget everything; models leave memory when their last user does."""
        self._opened.clear()
