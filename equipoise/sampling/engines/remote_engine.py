"""An engine in another process: many rows over a pool of servers, kept on through a restart.

A row that breaks off is asked again alone, at the pool's next server, or at the same one until it
is back or `patience` is over.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from equipoise.errors import ModelError, UserError
from equipoise.models.device import return_unused_memory
from equipoise.models.resources import Resources
from equipoise.sampling.arrival_check import Scores, check_arrival
from equipoise.sampling.engines.base import (
    ADAPTER_PREFIX,
    EngineAdapter,
    EngineRow,
    RemoteSampler,
    SampledAnswer,
    Sampler,
    ServerGone,
    ServerRefused,
    player_of,
)
from equipoise.system.addresses import is_loopback
from equipoise.system.http_bounds import (
    brief_message,
    is_transient,
    json_or_text,
    pause_after,
    retry_after,
    server_message,
)

if TYPE_CHECKING:
    from equipoise.models.token_choice import SamplingSettings

T = TypeVar("T")
TOO_LONG = 413  # the HTTP status for what is too large
FAULT = 500  # the HTTP status of an engine that failed on what it was asked; it is not asked again
PROBE_TEMPERATURE = 0.7  # at 1, raw log-probabilities are the right ones
PROBE_TOKENS = 32  # of a probe's answer, at most
BASE = "the base model"  # the weights without an adapter
ROUNDING = 0.02  # nats a token: a smaller gap is rounding, whatever else it is near to

PendingAnswers = concurrent.futures.Future[list[SampledAnswer]]

Retrace = Callable[[list[list[int]], list[list[int]], float], list[list[float]]]
"""(prompts, answers, temperature) -> log-probabilities of the model here, by token."""


def open_engine(sampler: Sampler, resources: Resources) -> Engine | None:
    """The sampler's shared engine, not yet asked; None: this process. ConfigError without key."""
    if not isinstance(sampler, RemoteSampler):
        return None
    key = ("engine", sampler.model_dump_json())
    return resources.get(key, lambda: Engine(sampler))


def sampler_faults(sampler: Sampler) -> Iterator[str]:
    """A message where a sampler's server does not answer, or is not the one that it should be."""
    try:
        engine = open_engine(sampler, Resources())
        if engine is not None:
            engine.check()
    except UserError as error:
        yield str(error)


