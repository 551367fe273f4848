"""What an endpoint's account has spent in a run, and the budget that every request must fit."""

import asyncio
from dataclasses import asdict
from typing import Any

from equipoise.errors import BudgetSpent
from equipoise.models.resources import Replies, Spending
from equipoise.players.endpoint_settings import EndpointSettings


class Account:
    """An account under one player's budget: requests are charged before they are sent.

    A request is charged at the most that it can cost, on disk where `replies` are, and at what it
    did cost once that is known. So neither a kill nor a server that never answers makes a limit of
    calls be passed.
    """

    def __init__(self, player: EndpointSettings, replies: Replies) -> None:
        """`replies` is read and written in the calling thread only."""
        self.name = player.account or player.model
        self._player, self._replies = player, replies
        self.renew()

    def renew(self) -> None:
        """Read what was spent so far; nothing is in flight, and the event loop may be another."""
        self._spent = self._replies.spent(self.name)
        self._in_flight: dict[str, Spending] = {}
        self._settled = asyncio.Event()

    async def reserve(self, most: Spending, stop: asyncio.Event) -> str | None:
        """The name of a request that may be sent now; None once `stop` is set.

        At a limit it waits for requests in flight, which may cost less than is reserved for them.
        Raises BudgetSpent where there is none.
        """
        while not stop.is_set():
            if self._limit_reached() is None:
                request = self._replies.reserve(self.name, most)
                self._in_flight[request] = most
                return request
            if not self._in_flight:
                raise self._budget_spent()
            await self._settled.wait()
        return None

    def settle(self, request: str, charge: Spending, reply: dict[str, Any], key: str = "") -> None:
        """Charge a reserved request with what it did cost, and keep what came back."""
        self._spent += charge
        del self._in_flight[request]
        self._settled.set()
        self._settled = asyncio.Event()
        self._replies.settle(request, self.name, charge, reply, key)

    def _limit_reached(self) -> str | None:
        total = asdict(sum(self._in_flight.values(), self._spent))
        for name, limit in self._player.budget:
            if limit is not None and total[name] >= limit:
                return name
        return None

    def _budget_spent(self) -> BudgetSpent:
        name = str(self._limit_reached())
        limit = getattr(self._player.budget, name)
        spent = self._spent.text(priced=self._player.prices is not None)
        return BudgetSpent(
            f"account '{self.name}' has reached budget.{name} = {limit}: {spent}. "
            "The replies that arrived are kept",
            self.name,
            name,
        )
