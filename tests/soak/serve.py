"""`equipoise serve` under fuzzed requests on real sockets, with innocent clients beside.

`--size` is the number of fuzzed requests; `--minutes` stops earlier. Beside them eight clients ask
questions whose answers are known, ten send their headers a byte a second, and the health endpoint
is asked ten times a second from a thread of its own.

What must hold: no traceback in the server's log, no 500, no request without an end, no innocent
request without its own right answer, health within half a second, and memory that does not grow
once the server is warm. On a machine that is busy with other things health is late through no fault
of the server: judged is the shorter of the time that passed and the processor time that the
server's event loop took meanwhile; both are shown.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
from openai import AsyncOpenAI

from benchmarks.serving import Tally, ask, serving, sums
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.types import Move, View, user
from tests.soak._fuzzed_requests import Attack, Fuzzer
from tests.soak._outcome import Outcome

SIZE = 100_000
ATTACKERS, INNOCENT, SLOW = 24, 8, 10
QUESTIONS = 500
PATIENCE = 150  # seconds in which every request must have come to an end
SLOWEST_HEALTH = 0.5  # seconds
GROWTH = 32  # MiB that a warm server may grow by
STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")


@dataclass
class Watch:
    """What was seen of the server meanwhile."""

    sent: Counter[str] = field(default_factory=Counter)  # by kind
    replies: Counter[str] = field(default_factory=Counter)  # by status
    failures: list[str] = field(default_factory=list)
    innocent: Tally = field(default_factory=Tally)
    health: list[float] = field(default_factory=list)  # seconds
    busy: list[float] = field(default_factory=list)  # processor seconds meanwhile
    memory: list[float] = field(default_factory=list)  # MiB
    threads: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    slow_closed: int = 0
    over: bool = False


def soak(size: int, minutes: float | None = None) -> Outcome:
    """Attack with so many requests, for so many minutes at most."""
    questions = sums(QUESTIONS)
    views = [View((user(text),)) for text in questions]
    moves = Local.model_validate({}).open(None, Resources()).act(views, range(QUESTIONS))
    watch = Watch()
    with tempfile.TemporaryFile("w+") as log:
        with serving(log) as (url, token, process):
            beside = threading.Thread(target=_observe, args=(url, process, watch))
            beside.start()
            limit = None if minutes is None else 60 * minutes
            asyncio.run(_attack(url, token, size, limit, questions, moves, watch))
            watch.over = True
            beside.join()
        log.seek(0)
        lines = log.read().splitlines()
    return _outcome(watch, lines)


async def _attack(
    url: str,
    token: str,
    size: int,
    seconds: float | None,
    questions: Sequence[str],
    moves: Sequence[Move],
    watch: Watch,
) -> None:
    address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
    fuzzer, end = Fuzzer(token), time.monotonic() + (seconds or 1e9)

    async def attack_on() -> None:
        while watch.sent.total() < size and time.monotonic() < end:
            attack = fuzzer.next()
            watch.sent[attack.kind] += 1
            await send(address, attack, watch)

    limits = httpx.Limits(max_connections=INNOCENT)
    http_client: Any = httpx.AsyncClient(limits=limits)
    async with AsyncOpenAI(
        base_url=url, api_key=token, max_retries=0, timeout=120, http_client=http_client
    ) as client:
        places = count()

        async def ask_on() -> None:
            while not watch.over:
                n = next(places) % len(questions)
                stream = n % 4 != 0
                await ask(client, questions[n], n, moves[n], watch.innocent, stream=stream)

        innocent = [asyncio.create_task(ask_on()) for _ in range(INNOCENT)]
        slow = [asyncio.create_task(_trickle(address, watch)) for _ in range(SLOW)]
        await asyncio.gather(*(attack_on() for _ in range(ATTACKERS)))
        watch.over = True
        await asyncio.gather(*innocent)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def send(address: tuple[str, int], attack: Attack, watch: Watch) -> None:
    """Send what is to be sent, and read what comes until the connection is closed."""
    reply = b""
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(attack.data)
                if attack.leaves is None:
                    with suppress(ConnectionError):  # it need not read all of it
                        await writer.drain()
                    if attack.kind == "broken HTTP":
                        with suppress(OSError):  # it may have closed the connection already
                            writer.write_eof()
                    reply = await reader.read()
                elif attack.leaves:
                    await reader.read(attack.leaves)
            finally:
                writer.transport.abort()
    except ConnectionError:
        watch.replies["reset"] += 1
        return
    except TimeoutError:
        watch.failures.append(f"{attack.kind}: no end within {PATIENCE} s")
        return
    if attack.leaves is not None:
        return
    statuses = STATUS.findall(reply)
    watch.replies[statuses[0].decode() if statuses else "none"] += 1
    if any(status == b"500" for status in statuses) or b'"server_error"' in reply:
        watch.failures.append(f"{attack.kind}: {attack.data[-300:]!r}: {reply[-300:]!r}")


async def _trickle(address: tuple[str, int], watch: Watch) -> None:
    """Send headers a byte a second, until the server has enough."""
    while True:
        with suppress(ConnectionError):
            reader, writer = await asyncio.open_connection(*address)
            try:
                for byte in b"POST /v1/completions HTTP/1.1\r\n" + b"a: b\r\n" * 99:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1), 1)
                        break
            finally:
                writer.transport.abort()
        watch.slow_closed += 1


def _observe(url: str, process: int, watch: Watch) -> None:
    """Ask for the server's health, and look at what it holds, until all is over."""
    server, address = psutil.Process(process), urlsplit(url)
    while not watch.over:
        started, busy = time.perf_counter(), _loop_seconds(server)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, 60)
        try:
            connection.request("GET", "/health")
            status = connection.getresponse().status
        except OSError as error:
            watch.failures.append(f"health: {error!r}")
        else:
            if status != 200:
                watch.failures.append(f"health: {status}")
        finally:
            connection.close()
        watch.health.append(time.perf_counter() - started)
        watch.busy.append(min(_loop_seconds(server) - busy, watch.health[-1]))
        watch.memory.append(server.memory_info().rss / 2**20)
        watch.threads.append(server.num_threads())
        watch.files.append(server.num_fds())
        time.sleep(0.1)