class Engine:
    """Samples rows of token ids; its requests run in a thread of its own."""

    def __init__(self, settings: RemoteSampler) -> None:
        """Raises ConfigError where a key is not set; nothing is sent yet."""
        settings.key()
        self.settings = settings
        self._loop = asyncio.new_event_loop()
        self._servers = [EngineServer(settings, url) for url in settings.base_url]
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="equipoise-engine", daemon=True
        )
        self._thread.start()
        # The thread knows the loop alone, and ends with the engine's last user.
        weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
        self._facts: dict[str, str] | None = None
        self.probes: EngineProbes | None = None
        """The probes of all players' weights; None: nothing was sampled yet."""
        self.arrivals: dict[str, dict[str, Any]] = {}
        """By the name of weights, the facts of how they arrived."""

    # -- from any thread

    def facts(self) -> dict[str, str]:
        """Engine, version and form of log-probabilities. Raises ModelError if no server answers."""
        if self._facts is None:
            server = self._servers[0]
            version = self._run(_with_errors(server, self.settings.version(server)))
            self._facts = {
                "engine": self.settings.kind,
                "version": version,
                "logprobs": self.settings.logprobs_are,
            }
        return self._facts

    def check(self) -> None:
        """Raises ModelError where a server does not answer or is unfit."""
        for server in self._servers:
            self._run(_with_errors(server, self._check(server)))

    def sample(
        self,
        adapter: EngineAdapter | None,
        rows: Sequence[EngineRow],
        settings: SamplingSettings,
        stop_ids: Sequence[int],
    ) -> list[SampledAnswer]:
        """One answer a row, in order, by the base (None) or an adapter. Raises ModelError."""
        return self.wait(self.submit(adapter, rows, settings, stop_ids))

    def submit(
        self,
        adapter: EngineAdapter | None,
        rows: Sequence[EngineRow],
        settings: SamplingSettings,
        stop_ids: Sequence[int],
    ) -> PendingAnswers:
        """Send the rows and return at once, so that adapters share a batch; then `wait`."""
        work = self._sample(adapter, rows, settings, stop_ids)
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: concurrent.futures.Future[T]) -> T:
        """The result of submitted work; an interrupt ends what is in flight."""
        try:
            return work.result()
        except BaseException:
            work.cancel()
            raise

    def score(self, adapter: EngineAdapter | None, probes: EngineProbes) -> np.ndarray:
        """log p of the probes' answers by the first server, by token at temperature 1, in nats."""
        server = self._servers[0]
        return self._run(_with_errors(server, server.score(adapter, probes)))

    def sleep(self) -> None:
        """Free the servers' memory where the settings say so, until the next row."""
        if self.settings.sleep:
            for server in self._servers:
                self._run(_with_errors(server, self._put_to_sleep(server)))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.wait(asyncio.run_coroutine_threadsafe(work, self._loop))

    # -- in the engine's thread

    async def _sample(
        self,
        adapter: EngineAdapter | None,
        rows: Sequence[EngineRow],
        settings: SamplingSettings,
        stop_ids: Sequence[int],
    ) -> list[SampledAnswer]:
        gate = asyncio.Semaphore(self.settings.concurrency * len(self._servers))

        async def answer(row: EngineRow, place: int) -> SampledAnswer:
            async with gate:
                return await self._answer(adapter, row, place, settings, stop_ids)

        places = _places(rows, len(self._servers))
        tasks = [
            asyncio.create_task(answer(row, place)) for row, place in zip(rows, places, strict=True)
        ]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(
        self,
        adapter: EngineAdapter | None,
        row: EngineRow,
        place: int,
        settings: SamplingSettings,
        stop_ids: Sequence[int],
    ) -> SampledAnswer:
        """The answer to a row, by the server at `place`, or by the next that is there."""
        failing_since: float | None = None
        for attempt in count():
            server = self._servers[(place + attempt) % len(self._servers)]
            try:
                model = await server.prepare(adapter)
                await self._prove(server, adapter)
                body = self.settings.body(model, row, settings, stop_ids)
                reply = await server.ask(body, adapter)
                return self.settings.read(reply, settings, stop_ids)
            except ServerGone as error:
                server.forget()
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > self.settings.patience:
                    raise _gone(server, error) from error
                await asyncio.sleep(max(error.wait, pause_after(attempt + 1)))
            except ServerRefused as error:
                raise ModelError(f"sampler {server.url}: {error}") from error
            except ModelError:
                raise  # other weights answer
            except (ValueError, LookupError, TypeError) as error:
                raise ModelError(
                    f"sampler {server.url}: its answer cannot be read: {error!r}"
                ) from error
        raise AssertionError("the attempts have no end")

    async def _prove(self, server: EngineServer, adapter: EngineAdapter | None) -> None:
        """Have a server prove that an adapter is the one that was sent, once while it is up.

        Raises ModelError where others than these weights answer.
        """
        probes = self.probes
        if adapter is None or probes is None or adapter.name not in probes.sent:
            return
        async with server.proving:
            if adapter.name in server.proved:
                return
            if BASE not in server.received:
                server.received[BASE] = await server.score(None, probes)
            received_A = await server.score(adapter, probes)
            known: dict[str, Scores] = {}
            for name, before_A in server.received.items():
                if name != adapter.name:
                    shown = name if player_of(name) in known else player_of(name)
                    known[shown] = Scores(probes.sent[name], before_A)
            new = Scores(probes.sent[adapter.name], received_A)
            try:
                hand_over, untold = check_arrival(
                    player_of(adapter.name), new, known, self.settings.max_gap, exact=probes.exact
                )
            except ModelError as error:
                raise ModelError(f"sampler {server.url}: {error}") from error
            server.proved.add(adapter.name)
            server.keep_scores(adapter.name, received_A)
            facts = hand_over.facts()
            if untold:
                facts["not_told_from"] = untold
            self.arrivals[adapter.name] = facts

    async def _check(self, server: EngineServer) -> None:
        await server.prepare(None)
        fault = await self.settings.fault(server)
        if fault is not None:
            raise ModelError(f"sampler {server.url}: {fault}")

    async def _put_to_sleep(self, server: EngineServer) -> None:
        if not server.asleep:
            try:
                await self.settings.put_to_sleep(server)
                server.asleep = True
            except ServerGone:
                server.forget()  # it holds no memory


