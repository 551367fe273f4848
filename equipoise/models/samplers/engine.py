"""An engine in another process: many rows side by side over a pool of servers, kept on through the
restart of a server.

What arrived is never asked again: a row that breaks off is asked alone, at the next server of the
pool, or at the same one until it is back or `patience` is over.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import threading
import time
import weakref
from collections.abc import Coroutine, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from equipoise.errors import ModelError, UserError
from equipoise.models.device import return_unused_memory
from equipoise.models.resources import Resources
from equipoise.models.samplers.adapter import EngineAdapter
from equipoise.models.samplers.answer import SampledAnswer
from equipoise.models.samplers.base import Sampler
from equipoise.models.samplers.engine_server import (
    AdapterGone,
    EngineServer,
    ServerGone,
    ServerRefused,
)
from equipoise.models.samplers.remote import EngineRow, RemoteSampler

if TYPE_CHECKING:
    from equipoise.models.token_choice import SamplingSettings

T = TypeVar("T")
FIRST_PAUSE = 0.25  # seconds, drawn evenly from [0, FIRST_PAUSE · 2ⁿ] after attempt n
LONGEST_PAUSE = 5.0  # seconds
Work = concurrent.futures.Future[list[SampledAnswer]]


def open_engine(sampler: Sampler, resources: Resources) -> Engine | None:
    """The engine of a sampler, shared through `resources`; None: this process samples.

    Nothing is sent before it is asked. Raises ConfigError when a key is not set.
    """
    if not isinstance(sampler, RemoteSampler):
        return None
    key = ("engine", sampler.model_dump_json())
    return resources.get(key, lambda: Engine(sampler))


def sampler_faults(sampler: Sampler) -> Iterator[str]:
    """That a server of a sampler does not answer, or is not the one that it should be."""
    try:
        engine = open_engine(sampler, Resources())
        if engine is not None:
            engine.check()
    except UserError as error:
        yield str(error)


class Engine:
    """Samples rows of token ids. Its requests run in a thread of its own, so it serves scripts and
    notebooks alike.
    """

    def __init__(self, settings: RemoteSampler) -> None:
        """Nothing is sent yet. Raises ConfigError where a key is not set."""
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

    # -- from any thread

    def facts(self) -> dict[str, str]:
        """Engine, version and form of the log-probabilities, for the records.

        Raises ModelError where no server answers.
        """
        if self._facts is None:
            version = self._wait(self._patiently(self._version()))
            self._facts = {
                "engine": self.settings.kind,
                "version": version,
                "logprobs": self.settings.logprobs_are,
            }
        return self._facts

    def check(self) -> None:
        """Raises ModelError where a server does not answer or is unfit."""
        self._wait(self._checked())

    def sample(
        self,
        adapter: EngineAdapter | None,
        rows: Sequence[EngineRow],
        settings: SamplingSettings,
        stop_ids: Sequence[int],
    ) -> list[SampledAnswer]:
        """One answer to each row, in order, by the base model (None) or an adapter on it.

        Raises ModelError for a request that a server refuses, and for servers that are gone for
        longer than `patience`.
        """
        return self.wait(self.begin(adapter, rows, settings, stop_ids))

    def begin(
        self,
        adapter: EngineAdapter | None,
        rows: Sequence[EngineRow],
        settings: SamplingSettings,
        stop_ids: Sequence[int],
    ) -> Work:
        """Send the rows and go on at once, so that several adapters share a batch; `wait` has the
        answers.
        """
        work = self._sampled(adapter, rows, settings, stop_ids)
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: concurrent.futures.Future[T]) -> T:
        """The result of work that has begun; an interrupt ends what is in flight."""
        try:
            return work.result()
        except BaseException:
            work.cancel()
            raise

    def rest(self) -> None:
        """Free the servers' memory where the settings say so, until the next row."""
        if self.settings.sleep:
            self._wait(self._patiently(self._rested()))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.wait(asyncio.run_coroutine_threadsafe(work, self._loop))

    # -- in the engine's thread

    async def _sampled(
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
                model = await self._ready(server, adapter)
                body = self.settings.body(model, row, settings, stop_ids)
                reply = await self._posted(server, body, adapter)
                return self.settings.read(reply, settings, stop_ids)
            except (ServerGone, AdapterGone) as error:
                server.forget()
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > self.settings.patience:
                    raise self._gone(server, error) from error
                await _pause(attempt)
            except ServerRefused as error:
                raise ModelError(f"sampler {server.url}: {error}") from error
            except ValueError as error:
                raise ModelError(
                    f"sampler {server.url}: its answer cannot be read: {error}"
                ) from error
        raise AssertionError("the attempts have no end")

    async def _ready(self, server: EngineServer, adapter: EngineAdapter | None) -> str:
        if server.asleep:
            return_unused_memory()  # the server takes its own on the same accelerator
            await self.settings.wake(server)
            server.asleep = False
        return await server.prepare(adapter)

    async def _posted(
        self, server: EngineServer, body: dict[str, Any], adapter: EngineAdapter | None
    ) -> Any:
        try:
            return await server.post(self.settings.answer_path, body)
        except ServerRefused as error:
            lacking = self.settings.lacks_adapter(error.status, str(error))
            if adapter is not None and lacking:
                raise AdapterGone(str(error)) from error
            raise

    async def _patiently(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except ServerGone as error:
            raise self._gone(self._servers[0], error) from error
        except ServerRefused as error:
            raise ModelError(f"sampler {self._servers[0].url}: {error}") from error

    async def _version(self) -> str:
        return await self.settings.version(self._servers[0])

    async def _checked(self) -> None:
        for server in self._servers:
            try:
                await server.prepare(None)
                fault = await self.settings.why_unfit(server)
            except ServerGone as error:
                raise self._gone(server, error) from error
            except ServerRefused as error:
                raise ModelError(f"sampler {server.url}: {error}") from error
            if fault is not None:
                raise ModelError(f"sampler {server.url}: {fault}")

    async def _rested(self) -> None:
        for server in self._servers:
            if not server.asleep:
                try:
                    await self.settings.rest(server)
                    server.asleep = True
                except ServerGone:
                    server.forget()  # it holds no memory

    def _gone(self, server: EngineServer, error: Exception) -> ModelError:
        return ModelError(
            f"sampler {server.url}: {error}; start it (`equipoise sampler start`), or "
            "name the address where it answers in base_url"
        )


def _places(rows: Sequence[EngineRow], servers: int) -> list[int]:
    """The server of each row: rows with one prompt go to one server, which then reads it once;
    where there are fewer prompts than servers, the rows are dealt out.
    """
    prompts = {tuple(row.prompt): None for row in rows}
    if len(prompts) < servers:
        return [number % servers for number in range(len(rows))]
    numbers = {prompt: number for number, prompt in enumerate(prompts)}
    return [numbers[tuple(row.prompt)] % servers for row in rows]


async def _pause(attempt: int) -> None:
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempt, 10))
    await asyncio.sleep(random.uniform(0, longest))
