"""A player behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, a commercial service."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from equipoise.errors import BudgetSpent, EquipoiseError, ModelError, UserError
from equipoise.models.progress import report_progress
from equipoise.models.resources import MemoryReplies, Replies, Resources, Spending
from equipoise.models.thought_marks import SWITCHES
from equipoise.players.endpoint_settings import TEMPLATE_VARIABLES, EndpointSettings
from equipoise.players.requests import Connection, Failure, configuration_fault
from equipoise.players.sent_messages import chat_fields
from equipoise.players.server_reply import UNSTATED, WITHHELD, ServerReply, Usage
from equipoise.types import Move, View, record_id


class Account:
    """An account under one player's budget: requests are charged before they are sent.

    A request is charged at the most that it can cost, on disk where `replies` are, and at what it
    did cost once that is known. So neither a kill nor a server that never answers makes a limit of
    calls be passed.
    """

    def __init__(self, player: EndpointSettings, replies: Replies) -> None:
        """`replies` is read and written in the calling thread only."""
        self.name = player.account or player.model
        self._player = player
        self._replies = replies
        self.renew()

    def renew(self) -> None:
        """Read what was spent so far; nothing is in flight, and the event loop may be another."""
        limited = any(limit is not None for _, limit in self._player.budget)
        self._spent = self._replies.spent(self.name) if limited else Spending()
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
        prices = self._player.prices
        spent = self._spent.text("" if prices is None else prices.currency)
        return BudgetSpent(
            f"account '{self.name}' has reached budget.{name} = {limit}: {spent}. "
            "The replies that arrived are kept",
            self.name,
            name,
        )


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
        began_at = resources.first_addresses.get(self.address, self.base_url)
        return EndpointActor(self, Connection(self), replies, began_at)

    def fault_of_servers(self) -> str:
        """The reason why its servers cannot be used now; "" where they answer.

        Each is asked for its list of models, once; nothing is sampled. A server that has no such
        list, or is busy, is none the less there. Raises ConfigError when the key is not set.
        """
        for url, listed in zip((self.base_url, *self.replicas), self.listed_models(), strict=False):
            if isinstance(listed, Failure) and (listed.unreachable or listed.status in (401, 403)):
                return f"{url}: {configuration_fault(self, listed)}"
        return ""

    def listed_models(self) -> list[list[str] | Failure]:
        """The names of the models that each of its servers lists, or why it gives none.

        Inside a running event loop, where nobody can wait for them, of no server.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._ask_for_models())
        return []

    async def _ask_for_models(self) -> list[list[str] | Failure]:
        connection = Connection(self)
        try:
            places = range(1 + len(self.replicas))
            return list(await asyncio.gather(*map(connection.models, places)))
        finally:
            await connection.close()


@dataclass(frozen=True, slots=True)
class Request:
    """A view as it is sent to the server; `body` lacks only the schema's format."""

    key: str
    body: dict[str, Any]
    schema: dict[str, Any] | None
    longest: Usage  # the most tokens that it can take


# Requests under way, by the task that sends them.
Tasks = dict[asyncio.Task[Move], Request]


