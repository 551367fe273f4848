"""Resources of players and judges in a run: opened models, and the replies that were paid for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spending:
    """An account's calls, tokens (of questions and answers) and money, in its prices' currency."""

    calls: int = 0
    tokens: int = 0
    money: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.calls + other.calls, self.tokens + other.tokens, self.money + other.money
        )


class Replies(Protocol):
    """Paid answers by the hash of the request, so that nothing is paid for twice."""

    def reply(self, key: str) -> dict[str, Any] | None:
        """The kept answer to the request `key`, or None."""
        ...

    def add_reply(
        self, key: str, account: str, reply: dict[str, Any], tokens: int, cost: float
    ) -> None:
        """Keep an answer at once, with what it cost the account."""
        ...

    def spent(self, account: str) -> Spending:
        """The account's spending, also before the run was resumed."""
        ...


class MemoryReplies:
    """Replies that are kept for as long as the process lasts."""

    def __init__(self) -> None:
        self._replies: dict[str, dict[str, Any]] = {}
        self._spent: dict[str, Spending] = {}

    def reply(self, key: str) -> dict[str, Any] | None:
        return self._replies.get(key)

    def add_reply(
        self, key: str, account: str, reply: dict[str, Any], tokens: int, cost: float
    ) -> None:
        self._replies[key] = reply
        self._spent[account] = self.spent(account) + Spending(1, tokens, cost)

    def spent(self, account: str) -> Spending:
        return self._spent.get(account, Spending())


@runtime_checkable
class Lendable(Protocol):
    """A resource that holds more for those who use it than it needs for itself."""

    def release(self) -> None:
        """Let go of what was opened for users who are gone."""
        ...


class Resources:
    """Opened models by key, closed together; `replies` (None: memory) keeps those paid for."""

    def __init__(self, replies: Replies | None = None, unit_rows: int | None = None) -> None:
        """`unit_rows`: how many rows models score together at most; None: all of them."""
        self.replies = replies
        self.unit_rows = unit_rows
        self._opened: dict[Hashable, Any] = {}
        # What was forgotten here and is still in memory, because somebody uses it.
        self._in_use: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The resource under `key`; made at its first use, and again only when nobody has it."""
        if key not in self._opened:
            used = self._in_use.pop(key, None)
            self._opened[key] = make() if used is None else used
        return self._opened[key]

    def clear(self, keep: Collection[Hashable] = ()) -> None:
        """Forget all but `keep`; models leave memory when their last user does."""
        for key in list(self._opened):
            resource = self._opened[key]
            if isinstance(resource, Lendable):
                resource.release()
            if key not in keep:
                del self._opened[key]
                with suppress(TypeError):  # of what cannot be watched, there are copies
                    self._in_use[key] = resource