def _places(rows: Sequence[EngineRow], servers: int) -> list[int]:
    """The server of each row: one prompt's go to one server, unless prompts are fewer."""
    prompts = {tuple(row.prompt): None for row in rows}
    if len(prompts) < servers:
        return [number % servers for number in range(len(rows))]
    numbers = {prompt: number for number, prompt in enumerate(prompts)}
    return [numbers[tuple(row.prompt)] % servers for row in rows]


async def _with_errors(server: EngineServer, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except ServerGone as error:
        raise _gone(server, error) from error
    except ServerRefused as error:
        raise ModelError(f"sampler {server.url}: {error}") from error


def _gone(server: EngineServer, error: Exception) -> ModelError:
    return ModelError(
        f"sampler {server.url}: {error}; start it (`equipoise sampler MODEL`), or name the "
        "address where it answers in base_url"
    )


# -- one server


class EngineServer:
    """A server and its adapters, seen from the event loop. Raises ServerGone and ServerRefused."""

    def __init__(self, settings: RemoteSampler, url: str) -> None:
        from equipoise.system.http_client import BoundedClient

        self.settings = settings
        self.url = url
        self._adapters: OrderedDict[str, None] | None = None  # by last use; None: not known
        self._base = ""
        self._lock = asyncio.Lock()
        self.proving = asyncio.Lock()
        self.proved: set[str] = set()
        """The names of adapters that have proved to be those that were sent, since it is up."""
        self.received: dict[str, np.ndarray] = {}
        """By the name of weights, what it gave the probes; the base first, then the oldest."""
        self.asleep = False
        self._key = settings.key()
        self._client = BoundedClient(
            url,
            key=self._key,
            timeout=settings.timeout,
            connections=settings.concurrency + 1,
            # An engine on this machine is asked directly, whatever way leads to services.
            through_proxy=not is_loopback(urlsplit(url).hostname or ""),
        )

    async def get(self, path: str) -> Any:
        """The server's JSON at a path."""
        return await self._request("GET", path)

    async def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The server's reply to `body`, as JSON or text."""
        return await self._request("POST", path, body)

    async def ask(self, body: dict[str, Any], adapter: EngineAdapter | None) -> Any:
        """The reply to an answer's request; ServerGone where the adapter is known no more."""
        try:
            return await self.post(self.settings.answer_path, body)
        except ServerRefused as error:
            if adapter is not None and self.settings.lacks_adapter(error.status, str(error)):
                raise ServerGone(str(error)) from error
            raise

    async def score(self, adapter: EngineAdapter | None, probes: EngineProbes) -> np.ndarray:
        """log p of the probes' answers, by token at temperature 1, in nats, with an adapter."""
        model = await self.prepare(adapter)
        scores: list[float] = []
        for prompt, answer in zip(probes.prompts, probes.answers, strict=True):
            body = self.settings.score_body(model, prompt, answer)
            reply = await self.ask(body, adapter)
            scores += self.settings.read_scores(reply, answer)
        return np.array(scores)

    async def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        import httpx2

        from equipoise.system.http_client import ReplyTooLongError

        try:
            reply = await self._client.request(method, path, json=body)
        except httpx2.TimeoutException as error:
            raise ServerGone(f"no answer within {self.settings.timeout:g} s") from error
        except ReplyTooLongError as error:
            raise ServerRefused(str(error), TOO_LONG) from error
        except httpx2.RequestError as error:
            message = brief_message(str(error), self._key)
            raise ServerGone(message or "broken connection") from error
        status = reply.status_code
        if not reply.is_success:
            message = f"HTTP {status}: {server_message(reply.text, self._key)}"
            if is_transient(status) and status != FAULT:
                raise ServerGone(message, retry_after(reply.headers) or 0.0)
            raise ServerRefused(message, status)
        return json_or_text(reply.text)

    async def prepare(self, adapter: EngineAdapter | None) -> str:
        """Wake the server, load the adapter (None: the base); its name for the weights."""
        async with self._lock:
            if self.asleep:
                return_unused_memory()  # the server takes its own on the same accelerator
                await self.settings.wake(self)
                self.asleep = False
            if self._adapters is None:
                if self.settings.sleep:  # a run before this one may have let it sleep
                    await self.settings.wake(self)
                served = await self.settings.models(self)
                self._base = served.base
                ours = [name for name in served.adapters if name.startswith(ADAPTER_PREFIX)]
                self._adapters = OrderedDict.fromkeys(ours)
            if adapter is None:
                return self._base
            if adapter.name not in self._adapters:
                await self._make_room(self._adapters)
                await self.settings.load(self, adapter)
                self._adapters[adapter.name] = None
            self._adapters.move_to_end(adapter.name)
            return adapter.name

    async def _make_room(self, adapters: OrderedDict[str, None]) -> None:
        while len(adapters) >= self.settings.adapters:
            oldest = next(iter(adapters))
            try:
                await self.settings.unload(self, oldest)
            except ServerRefused as error:
                if not self.settings.lacks_adapter(error.status, str(error)):
                    raise
            del adapters[oldest]

    def forget(self) -> None:
        """Ask the server anew what it holds: it may have been restarted."""
        self._adapters = None
        self.asleep = False
        # Its scores stay: what it plays from now on is held against them.
        self.proved.clear()

    def keep_scores(self, name: str, received_A: np.ndarray) -> None:
        """Keep what it gave the probes with an adapter; the oldest make room, the base never."""
        self.received.pop(name, None)
        self.received[name] = received_A
        adapters = [name for name in self.received if name != BASE]
        for oldest in adapters[: -self.settings.adapters]:
            del self.received[oldest]


# -- the weights that arrive


@dataclass(frozen=True)
class EngineProbes:
    """Answers on which all weights of an engine are compared, by token ids.

    `sent` holds what the model here gives their tokens, for each weights by name, BASE among them;
    `exact`: by products of float32.
    """

    prompts: list[list[int]]
    answers: list[list[int]]
    sent: dict[str, np.ndarray]
    exact: bool = False


class ProbedEngine:
    """An engine as one player's actor asks it, compared with the model here when weights change.

    First a few answers of the base are sampled at temperature 0.7, and the model here gives them
    log-probabilities at 0.7 and at 1. Nearer to the latter, the engine gives raw ones; near to
    neither, it holds another model. These answers are the probes on which each server then proves
    that new weights arrived (`sampling.arrival_check`). What is sampled with them is compared, too.
    """

    def __init__(
        self, engine: Engine, weights: Callable[[], EngineAdapter | None], stop_ids: Sequence[int]
    ) -> None:
        """`weights` gives those that play now: an adapter, or None for the base."""
        self.engine = engine
        self._weights = weights
        self._stop_ids = stop_ids
        self._gaps: dict[str, float] = {}  # weights -> the mean gap that their probe gave
        self._last = BASE

    def submit(
        self,
        rows: Sequence[EngineRow],
        settings: SamplingSettings,
        retrace: Retrace,
        retrace_base: Retrace,
        exact: bool = False,
    ) -> PendingAnswers:
        """Send the rows for `wait`. Raises ModelError where other weights answer.

        `retrace` asks the model here with the weights that play now, `retrace_base` without any;
        `exact`: by products of float32.
        """
        adapter = self._weights()
        self._last = BASE if adapter is None else adapter.name
        if rows and self._last not in self._gaps and self.engine.settings.probes:
            if self.engine.probes is None:
                gap, self.engine.probes = self._first_probes(rows, retrace_base, exact)
                self._gaps[BASE] = gap
            if adapter is not None:
                self._send_scores(adapter, self.engine.probes, retrace)
            if self._last not in self._gaps:
                probes, answers = self._sample_probes(adapter, rows)
                self._gaps[self._last] = self._check_logprobs(probes, answers, retrace)
        return self.engine.submit(adapter, rows, settings, self._stop_ids)

    def facts(self) -> dict[str, Any]:
        """The engine's facts, the gap of the weights that played last, and how they arrived."""
        facts: dict[str, Any] = dict(self.engine.facts())
        if self._last in self._gaps:
            facts["probe_gap"] = self._gaps[self._last]
        return facts | self.engine.arrivals.get(self._last, {})

    def _first_probes(
        self, rows: Sequence[EngineRow], retrace_base: Retrace, exact: bool
    ) -> tuple[float, EngineProbes]:
        """The gap between the base there and here, and its answers as probes of all weights."""
        probes, answers = self._sample_probes(None, rows)
        gap = self._check_logprobs(probes, answers, retrace_base)
        prompts = [probe.prompt for probe in probes]
        ids = [answer.token_ids for answer in answers]
        base = flat(retrace_base(prompts, ids, 1.0))
        return gap, EngineProbes(prompts, ids, {BASE: base}, exact)

    def _send_scores(self, adapter: EngineAdapter, probes: EngineProbes, retrace: Retrace) -> None:
        """Score the probes here with new weights, for the servers to be compared with."""
        if self.engine.settings.scores and adapter.name not in probes.sent:
            scores = retrace(probes.prompts, probes.answers, 1.0)
            probes.sent[adapter.name] = flat(scores)

    def _sample_probes(
        self, adapter: EngineAdapter | None, rows: Sequence[EngineRow]
    ) -> tuple[list[EngineRow], list[SampledAnswer]]:
        """A few rows, and what the engine answers with these weights."""
        from equipoise.models.token_choice import SamplingSettings

        distinct = list({tuple(row.prompt): row for row in rows}.values())
        probes: list[EngineRow] = []
        for number in range(self.engine.settings.probes):
            row = distinct[number % len(distinct)]
            # a server that scores an answer samples a token behind it
            limit = max(1, min(PROBE_TOKENS, row.limit - 1))
            probes.append(EngineRow(row.prompt, number, limit))
        settings = SamplingSettings(PROBE_TEMPERATURE)
        return probes, self.engine.sample(adapter, probes, settings, self._stop_ids)

    def _check_logprobs(
        self, probes: Sequence[EngineRow], answers: Sequence[SampledAnswer], retrace: Retrace
    ) -> float:
        """The mean gap, in nats a token, to the model here. Raises ModelError."""
        sampler = self.engine.settings
        prompts = [probe.prompt for probe in probes]
        ids = [answer.token_ids for answer in answers]
        theirs = flat([answer.logprobs for answer in answers])
        gap = mean_gap(theirs, flat(retrace(prompts, ids, PROBE_TEMPERATURE)))
        raw_gap = mean_gap(theirs, flat(retrace(prompts, ids, 1.0)))
        where = f"sampler {sampler.where}"
        if gap > ROUNDING and raw_gap < gap / 2:
            raise ModelError(
                f"{where}: its log-probabilities are raw ones, from before temperature and cuts "
                f"(at temperature {PROBE_TEMPERATURE} they are {gap:.2g} nats a token off, and "
                f"{raw_gap:.2g} as raw ones). Start vLLM with --logprobs-mode "
                "processed_logprobs (`equipoise sampler` does)"
            )
        if not gap <= sampler.max_gap:
            raise ModelError(
                f"{where}: it and the model here differ by {gap:.2g} nats a token on "
                f"{self._last}, more than sampler.max_gap = {sampler.max_gap:g}: it serves "
                "another model, or in a much shorter precision"
            )
        return gap


def flat(rows: Sequence[Sequence[float]]) -> np.ndarray:
    """The numbers of all rows, one after another."""
    return np.array([value for row in rows for value in row])


def mean_gap(first: np.ndarray, second: np.ndarray) -> float:
    """The mean distance of two lists of log-probabilities."""
    assert len(first) == len(second), "log-probabilities of the same tokens"
    return float(np.abs(first - second).mean())
