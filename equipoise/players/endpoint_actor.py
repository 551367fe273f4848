"""The actor of an endpoint: looks up what was answered before, asks the rest side by
side, keeps what arrives.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from equipoise.errors import BudgetSpent, EquipoiseError, ModelError, UserError
from equipoise.models.resources import Replies, Spending
from equipoise.players.endpoint import Endpoint
from equipoise.players.faults import fault
from equipoise.players.requests import Answer, Connection, Failure
from equipoise.types import Move, View, record_id

T = TypeVar("T")
WAYS = (
    "json_schema",
    "json_object",
    "none",
)  # to ask for a schema, the strictest first
UNASKABLE = {400, 404, 422, 501}  # what servers answer to a way that they do not know
TEMPLATE = 16  # tokens at most that a chat template puts around a message, for what is reserved of a budget


class MemoryReplies:
    """`Replies` for as long as the process lasts."""

    def __init__(self) -> None:
        self._replies: dict[str, dict[str, Any]] = {}
        self._spent: dict[str, Spending] = {}

    def reply(self, key: str) -> dict[str, Any] | None:
        """The kept answer to the question `key`, or None."""
        return self._replies.get(key)

    def add_reply(
        self, key: str, account: str, reply: dict[str, Any], tokens: int, cost: float
    ) -> None:
        """Keep an answer, with what it cost the account."""
        self._replies[key] = reply
        self._spent[account] = plus(self.spent(account), Spending(1, tokens, cost))

    def spent(self, account: str) -> Spending:
        """What the account has spent."""
        return self._spent.get(account, Spending())


@dataclass(frozen=True, slots=True)
class Question:
    """A view as the server is asked it; `body` lacks only how the schema is asked for."""

    key: str
    body: dict[str, Any]
    schema: dict[str, Any] | None
    reserve: Spending  # at most what the answer will cost


class EndpointActor:
    """An endpoint that is ready to move. It runs its own event loop in the thread that
    calls it.
    """

    def __init__(
        self, player: Endpoint, connection: Connection, replies: Replies
    ) -> None:
        """`replies` is read and written in the calling thread only."""
        self.player = player
        self._connection, self._replies = connection, replies
        self._runner: asyncio.Runner | None = None
        self._ways = WAYS if player.structured == "auto" else (player.structured,)
        self._spent = Spending()

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One answer per view; equal (view, seed) are asked once, and never again once
        they are answered.

        A row that the server refuses is an error move. Raises ModelError for what
        concerns every row (the key, the model, the address, a field that the server
        does not take), and BudgetSpent at the account's limit; what was answered by
        then is kept.
        """
        questions = [
            self._question(view, seed) for view, seed in zip(views, seeds, strict=True)
        ]
        found: dict[str, Move] = {}
        missing: dict[str, Question] = {}
        for question in questions:
            if question.key not in found and question.key not in missing:
                kept = self._replies.reply(question.key)
                if kept is None:
                    missing[question.key] = question
                else:
                    found[question.key] = _move(kept)
        if missing:
            self._spent = self._replies.spent(self._account)
            self._run(self._ask_all(list(missing.values()), found))
        return [found[question.key] for question in questions]

    def close(self) -> None:
        """Close the connections."""
        if self._runner is not None:
            self._run(self._connection.close())
            self._runner.close()
            self._runner = None

    @property
    def _account(self) -> str:
        return self.player.account or self.player.model

    def _question(self, view: View, seed: int) -> Question:
        player = self.player
        body: dict[str, Any] = {
            "model": player.model,
            "messages": [
                {"role": message.role, "content": message.content}
                for message in view.messages
            ],
            player.max_tokens_field: player.max_new_tokens,
            "temperature": player.temperature,
            "top_p": player.top_p,
            "stop": list(player.stop) or None,
            "seed": seed % 2**31
            if player.send_seed
            else None,  # several servers hold a seed in 32 bits
            "logprobs": player.logprobs or None,
        }
        body = {
            field: value for field, value in body.items() if value is not None
        } | player.extra_body
        # The way of asking for a schema is left out: an answer stays kept when the
        # server comes to know a better way.
        whole = json.dumps(
            [player.base_url, body, view.schema, seed],
            sort_keys=True,
            ensure_ascii=False,
        )
        asked = sum(
            len(message.content.encode()) + TEMPLATE for message in view.messages
        )  # a token is a byte at least
        reserve = Spending(
            1, asked + player.max_new_tokens, self._cost(asked, player.max_new_tokens)
        )
        return Question(record_id("reply", whole), body, view.schema, reserve)

    def _cost(self, asked: int, answered: int) -> float:
        prices = self.player.prices
        return (
            0.0
            if prices is None
            else (asked * prices.input + answered * prices.output) / 1e6
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise UserError(
                f"the endpoint {self.player.base_url} cannot be asked from inside a running event loop (an async "
                "function, a notebook's cell); ask from plain code, or from a thread that opens the player itself"
            )
        self._runner = self._runner or asyncio.Runner()
        try:
            return self._runner.run(work)
        except EquipoiseError:
            raise  # nothing is in flight
        except (
            BaseException
        ):  # a user who interrupts, for one: what is in flight must not outlive it
            self._runner.close()
            self._runner = None
            self._connection.renew()
            raise

    async def _ask_all(self, questions: list[Question], found: dict[str, Move]) -> None:
        """Ask them side by side, as many as may be at once and as the budget allows,
        and put the moves in `found`.
        """
        flying: dict[asyncio.Task[Move], Question] = {}
        try:
            await self._ask_in_turn(deque(questions), flying, found)
        finally:  # empty, unless the user or a fault of ours broke in
            for task in flying:
                task.cancel()
            await asyncio.gather(*flying, return_exceptions=True)

    async def _ask_in_turn(
        self,
        waiting: deque[Question],
        flying: dict[asyncio.Task[Move], Question],
        found: dict[str, Move],
    ) -> None:
        fault: EquipoiseError | None = None
        stop = asyncio.Event()
        while flying or (waiting and fault is None):
            while waiting and fault is None and len(flying) < self.player.concurrency:
                if self._reached(list(flying.values())) is not None:
                    break
                question = waiting.popleft()
                flying[asyncio.create_task(self._ask(question, stop))] = question
            if not flying:
                raise self._budget_spent()
            for task in (
                await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
            )[0]:
                question = flying.pop(task)
                try:
                    found[question.key] = task.result()
                except EquipoiseError as error:  # the rest in flight is awaited and kept, but not tried again
                    fault = fault or error
                    stop.set()
        if fault is not None:
            raise fault

    def _reached(self, flying: Sequence[Question]) -> str | None:
        """The limit of the budget that the account has reached, counting what is in
        flight at the most it can cost.
        """
        total = self._spent
        for question in flying:
            total = plus(total, question.reserve)
        for name, limit in self.player.budget:
            if limit is not None and asdict(total)[name] >= limit:
                return name
        return None

    def _budget_spent(self) -> BudgetSpent:
        name, spent = self._reached([]), self._spent
        money = f", {spent.money:g} of money" if self.player.prices else ""
        return BudgetSpent(
            f"account '{self._account}' has reached budget.{name} = {getattr(self.player.budget, str(name))}: "
            f"{spent.calls} calls, {spent.tokens} tokens{money}. What was answered is kept",
            self._account,
            str(name),
        )

    async def _ask(self, question: Question, stop: asyncio.Event) -> Move:
        reply = await self._asked(question, stop)
        if isinstance(reply, Failure):
            wrong = fault(self.player, reply)
            if wrong:
                raise ModelError(f"endpoint {self.player.base_url}: {wrong}")
            said = (
                f"HTTP {reply.status}: {reply.words}" if reply.status else reply.words
            )
            return Move("", "error", error=f"{self.player.model}: {said}")
        asked, answered = reply.prompt_tokens or 0, reply.completion_tokens or 0
        kept = {**asdict(reply), "prompt_tokens": asked, "completion_tokens": answered}
        kept["cost"] = self._cost(asked, answered)
        self._replies.add_reply(
            question.key, self._account, kept, asked + answered, kept["cost"]
        )
        self._spent = plus(self._spent, Spending(1, asked + answered, kept["cost"]))
        if self._counts and (
            reply.prompt_tokens is None or reply.completion_tokens is None
        ):
            raise ModelError(
                f"endpoint {self.player.base_url}: the server does not say how many tokens it used, so prices, "
                "budget.tokens and budget.money cannot be kept; leave them out and use budget.calls"
            )
        return _move(kept)

    @property
    def _counts(self) -> bool:
        player = self.player
        return player.prices is not None or player.budget.tokens is not None

    async def _asked(self, question: Question, stop: asyncio.Event) -> Answer | Failure:
        """Ask, in the strictest way that the server takes where there is a schema; what
        it takes is remembered.
        """
        if question.schema is None:
            return await self._connection.ask(question.body, stop)
        ways = self._ways
        reply: Answer | Failure = Failure("not asked")
        for i, way in enumerate(ways):
            reply = await self._connection.ask(
                question.body | _format(way, question.schema), stop
            )
            if isinstance(reply, Answer):
                # Others may have found out in the meantime; the way that is known to
                # work is never made stricter.
                self._ways = min(self._ways, ways[i:], key=len)
                break
            if reply.status not in UNASKABLE:
                break
        return reply


def plus(a: Spending, b: Spending) -> Spending:
    """Both together."""
    return replace(
        a, calls=a.calls + b.calls, tokens=a.tokens + b.tokens, money=a.money + b.money
    )


def _format(way: str, schema: dict[str, Any]) -> dict[str, Any]:
    if way == "json_schema":
        named = {"name": "answer", "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {} if way == "none" else {"response_format": {"type": "json_object"}}


def _move(kept: dict[str, Any]) -> Move:
    usage = {
        name: kept[name] for name in ("prompt_tokens", "completion_tokens", "cost")
    }
    if kept["finish"] == "content_filter":
        return Move(
            "",
            "error",
            error="the server's content filter withheld the answer",
            **usage,
        )
    finish = "length" if kept["finish"] == "length" else "stop"
    return Move(kept["text"], finish, logprobs=tuple(kept["logprobs"]), **usage)
