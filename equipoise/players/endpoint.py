"""A player behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, a commercial service."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from equipoise.errors import BudgetSpent, EquipoiseError, ModelError, UserError
from equipoise.models.resources import MemoryReplies, Replies, Resources, Spending
from equipoise.players.endpoint_settings import EndpointSettings
from equipoise.players.requests import (
    Connection,
    Failure,
    configuration_fault,
    pause_after,
    set_within,
)
from equipoise.players.server_reply import WITHHELD, ServerReply, Usage, without_surrogates
from equipoise.types import Move, View, record_id

T = TypeVar("T")
# Ways to request a JSON schema, the strictest first.
SCHEMA_FORMATS = ("json_schema", "json_object", "none")
# HTTP statuses by which servers refuse a format that they do not know.
FORMAT_REFUSED = {400, 404, 422, 501}
# Most tokens that a chat template puts around a message; reserved of a budget.
TEMPLATE_TOKENS = 16
NOTHING = Usage(0, 0)


class Endpoint(EndpointSettings):
    """A model behind OpenAI's /chat/completions. It can play and judge, but not learn."""

    def open(self, weights: Path | None, resources: Resources) -> EndpointActor:
        """The actor; nothing is sent yet. Raises ConfigError when the key is not set."""
        replies = resources.replies or resources.get("replies in memory", MemoryReplies)
        return EndpointActor(self, Connection(self), replies)


@dataclass(frozen=True, slots=True)
class Request:
    """A view as it is sent to the server; `body` lacks only the schema's format."""

    key: str
    body: dict[str, Any]
    schema: dict[str, Any] | None
    longest: Usage  # the most tokens that it can take
    reserve: Spending  # the most that the reply can cost
    attempt: int = 0  # replies that were paid for and could not be used


# A request in flight; its move is None where it is to be sent again.
Attempts = dict[asyncio.Task[Move | None], Request]


