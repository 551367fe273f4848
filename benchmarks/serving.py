"""`equipoise serve` under load: many clients at once, every reply compared with the reply that is
right for it.

    python -m benchmarks.serving
    python -m benchmarks.serving --clients 64 --seconds 60

The server runs in its own process with the packaged model. Before, the player answers all questions
here, in batches and without a server, each with its own seed: every reply must equal that answer
exactly, so a reply that is mixed up, cut or lacks a character is noticed. Three of four requests
are streamed. All clients are the official client, in a single process: on few cores they take as
much of the machine as the server does.

* dropped: a request without a whole answer (an error, a broken connection); different:
  an answer that is not the player's own to this question with this seed.
* time to first byte: from sending a streamed request to its first character of text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import IO, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.running import write_results
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.types import Move, View, user

TOKEN = "EQUIPOISE_BENCHMARK_TOKEN"


@dataclass
class Tally:
    """The clients' results."""

    answered: int = 0
    tokens: int = 0
    different: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    first: list[float] = field(default_factory=list)  # seconds
    whole: list[float] = field(default_factory=list)  # seconds


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--questions",
        type=int,
        default=20_000,
        help="distinct (sum, seed) pairs; they start over when used up",
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(argv)
    questions = sums(options.questions)
    started = time.perf_counter()
    actor = Local.model_validate({}).open(None, Resources())
    views = [View((user(text),)) for text in questions]
    moves = actor.act(views, range(len(views)))
    alone = time.perf_counter() - started
    with serving() as (url, token, _):
        tally, seconds = asyncio.run(
            load(url, token, questions, moves, options.clients, options.seconds)
        )
    show(
        tally,
        seconds,
        options.clients,
        sum(move.tokens for move in moves) / alone,
        len(moves) / alone,
    )
    if options.json:
        figures = {
            "answered": tally.answered,
            "dropped": len(tally.dropped),
            "different": len(tally.different),
            "first": tally.first,
            "whole": tally.whole,
            "seconds": seconds,
        }
        write_results(options.json, figures, clients=options.clients)
    if tally.dropped or tally.different:
        sys.exit(f"{len(tally.dropped)} dropped, {len(tally.different)} different")


def sums(count: int) -> list[str]:
    """Distinct questions, as far as there are so many; each has its own seed."""
    return [f"What is {n % 99 + 1} + {n // 99 % 99 + 1}?" for n in range(count)]


@contextmanager
def serving(
    log: IO[str] | None = None, target: str = "builtin", *more: str
) -> Iterator[tuple[str, str, int]]:
    """(address, token, process id) of a server in its own process, which writes its log to `log`.

    `more` are further options of `equipoise serve`.
    """
    served = ["serve", target, "--port", "0", "--json", *more]
    command = [sys.executable, "-m", "equipoise", *served]
    environment = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
    )
    assert process.stdout is not None
    text = ""
    try:
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                sys.exit("the server did not start")
            text += line
        facts = json.loads(text)
        yield facts["url"], facts["token"], process.pid
    finally:
        process.terminate()
        code = process.wait(60)
    if code:
        sys.exit(f"the server ended with {code}")


async def load(
    url: str, token: str, questions: list[str], moves: list[Move], clients: int, seconds: float
) -> tuple[Tally, float]:
    """Send requests for so many seconds, so many at once; (results, seconds until the last reply)."""
    import httpx
    from openai import AsyncOpenAI

    tally, order = Tally(), cycle(range(len(questions)))
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    http_client: Any = httpx.AsyncClient(limits=limits)
    async with AsyncOpenAI(
        base_url=url, api_key=token, max_retries=0, timeout=120, http_client=http_client
    ) as client:
        # The client's own imports take a while.
        await ask(client, questions[0], 0, moves[0], Tally(), stream=True)
        started = time.perf_counter()

        async def ask_on() -> None:
            while time.perf_counter() - started < seconds:
                n = next(order)
                await ask(client, questions[n], n, moves[n], tally, stream=n % 4 != 0)

        await asyncio.gather(*(ask_on() for _ in range(clients)))
        return tally, time.perf_counter() - started


async def ask(
    client, question: str, seed: int, expected: Move, tally: Tally, *, stream: bool
) -> None:
    """A request, whose reply is compared with the expected answer."""
    from openai import OpenAIError

    body = {"model": "builtin", "messages": [{"role": "user", "content": question}], "seed": seed}
    started, text, finish, first = time.perf_counter(), "", None, None
    try:
        if stream:
            async for chunk in await client.chat.completions.create(**body, stream=True):
                choice = chunk.choices[0]
                if choice.delta.content:
                    first = first or time.perf_counter() - started
                    text += choice.delta.content
                finish = choice.finish_reason or finish
        else:
            whole = await client.chat.completions.create(**body)
            choice = whole.choices[0]
            text, finish = choice.message.content, choice.finish_reason
    except OpenAIError as error:
        tally.dropped.append(f"{type(error).__name__}: {error} ({error.__cause__!r})")
        return
    if finish is None:
        tally.dropped.append("the answer has no end")
        return
    tally.answered += 1
    tally.tokens += expected.tokens
    tally.whole.append(time.perf_counter() - started)
    if first is not None:
        tally.first.append(first)
    if (text, finish) != (expected.text, expected.finish):
        tally.different.append(
            f"{question} at seed {seed}: {text!r} ({finish}), not {expected.text!r}"
        )


def show(
    tally: Tally, seconds: float, clients: int, tokens_alone: float, answers_alone: float
) -> None:
    """Print the table, and examples of the failures."""
    table = Table(
        title=f"{clients} clients, {seconds:.1f} s", box=None, pad_edge=False, title_justify="left"
    )
    for column in ("", "served", "in batches of 64, no server"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("replies", f"{tally.answered:,}", "")
    table.add_row("dropped", str(len(tally.dropped)), "")
    table.add_row("different", str(len(tally.different)), "")
    table.add_row("replies/s", f"{tally.answered / seconds:,.0f}", f"{answers_alone:,.0f}")
    table.add_row("tokens/s", f"{tally.tokens / seconds:,.0f}", f"{tokens_alone:,.0f}")
    for name, seconds_each in (
        ("time to first byte", tally.first),
        ("time to the whole reply", tally.whole),
    ):
        for part in (50, 95, 99):
            value = "–"
            if seconds_each:
                value = f"{1000 * np.percentile(seconds_each, part):,.0f} ms"
            table.add_row(f"{name}, p{part}", value, "")
    Console().print(table)
    for line in [*tally.dropped[:3], *tally.different[:3]]:
        print(line)


if __name__ == "__main__":
    main()
