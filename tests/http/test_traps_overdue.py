"""A body of known length that takes longer than `compute_timeout`: its readers keep it, and nobody else waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import Policy
from stampede_guard.events import TimedOut
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.http.test_herd import joined
from tests.http.test_traps_streaming import Client, in_parts
from tests.support.gate import until

POLICY = Policy(compute_timeout=0.3)
SECONDS = 60.0


def overdue(fleet: Fleet) -> asyncio.Event:
    """Set when the time of a computation is over."""
    event = asyncio.Event()
    fleet.guards[0].add_hook(lambda told: event.set() if isinstance(told, TimedOut) else None)
    return event


async def whole(client: Client, more: asyncio.Semaphore, parts: int) -> bytes:
    for _ in range(parts):
        more.release()
    async with asyncio.timeout(SECONDS):
        await client.task
    return client.body


async def test_its_client_gets_all_of_it_and_its_waiters_are_told_and_nothing_is_stored() -> None:
    app = App()
    more = in_parts(app, cached(content_length="50"), 5)
    async with Fleet(app, processes=2, policy=POLICY) as fleet:
        client = Client(fleet)
        more.release()
        await until(lambda: len(client.body) == 10)
        async with asyncio.timeout(SECONDS):
            waiters = await asyncio.gather(*fleet.herd(6))
        assert {answer.status for answer in waiters} == {504}
        assert all("detail=timeout" in status_of(answer) for answer in waiters)
        assert app.calls == 1
        assert await whole(client, more, 4) == b"x" * 50
        assert client.messages[-1]["more_body"] is False
        fleet.clock.advance(2)
        for _ in range(5):
            more.release()
        answer = await fleet.get(process=1)
        assert (answer.body, app.calls) == (b"x" * 50, 2)
        assert "hit" not in status_of(answer)


async def test_the_place_is_free_for_the_next_computation_while_it_still_comes() -> None:
    app = App()
    goes_on = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached(content_length="8"))
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        if number == 1:
            await goes_on.wait()
        await send({"type": "http.response.body", "body": b"%04d" % number})

    app.handler = handler
    async with Fleet(app, processes=2, policy=POLICY) as fleet:
        over = overdue(fleet)
        client = Client(fleet)
        async with asyncio.timeout(SECONDS):
            await over.wait()
        fleet.clock.advance(2)
        await until(lambda: not fleet.guards[0].engine.runtime().flights)
        assert (await fleet.get(process=1)).body == b"part0002"
        goes_on.set()
        async with asyncio.timeout(SECONDS):
            await client.task
        assert client.body == b"part0001"
        # The late one did not replace what was stored meanwhile.
        answer = await fleet.get()
        assert (answer.body, app.calls) == (b"part0002", 2)


async def test_those_who_read_along_get_all_of_it_too_also_if_its_own_client_leaves() -> None:
    app = App()
    more = in_parts(app, cached(content_length="50"), 5)
    app.go.clear()
    async with Fleet(app, policy=POLICY) as fleet:
        over = overdue(fleet)
        clients = [Client(fleet) for _ in range(4)]
        await joined(fleet, 4)
        more.release()
        await until(lambda: all(len(client.body) == 10 for client in clients))
        async with asyncio.timeout(SECONDS):
            await over.wait()
        more.release()
        await until(lambda: all(len(client.body) == 20 for client in clients))
        clients[0].task.cancel()
        await asyncio.wait({clients[0].task})
        clients[1].task.cancel()
        await asyncio.wait({clients[1].task})
        assert await whole(clients[2], more, 3) == b"x" * 50
        async with asyncio.timeout(SECONDS):
            await clients[3].task
        assert clients[3].body == b"x" * 50
        assert app.calls == 1


@pytest.mark.parametrize("leaves", ["cancelled", "disconnects"])
async def test_the_application_hears_of_it_when_the_last_reader_has_left(leaves: str) -> None:
    app = App()
    told: list[str] = []

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        try:
            await start(send, cached(content_length="50"))
            await send({"type": "http.response.body", "body": b"x" * 10, "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            told.append("disconnects")
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    app.handler = handler
    async with Fleet(app, policy=POLICY) as fleet:
        over = overdue(fleet)
        clients = [Client(fleet) for _ in range(2)]
        await joined(fleet, 2)
        await until(lambda: all(len(client.body) == 10 for client in clients))
        if leaves == "disconnects":
            clients[0].gone.set()
        async with asyncio.timeout(SECONDS):
            await over.wait()
        await until(lambda: not fleet.guards[0].engine.runtime().flights)
        assert (app.open, told) == (1, [])
        if leaves == "cancelled":
            for client in reversed(clients):
                client.task.cancel()
                await asyncio.wait({client.task})
        else:
            clients[1].task.cancel()
            await asyncio.wait({clients[1].task})
        await until(lambda: app.open == 0)
        assert told == [leaves]
        await asyncio.wait({clients[0].task})


async def test_a_refresh_in_the_background_that_takes_too_long_ends_and_the_stale_answer_stays() -> None:
    app = App(cached() | {"cache-control": "max-age=60, stale-while-revalidate=600, stale-if-error=600"})
    async with Fleet(app, policy=POLICY) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        over = overdue(fleet)
        in_parts(app, cached(content_length="50"), 5)
        assert (await fleet.get()).body == b"answer 1"
        async with asyncio.timeout(SECONDS):
            await over.wait()
        await until(lambda: app.open == 0)
        assert (await fleet.get()).body == b"answer 1"