def _loop_seconds(process: psutil.Process) -> float:
    """Processor seconds of the main thread, which runs the event loop."""
    times = {thread.id: thread for thread in process.threads()}[process.pid]
    return times.user_time + times.system_time


def _outcome(watch: Watch, log: Sequence[str]) -> Outcome:
    tracebacks = sum(line.startswith("Traceback") for line in log)
    innocent = watch.innocent
    wrong = [*innocent.dropped, *innocent.different]
    warm = len(watch.memory) // 4
    early, late = _median(watch.memory[warm : 2 * warm]), _median(watch.memory[-warm:])
    failures = [*watch.failures, *(f"innocent: {text}" for text in wrong)]
    if tracebacks:
        first = next(n for n, line in enumerate(log) if line.startswith("Traceback"))
        failures.append(f"{tracebacks} tracebacks: {_last_lines(log)}")
        failures.append("the first:\n" + "\n".join(log[first : first + 60]))
    if max(watch.busy) > SLOWEST_HEALTH:
        failures.append(f"health took {max(watch.busy):.2f} s of the event loop")
    if late - early > GROWTH:
        failures.append(f"memory grew from {early:.0f} to {late:.0f} MiB once warm")
    if not innocent.answered:
        failures.append("no innocent request was answered")
    ordered = sorted(watch.health)
    rows = [
        ("fuzzed requests", f"{watch.sent.total():,}"),
        *((f"of them {kind}", f"{number:,}") for kind, number in watch.sent.most_common()),
        ("replies by status", _counts(watch.replies)),
        ("failures of the server (500, no end)", len(watch.failures)),
        ("tracebacks in its log", tracebacks),
        ("innocent requests answered", f"{innocent.answered:,}"),
        ("innocent requests failed", len(wrong)),
        ("slow headers cut off", watch.slow_closed),
        ("health, median and longest, s", f"{_median(ordered):.3f}, {ordered[-1]:.3f}"),
        ("health, longest in the event loop's own time, s", f"{max(watch.busy):.3f}"),
        ("memory, second quarter and last, MiB", f"{early:.0f}, {late:.0f}"),
        ("memory, most, MiB", f"{max(watch.memory):.0f}"),
        ("threads, open files at the end", f"{watch.threads[-1]}, {watch.files[-1]}"),
    ]
    return Outcome([{"": name, "value": value} for name, value in rows], failures)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name}: {number:,}" for name, number in sorted(counter.items()))


def _last_lines(log: Sequence[str]) -> str:
    """The last line of each traceback, the most frequent first."""
    raised = Counter(line for line in log if re.match(r"[\w.]*(Error|Exception)\b", line))
    return _counts(Counter(dict(raised.most_common(5))))