class EndpointActor:
    """An endpoint that is ready to move. It runs its own event loop in the thread that calls it."""

    def __init__(self, player: EndpointSettings, connection: Connection, replies: Replies) -> None:
        """`replies` is read and written in the calling thread only."""
        self.player = player
        self._connection, self._replies = connection, replies
        self._runner: asyncio.Runner | None = None
        automatic = player.structured == "auto"
        self._formats = SCHEMA_FORMATS if automatic else (player.structured,)
        self._spent = Spending()
        self._counts_tokens = False  # whether the server has given counts so far

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One answer per view; equal (view, seed) are requested once, and never again.

        A row that the server refuses is an error move. Raises ModelError for a failure that
        concerns every row (key, model, address, a refused field), and BudgetSpent at the account's
        limit; replies that arrived by then are kept.
        """
        requests = [self._request(view, seed) for view, seed in zip(views, seeds, strict=True)]
        distinct = {request.key: request for request in requests}
        moves: dict[str, Move] = {}
        for key in distinct:
            reply = self._replies.reply(key)
            if reply is not None:
                moves[key] = _move(reply)
        missing = [request for key, request in distinct.items() if key not in moves]
        if missing:
            self._spent = self._replies.spent(self._account)
            self._run(self._send_all(missing, moves))
        return [moves[request.key] for request in requests]

    def close(self) -> None:
        """Close the connections."""
        if self._runner is not None:
            self._run(self._connection.close())
            self._runner.close()
            self._runner = None

    @property
    def _account(self) -> str:
        return self.player.account or self.player.model

    def _request(self, view: View, seed: int) -> Request:
        player = self.player
        # Several servers hold a seed in 32 bits.
        sent_seed = seed % 2**31 if player.send_seed else None
        body: dict[str, Any] = {
            "model": player.model,
            "messages": [
                {"role": message.role, "content": without_surrogates(message.content)}
                for message in view.messages
            ],
            player.max_tokens_field: player.max_new_tokens,
            "temperature": player.temperature,
            "top_p": player.top_p,
            "stop": list(player.stop) or None,
            "seed": sent_seed,
            "logprobs": player.logprobs or None,
        }
        body = {field: value for field, value in body.items() if value is not None}
        body |= player.extra_body
        # The schema's format is left out: a reply stays kept when the server learns a stricter
        # format.
        identity = json.dumps(
            [player.base_url, body, view.schema, seed], sort_keys=True, ensure_ascii=False
        )
        # A token is at least a byte long.
        prompt_tokens = sum(
            len(message["content"].encode()) + TEMPLATE_TOKENS for message in body["messages"]
        )
        longest = Usage(prompt_tokens, player.max_new_tokens)
        reserve = self._charge(longest)
        return Request(record_id("reply", identity), body, view.schema, longest, reserve)

    def _charge(self, usage: Usage, unstated: Usage = NOTHING) -> Spending:
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        if prompt is None:
            prompt = unstated.prompt_tokens or 0
        if completion is None:
            completion = unstated.completion_tokens or 0
        prices = self.player.prices
        cost = 0.0
        if prices is not None:
            cost = (prompt * prices.input + completion * prices.output) / 1e6
        return Spending(1, prompt + completion, cost)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise UserError(
                f"the endpoint {self.player.base_url} cannot be used inside a running event loop "
                "(an async function, a notebook's cell); call it from plain code, or from a thread "
                "that opens the player itself"
            )
        self._runner = self._runner or asyncio.Runner()
        try:
            return self._runner.run(work)
        except EquipoiseError:
            raise  # nothing is in flight
        except BaseException:
            # Ctrl-C, for instance: requests in flight must not outlive it.
            self._runner.close()
            self._runner = None
            self._connection.renew()
            raise

    async def _send_all(self, requests: list[Request], moves: dict[str, Move]) -> None:
        """Send requests side by side, as `concurrency` and the budget allow; fill `moves`."""
        in_flight: Attempts = {}
        try:
            await self._send_in_turn(deque(requests), in_flight, moves)
        finally:
            # Empty, unless an interrupt or an error of ours cut the loop short.
            for task in in_flight:
                task.cancel()
            await asyncio.gather(*in_flight, return_exceptions=True)

    async def _send_in_turn(
        self, waiting: deque[Request], in_flight: Attempts, moves: dict[str, Move]
    ) -> None:
        first_error: EquipoiseError | None = None
        stop = asyncio.Event()
        while in_flight or (waiting and first_error is None):
            while (
                waiting
                and first_error is None
                and len(in_flight) < self.player.concurrency
                and self._limit_reached(list(in_flight.values())) is None
            ):
                request = waiting.popleft()
                in_flight[asyncio.create_task(self._send(request, stop))] = request
            if not in_flight:
                raise self._budget_spent()
            done, _ = await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                request = in_flight.pop(task)
                try:
                    move = task.result()
                    if move is None:
                        waiting.append(replace(request, attempt=request.attempt + 1))
                    else:
                        moves[request.key] = move
                except EquipoiseError as error:
                    # The others in flight are awaited and kept, but not retried.
                    first_error = first_error or error
                    stop.set()
        if first_error is not None:
            raise first_error

    def _limit_reached(self, in_flight: Sequence[Request]) -> str | None:
        total = self._spent
        for request in in_flight:
            total += request.reserve
        for name, limit in self.player.budget:
            if limit is not None and asdict(total)[name] >= limit:
                return name
        return None

    def _budget_spent(self) -> BudgetSpent:
        name, spent = self._limit_reached([]), self._spent
        limit = getattr(self.player.budget, str(name))
        money = f", {spent.money:g} of money" if self.player.prices else ""
        return BudgetSpent(
            f"account '{self._account}' has reached budget.{name} = {limit}: {spent.calls} calls, "
            f"{spent.tokens} tokens{money}. The replies that arrived are kept",
            self._account,
            str(name),
        )

    async def _send(self, request: Request, stop: asyncio.Event) -> Move | None:
        """The move; None where the request is to be sent again, as the budget allows."""
        pause = pause_after(request.attempt) if request.attempt else 0
        if pause and await set_within(stop, pause):
            return Move("", "error", error=f"{self.player.model}: not sent again")
        outcome = await self._outcome(request, stop)
        if isinstance(outcome, ServerReply):
            reply = self._keep(request, outcome)
            self._check_counts(outcome.usage)
            return _move(reply)
        fault = configuration_fault(self.player, outcome)
        if fault:
            raise ModelError(f"endpoint {self.player.base_url}: {fault}")
        error = f"{self.player.model}: {outcome}"
        if not outcome.usage.stated:
            return Move("", "error", error=error)
        reply = self._keep_unusable(outcome, error)
        tries_left = outcome.transient and request.attempt < self.player.retries
        if tries_left and not stop.is_set():
            return None
        return _failed_move(reply, error)

    def _keep(self, request: Request, completion: ServerReply) -> dict[str, Any]:
        """Record a completion with its cost (uncounted tokens at their most); return it as kept."""
        usage = completion.usage
        charge = self._charge(usage, request.longest if self._pays_for_tokens else NOTHING)
        reply = {"text": completion.text, "finish": completion.finish}
        reply |= {"logprobs": completion.logprobs} | _counts(usage, charge)
        self._pay(request.key, reply, charge)
        return reply

    def _keep_unusable(self, failure: Failure, error: str) -> dict[str, Any]:
        """Record what an unusable reply cost; it answers no request, now or later."""
        charge = self._charge(failure.usage)
        reply = {"error": error} | _counts(failure.usage, charge)
        self._pay(record_id("unusable reply", uuid.uuid4().hex), reply, charge)
        return reply

    def _pay(self, key: str, reply: dict[str, Any], charge: Spending) -> None:
        self._replies.add_reply(key, self._account, reply, charge.tokens, charge.money)
        self._spent += charge

    @property
    def _pays_for_tokens(self) -> bool:
        return self.player.prices is not None or self.player.budget.tokens is not None

    def _check_counts(self, usage: Usage) -> None:
        self._counts_tokens = self._counts_tokens or usage.stated
        if self._pays_for_tokens and not self._counts_tokens:
            raise ModelError(
                f"endpoint {self.player.base_url}: the server does not say how many tokens it "
                "used, so prices, budget.tokens and budget.money cannot be kept; leave them out "
                "and use budget.calls"
            )

    async def _outcome(self, request: Request, stop: asyncio.Event) -> ServerReply | Failure:
        """The server's reply; a schema's format, the strictest that it takes, is remembered."""
        if request.schema is None:
            return await self._connection.send(request.body, stop)
        formats = self._formats
        outcome: ServerReply | Failure = Failure("not sent")
        for i, name in enumerate(formats):
            body = request.body | _response_format(name, request.schema)
            outcome = await self._connection.send(body, stop)
            if isinstance(outcome, ServerReply):
                # A request beside this one may have learned it first; a format that is known to
                # work is never made stricter.
                self._formats = min(self._formats, formats[i:], key=len)
                break
            if outcome.status not in FORMAT_REFUSED:
                break
        return outcome


def _response_format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    if name == "json_schema":
        named = {"name": "answer", "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {} if name == "none" else {"response_format": {"type": "json_object"}}


def _counts(usage: Usage, charge: Spending) -> dict[str, Any]:
    """A reply's cost as it is kept: the server's counts, else 0."""
    return {
        "prompt_tokens": usage.prompt_tokens or 0,
        "completion_tokens": usage.completion_tokens or 0,
        "cost": charge.money,
    }


def _move(reply: dict[str, Any]) -> Move:
    if reply["finish"] == WITHHELD:
        return _failed_move(reply, "the server's content filter withheld the answer")
    finish = "length" if reply["finish"] == "length" else "stop"
    logprobs = tuple(reply["logprobs"])
    return Move(reply["text"], finish, logprobs=logprobs, **_usage(reply))


def _failed_move(reply: dict[str, Any], error: str) -> Move:
    return Move("", "error", error=error, **_usage(reply))


def _usage(reply: dict[str, Any]) -> dict[str, Any]:
    return {name: reply[name] for name in ("prompt_tokens", "completion_tokens", "cost")}
