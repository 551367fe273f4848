"""Places are given in the order of asking, and given back however a request ends."""

import asyncio

import pytest

from equipoise.serve.asgi_endpoint import Gate
from equipoise.serve.protocol import Problem


def test_places_are_given_in_order_and_given_back():
    async def play() -> list[str]:
        gate, entered, leave = Gate(2, 3), [], asyncio.Event()

        async def ask(name: str, answers: int) -> None:
            async with gate.place(answers):
                entered.append(name)
                await leave.wait()

        first = asyncio.create_task(ask("first", 1))
        await asyncio.sleep(0)
        waiting = [
            asyncio.create_task(ask(name, n))
            for name, n in (("both", 2), ("small", 1), ("gone", 1))
        ]
        await asyncio.sleep(0)
        assert entered == ["first"], "who asks for little does not overtake who asks for much"
        assert (gate.running, gate.waiting) == (1, 3)
        with pytest.raises(Problem, match="too many"):
            await asyncio.wait_for(ask("late", 1), 5)
        waiting[2].cancel()
        await asyncio.sleep(0)
        assert gate.waiting == 2
        leave.set()
        await asyncio.gather(first, *waiting[:2])
        assert (gate.running, gate.waiting) == (0, 0)
        return entered

    assert asyncio.run(play()) == ["first", "both", "small"]


def test_a_request_that_leaves_as_it_is_let_in_gives_its_place_back():
    async def play() -> None:
        gate = Gate(1, 3)

        async def ask() -> None:
            async with gate.place(1):
                await asyncio.sleep(0)

        async with gate.place(1):
            waiting = asyncio.create_task(ask())
            next_one = asyncio.create_task(ask())
            await asyncio.sleep(0)
        waiting.cancel()  # its turn has come, but it has not run since
        await asyncio.wait_for(next_one, 5)
        assert waiting.cancelled()
        assert (gate.running, gate.waiting) == (0, 0)

    asyncio.run(play())


def test_a_request_that_leaves_while_it_waits_stops_nobody():
    """It is called off, and before it knows, a place becomes free."""

    async def play() -> None:
        gate = Gate(1, 3)

        async def ask() -> None:
            async with gate.place(1):
                await asyncio.sleep(0)

        async with gate.place(1):
            waiting = asyncio.create_task(ask())
            next_one = asyncio.create_task(ask())
            await asyncio.sleep(0)
            waiting.cancel()
        await asyncio.wait_for(next_one, 5)
        assert waiting.cancelled()
        assert (gate.running, gate.waiting) == (0, 0)

    asyncio.run(play())
