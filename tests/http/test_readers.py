"""Those who read an answer while it is made: how many they are, and when they leave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard.http.requests.exchange import BrokenOff
from tests.http.asgi import scope_of
from tests.http.fleet import App, Fleet, cached, start
from tests.http.test_herd import joined
from tests.http.test_traps_streaming import Client
from tests.support.gate import until


async def test_the_client_of_what_becomes_too_large_leaves_and_the_application_hears_of_it() -> None:
    app = App()
    more = asyncio.Event()
    heard = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached())
        await send({"type": "http.response.body", "body": b"small", "more_body": True})
        await more.wait()
        await send({"type": "http.response.body", "body": b"l" * 200, "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        heard.set()

    app.handler = handler
    async with Fleet(app, max_body_bytes=100) as fleet:
        client = Client(fleet)
        await until(lambda: client.body == b"small")
        more.set()
        await until(lambda: len(client.body) == 205)
        client.gone.set()
        async with asyncio.timeout(60):
            await heard.wait()
        async with asyncio.timeout(60):
            await client.task  # that it stopped in mid-body is no error: nobody was there to read the rest


async def test_what_is_stored_is_made_to_its_end_whoever_leaves() -> None:
    app = App()
    more = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached())
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await more.wait()
        await send({"type": "http.response.body", "body": b"more"})

    app.handler = handler
    async with Fleet(app) as fleet:
        client = Client(fleet)
        await until(lambda: client.body == b"half")
        client.gone.set()
        more.set()
        async with asyncio.timeout(60):
            await client.task
        assert (await fleet.get()).body == b"halfmore"
        assert app.calls == 1


async def test_each_of_several_readers_gets_every_part_of_what_breaks_off() -> None:
    """1. One reads fast, and has all there is. 2. It breaks off. 3. A slow one is still at its beginning."""
    app = App()
    middle, slow = asyncio.Event(), asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        await start(send, cached(content_length="8"))
        for part in (b"a", b"b", b"c"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await middle.wait()

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        bodies = [b"", b""]

        async def visit(number: int) -> None:
            async def send(message: Any) -> None:
                bodies[number] += message.get("body", b"")
                if number:
                    await slow.wait()

            async def receive() -> Any:
                await asyncio.Event().wait()

            await fleet.middlewares[0](scope_of("GET", "/", []), receive, send)

        visits = [asyncio.ensure_future(visit(number)) for number in range(2)]
        await joined(fleet, 2)
        app.go.set()
        await until(lambda: bodies[0] == b"abc")
        middle.set()
        await asyncio.wait({visits[0]})
        slow.set()
        async with asyncio.timeout(60):
            broken = await asyncio.gather(*visits, return_exceptions=True)
        assert bodies == [b"abc", b"abc"]
        assert {type(error) for error in broken} == {BrokenOff}


async def test_more_than_was_announced_reaches_none_of_several_readers() -> None:
    app = App()
    middle = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        await start(send, cached(content_length="2"))
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await middle.wait()
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"b" * 10, "more_body": True})

    app.handler = handler
    app.go.clear()
    async with Fleet(app, max_body_bytes=50) as fleet:
        clients = [Client(fleet) for _ in range(3)]
        await joined(fleet, 3)
        app.go.set()
        await until(lambda: all(client.body == b"a" for client in clients))
        middle.set()
        async with asyncio.timeout(60):
            broken = await asyncio.gather(*(client.task for client in clients), return_exceptions=True)
        assert {client.body for client in clients} == {b"a"}
        assert {type(error) for error in broken} == {RuntimeError}
        assert app.calls == 1


@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "not asked for"])
async def test_a_part_is_read_along_by_no_client_that_wants_the_whole(asked: bool) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        if number == 1:
            await start(send, cached(content_range="bytes 0-3/8", content_length="4"), 206)
            await send({"type": "http.response.body", "body": b"half"})
        else:
            await start(send, cached(content_length="8"))
            await send({"type": "http.response.body", "body": b"halfhalf"})

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        part = asyncio.ensure_future(fleet.get(**({"range": "bytes=0-3"} if asked else {})))
        wholes = fleet.herd(3)
        await joined(fleet, 4)
        app.go.set()
        async with asyncio.timeout(60):
            assert (await part).status == 206
            assert {(whole.status, whole.body) for whole in await asyncio.gather(*wholes)} == {
                (200, b"halfhalf")
            }