class EndpointActor:
    """An endpoint that is ready to move. It runs its own event loop in the thread that calls it."""

    def __init__(
        self, player: EndpointSettings, connection: Connection, replies: Replies, began_at: str = ""
    ) -> None:
        """`replies` is read and written in the calling thread only.

        `began_at`: the address that the run began with ("": the player's own). It tells players of
        one model's name apart, and a reply stays kept when the server moves.
        """
        self.player = player
        self._connection = connection
        self._replies = replies
        self._account = Account(player, replies)
        self._began_at = began_at or player.base_url
        self._runner: asyncio.Runner | None = None
        automatic = player.structured == "auto"
        self._formats = SCHEMA_FORMATS if automatic else (player.structured,)
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
            self._account.renew()
            self._run(self._send_all(missing, moves))
        return [moves[request.key] for request in requests]

    def close(self) -> None:
        """Close the connections."""
        if self._runner is not None:
            self._run(self._connection.close())
            self._runner.close()
            self._runner = None

    def _request(self, view: View, seed: int) -> Request:
        player = self.player
        # Several servers hold a seed in 32 bits.
        sent_seed = seed % 2**31 if player.send_seed else None
        body: dict[str, Any] = {
            "model": player.model,
            **chat_fields(view.messages),
            player.max_tokens_field: player.max_new_tokens,
            "temperature": player.temperature,
            "top_p": player.top_p,
            "stop": list(player.stop) or None,
            "seed": sent_seed,
            "logprobs": player.logprobs or None,
        }
        body = {field: value for field, value in body.items() if value is not None}
        body |= player.extra_body
        if player.enable_thinking is not None:
            variables = dict.fromkeys(SWITCHES, player.enable_thinking)
            body[TEMPLATE_VARIABLES] = variables | body.get(TEMPLATE_VARIABLES, {})
        # The schema's format is left out: a reply stays kept when the server learns a stricter
        # format.
        identity = json.dumps(
            [self._began_at, body, view.schema, seed], sort_keys=True, ensure_ascii=False
        )
        # A token is at least a byte long; templates may write out a schema, tools and documents.
        prompt_tokens = sum(
            len((message["content"] or "").encode()) + TEMPLATE_TOKENS
            for message in body["messages"]
        )
        further = "".join(message.further for message in view.messages)
        for other in (view.schema, player.extra_body, further):
            prompt_tokens += len(json.dumps(other)) if other else 0
        longest = Usage(prompt_tokens, player.max_new_tokens)
        return Request(record_id("reply", identity), body, view.schema, longest)

    def _charge(self, usage: Usage, unstated: Usage = NOTHING) -> Spending:
        prompt = usage.prompt_tokens
        completion = usage.completion_tokens
        if prompt is None:
            prompt = unstated.prompt_tokens or 0
        if completion is None:
            completion = unstated.completion_tokens or 0
        return Spending(1, prompt + completion, self.player.cost(prompt, completion))

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
        tasks: Tasks = {}
        try:
            await self._send_in_turn(deque(requests), tasks, moves)
        finally:
            # Empty, unless an interrupt or an error of ours cut the loop short.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_in_turn(
        self, waiting: deque[Request], tasks: Tasks, moves: dict[str, Move]
    ) -> None:
        first_error: EquipoiseError | None = None
        stop = asyncio.Event()
        while tasks or (waiting and first_error is None):
            while waiting and first_error is None and len(tasks) < self.player.concurrency:
                request = waiting.popleft()
                tasks[asyncio.create_task(self._send(request, stop))] = request
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                request = tasks.pop(task)
                try:
                    moves[request.key] = task.result()
                    report_progress(1)
                except EquipoiseError as error:
                    # The others in flight are awaited and kept, but not retried.
                    first_error = first_error or error
                    stop.set()
        if first_error is not None:
            raise first_error

    async def _send(self, request: Request, stop: asyncio.Event) -> Move:
        """The move, after as many attempts as it takes; each is charged for itself.

        Equal chats go to one server of a pool, each attempt to the next. A format of a schema that
        is refused gives way to a laxer one, and what the server takes is remembered.
        """
        places = count(crc32(json.dumps(request.body["messages"]).encode()))
        formats = deque(self._formats if request.schema else ("none",))

        async def attempt() -> tuple[ServerReply, Spending] | Failure:
            while True:
                body = request.body | response_format(formats[0], request.schema)
                outcome = await self._pay_for(request, body, next(places), stop)
                failed = isinstance(outcome, Failure)
                if not failed or outcome.status not in FORMAT_REFUSED or len(formats) == 1:
                    return outcome
                formats.popleft()

        outcome = await self._connection.retry(attempt, stop)
        if isinstance(outcome, Failure):
            fault = configuration_fault(self.player, outcome)
            if fault:
                raise ModelError(f"endpoint {self.player.base_url}: {fault}")
            error = f"{self.player.model}: {outcome}"
            if not outcome.usage.stated:
                return Move("", "error", error=error)
            return failed_move(_counts(outcome.usage, self._charge(outcome.usage)), error)
        if request.schema:
            # A request beside this one may have learned it first; a format that is known to work
            # is never made stricter.
            self._formats = min(self._formats, tuple(formats), key=len)
        reply, charge = outcome
        self._counts_tokens = self._counts_tokens or reply.usage.stated
        if self._pays_for_tokens and not self._counts_tokens:
            raise ModelError(
                f"endpoint {self.player.base_url}: the server does not say how many tokens it "
                "used, so prices, budget.tokens and budget.money cannot be kept; leave them out "
                "and use budget.calls"
            )
        return _move(as_kept(reply, charge))

    async def _pay_for(
        self, request: Request, body: dict[str, Any], place: int, stop: asyncio.Event
    ) -> tuple[ServerReply, Spending] | Failure:
        """The outcome of one request to the server, charged before and after it."""
        most = self._charge(request.longest)
        name = await self._account.reserve(most, stop)
        if name is None:
            return Failure("not sent, since the run stopped")
        outcome = await self._connection.send(body, place)
        if isinstance(outcome, ServerReply):
            charge = self._charge(
                outcome.usage, request.longest if self._pays_for_tokens else NOTHING
            )
            self._account.settle(name, charge, as_kept(outcome, charge), request.key)
            return outcome, charge
        if outcome.unreachable:
            charge = Spending()
        elif outcome.refused:
            charge = Spending(1).without_answer()
        elif outcome.usage == UNSTATED:
            charge = most.without_answer()
        else:
            charge = self._charge(outcome.usage, request.longest)
        self._account.settle(name, charge, {"error": str(outcome)})
        return outcome

    @property
    def _pays_for_tokens(self) -> bool:
        return self.player.prices is not None or self.player.budget.tokens is not None


def response_format(name: str, schema: dict[str, Any] | None) -> dict[str, Any]:
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


def as_kept(reply: ServerReply, charge: Spending) -> dict[str, Any]:
    kept = {"text": reply.text, "finish": reply.finish, "logprobs": reply.logprobs}
    if reply.thoughts:
        kept["thoughts"] = reply.thoughts
    return kept | _counts(reply.usage, charge)


def _move(reply: dict[str, Any]) -> Move:
    if reply["finish"] == WITHHELD:
        return failed_move(reply, "the server's content filter withheld the answer")
    finish = "length" if reply["finish"] == "length" else "stop"
    return Move(
        reply["text"],
        finish,
        logprobs=tuple(reply["logprobs"]),
        thoughts=reply.get("thoughts", ""),
        **_usage(reply),
    )


def failed_move(reply: dict[str, Any], error: str) -> Move:
    return Move("", "error", error=error, **_usage(reply))


def _usage(reply: dict[str, Any]) -> dict[str, Any]:
    return {name: reply[name] for name in ("prompt_tokens", "completion_tokens", "cost")}
