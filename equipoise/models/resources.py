"""Resources of players and judges in a run: opened models, and the replies that were paid for."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spending:
    """An account's calls, tokens (of questions and answers) and money, in its prices' currency.

    A call is a request that was sent, each attempt for itself. `unanswered` of them brought no
    answer and no count of tokens; `unanswered_tokens` and `unanswered_money` are what they are
    charged: the most that they can have cost.
    """

    calls: int = 0
    tokens: int = 0
    money: float = 0.0
    unanswered: int = 0
    unanswered_tokens: int = 0
    unanswered_money: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Spending(*(mine + theirs for mine, theirs in pairs))

    def without_answer(self) -> Spending:
        """The same, as the charge of calls that brought no answer."""
        return Spending(self.calls, self.tokens, self.money, self.calls, self.tokens, self.money)

    def text(self, currency: str = "") -> str:
        """`12 calls, 900 tokens, 0.3 USD; of these unanswered: 2 calls, 80 tokens, 0.1 USD`.

        `currency`: of the prices, "" where there are none.
        """
        spent = amounts_text(self.calls, self.tokens, self.money, currency)
        if not self.unanswered:
            return spent
        lost = amounts_text(
            self.unanswered, self.unanswered_tokens, self.unanswered_money, currency
        )
        return f"{spent}; of these unanswered: {lost}"


def amounts_text(calls: int, tokens: int, money: float, currency: str) -> str:
    """Calls, tokens and money to read."""
    plural = "" if calls == 1 else "s"
    amounts = f"{calls:,} call{plural}, {tokens:,} tokens"
    if not (money or currency):
        return amounts
    unit = currency or "of money"
    return f"{amounts}, {money:g} {unit}"


class Replies(Protocol):
    """Paid answers by the hash of the request, so that nothing is paid for twice."""

    def reply(self, key: str) -> dict[str, Any] | None:
        """The kept answer to the request `key`, or None."""
        ...

    def reserve(self, account: str, most: Spending) -> str:
        """Charge a request with the most that it can cost, before it is sent; its name."""
        ...

    def settle(
        self, request: str, account: str, charge: Spending, reply: dict[str, Any], key: str = ""
    ) -> None:
        """Charge a reserved request with what it did cost, and keep what came back at once.

        `key`: what an answer is found by; "": there is none. No `charge.calls`: it was not sent.
        """
        ...

    def spent(self, account: str) -> Spending:
        """The account's spending, also before the run was resumed, with all that is reserved."""
        ...


class MemoryReplies:
    """Replies that are kept for as long as the process lasts."""

    def __init__(self) -> None:
        self._replies: dict[str, dict[str, Any]] = {}
        self._charges: dict[str, tuple[str, Spending]] = {}  # by request

    def reply(self, key: str) -> dict[str, Any] | None:
        return self._replies.get(key)

    def reserve(self, account: str, most: Spending) -> str:
        request = uuid.uuid4().hex
        self._charges[request] = account, most.without_answer()
        return request

    def settle(
        self, request: str, account: str, charge: Spending, reply: dict[str, Any], key: str = ""
    ) -> None:
        self._charges[request] = account, charge
        if key:
            self._replies[key] = reply

    def spent(self, account: str) -> Spending:
        charges = (charge for name, charge in self._charges.values() if name == account)
        return sum(charges, Spending())


@runtime_checkable
class Lendable(Protocol):
    """A resource that holds more for those who use it than it needs for itself."""

    def release(self) -> None:
        """Let go of what was opened for users who are gone."""
        ...


class Resources:
    """Opened models by key, closed together; `replies` (None: memory) keeps those paid for."""

    def __init__(
        self,
        replies: Replies | None = None,
        unit_rows: int | None = None,
        first_addresses: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        """`unit_rows`: how many rows models score together at most; None: all of them.

        `first_addresses`: (address, model) of endpoints that have moved -> where the run began.
        """
        self.replies = replies
        self.first_addresses = first_addresses
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
