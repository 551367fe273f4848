"""What endpoints were paid for, where no run keeps it."""

from __future__ import annotations

from typing import Any

from equipoise.models.resources import Spending


class MemoryReplies:
    """Replies that are kept for as long as the process lasts."""

    def __init__(self) -> None:
        self._replies: dict[str, dict[str, Any]] = {}
        self._spent: dict[str, Spending] = {}

    def reply(self, key: str) -> dict[str, Any] | None:
        """The kept reply to the request `key`, or None."""
        return self._replies.get(key)

    def add_reply(
        self, key: str, account: str, reply: dict[str, Any], tokens: int, cost: float
    ) -> None:
        """Keep a reply, with its cost to the account."""
        self._replies[key] = reply
        self._spent[account] = plus(self.spent(account), Spending(1, tokens, cost))

    def spent(self, account: str) -> Spending:
        """What the account has spent."""
        return self._spent.get(account, Spending())


def plus(a: Spending, b: Spending) -> Spending:
    """The sum of two accounts' spending."""
    return Spending(a.calls + b.calls, a.tokens + b.tokens, a.money + b.money)
