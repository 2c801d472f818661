"""Clients that leave harm nobody else, whoever they are and whenever they go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import StampedeGuard, StampedeMiddleware
from tests.http.asgi import request, scope_of
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.http.test_herd import joined
from tests.http.test_traps_fields import GET, listening, raw
from tests.support.gate import until


def halves(app: App, headers: dict[str, str], middle: asyncio.Event) -> None:
    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        await start(send, headers)
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await middle.wait()
        await send({"type": "http.response.body", "body": b"more"})

    app.handler = handler


async def breaking(fleet: Fleet, *, after: int) -> None:
    """A client whose connection breaks, as a server tells: `send` raises, and `receive` says so."""
    sent = 0
    broken = asyncio.Event()

    async def send(message: Any) -> None:
        nonlocal sent
        if sent == after:
            broken.set()
            raise OSError("the connection is gone")
        sent += 1

    async def receive() -> Any:
        await broken.wait()
        return {"type": "http.disconnect"}

    await fleet.middlewares[0](scope_of("GET", "/", []), receive, send)


@pytest.mark.parametrize("after", [0, 1], ids=["before its answer", "in mid-body"])
@pytest.mark.parametrize("place", ["leader", "waiter"])
@pytest.mark.parametrize("length", ["8", ""], ids=["streamed", "waited for"])
async def test_a_connection_that_breaks_is_one_clients_and_the_answer_is_stored(
    place: str, after: int, length: str
) -> None:
    app = App()
    middle = asyncio.Event()
    halves(app, cached(content_length=length) if length else cached(), middle)
    app.go.clear()
    async with Fleet(app) as fleet:
        first = asyncio.ensure_future(breaking(fleet, after=after) if place == "leader" else fleet.get())
        await joined(fleet, 1)
        second = asyncio.ensure_future(breaking(fleet, after=after) if place == "waiter" else fleet.get())
        others = [asyncio.ensure_future(fleet.get()) for _ in range(4)]
        await joined(fleet, 6)
        app.go.set()
        middle.set()
        answers = await asyncio.gather(first, second, *others, return_exceptions=True)
        assert sum(isinstance(answer, OSError) for answer in answers) == 1
        assert [answer.body for answer in answers if not isinstance(answer, BaseException)] == [
            b"halfmore"
        ] * 5
        await fleet.settled()
        assert "hit" in status_of(await fleet.get())
        assert app.calls == 1


@pytest.mark.parametrize("processes", [1, 2])
async def test_all_but_one_leave_and_the_last_is_served(processes: int) -> None:
    app = App()
    app.go.clear()
    async with Fleet(app, processes=processes) as fleet:
        herd = fleet.herd(10)
        await joined(fleet, 10)
        for task in herd[:-1]:
            task.cancel()
        await asyncio.wait(herd[:-1])
        app.go.set()
        async with asyncio.timeout(60):
            assert (await herd[-1]).status == 200
        assert app.calls <= 2


async def test_all_leave_and_the_next_one_is_served() -> None:
    app = App()
    app.go.clear()
    async with Fleet(app) as fleet:
        herd = fleet.herd(5)
        await joined(fleet, 5)
        for task in herd:
            task.cancel()
        await asyncio.wait(herd)
        app.go.set()
        async with asyncio.timeout(60):
            assert (await fleet.get()).status == 200
            await fleet.settled()
        assert "hit" in status_of(await fleet.get())
        assert not fleet.middlewares[0].cache._waiting


@pytest.mark.parametrize("headers", [{"cache-control": "no-store"}, {"content-type": "text/event-stream"}])
async def test_the_client_of_what_is_not_stored_leaves_and_its_application_hears_of_it_and_no_other(
    headers: dict[str, str],
) -> None:
    app = App()
    heard: list[int] = []

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await receive()
        await start(send, headers)
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        heard.append(number)
        await send({"type": "http.response.body", "body": b""})

    app.handler = handler
    async with Fleet(app) as fleet:
        gone = [asyncio.Event() for _ in range(3)]

        def client(number: int) -> asyncio.Future[Any]:
            async def receive() -> Any:
                await gone[number].wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                pass

            return asyncio.ensure_future(fleet.middlewares[0](scope_of("GET", "/", []), receive, send))

        tasks = [client(number) for number in range(3)]
        await until(lambda: app.open == 3)
        gone[1].set()
        async with asyncio.timeout(60):
            await tasks[1]
        assert len(heard) == 1
        assert app.open == 2
        for event in gone:
            event.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks)
        assert sorted(heard) == [1, 2, 3]


async def test_a_request_that_is_cancelled_takes_an_endless_answer_of_its_own_with_it() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, {"cache-control": "no-store"})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await asyncio.Event().wait()

    app.handler = handler
    async with Fleet(app) as fleet:
        tasks = fleet.herd(3)
        await until(lambda: app.open == 3)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await until(lambda: app.open == 0)
        assert not fleet.middlewares[0].cache._tasks


async def test_an_endless_answer_that_was_asked_for_by_one_who_has_left_is_ended_when_that_is_known() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        await start(send, {"cache-control": "no-store"})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await asyncio.Event().wait()

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        leader, waiter = fleet.herd(2)
        await joined(fleet, 2)
        leader.cancel()
        await asyncio.wait({leader})
        app.go.set()
        await until(lambda: app.calls == 2)
        await until(lambda: app.open == 1)
        waiter.cancel()
        await asyncio.wait({waiter})
        await until(lambda: app.open == 0)


async def test_nothing_goes_on_after_the_last_answer() -> None:
    app = App({"cache-control": "no-store"})
    gone = asyncio.Event()
    async with Fleet(app) as fleet:
        for path in ("/", "/other"):
            herd = [request(fleet.middlewares[0], "GET", path, gone=gone) for _ in range(10)]
            await asyncio.gather(*herd)
            await fleet.settled()
            await asyncio.sleep(0)
            assert not gone._waiters, "somebody still waits for a client to leave that has its answer"
            assert not fleet.middlewares[0].cache._tasks
            app.headers = cached()


async def test_a_renewal_in_the_background_goes_on_when_the_request_that_began_it_is_over() -> None:
    app = App({"cache-control": "max-age=10, stale-while-revalidate=60"})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.go.clear()
        task = asyncio.ensure_future(fleet.get())
        await until(lambda: app.calls == 2)
        task.cancel()
        await asyncio.wait({task})
        app.go.set()
        await fleet.settled()
        assert (await fleet.get()).body == b"answer 2"
        assert app.calls == 2


def stopping(app: App) -> None:
    """It ends when its client leaves, also before its first line, as streams of Starlette do."""

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        async def left() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = {asyncio.ensure_future(app.go.wait()), asyncio.ensure_future(left())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if app.go.is_set():
                await start(send, cached())
                await send({"type": "http.response.body", "body": b"answer %d" % number})
        finally:
            for task in tasks:
                task.cancel()

    app.handler = handler
    app.go.clear()


async def test_an_application_that_stops_for_its_client_goes_on_for_those_who_wait_with_it() -> None:
    app = App()
    stopping(app)
    async with Fleet(app) as fleet:
        gone = asyncio.Event()
        leader = asyncio.ensure_future(request(fleet.middlewares[0], "GET", "/", gone=gone))
        await joined(fleet, 1)
        herd = fleet.herd(5)
        await joined(fleet, 6)
        gone.set()
        # Its turn to hear of it.
        for _ in range(20):
            await asyncio.sleep(0)
        app.go.set()
        async with asyncio.timeout(60):
            answers = [await leader, *await asyncio.gather(*herd)]
        assert {answer.body for answer in answers} == {b"answer 1"}
        assert app.calls == 1


async def test_a_hint_that_its_client_does_not_get_any_more_ends_no_call_of_a_herd() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        await send({"type": "http.response.early_hint", "links": []})
        await start(send, cached())
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        leader = asyncio.ensure_future(breaking(fleet, after=0))
        await joined(fleet, 1)
        herd = fleet.herd(5)
        await joined(fleet, 6)
        app.go.set()
        async with asyncio.timeout(60):
            assert {answer.body for answer in await asyncio.gather(*herd)} == {b"answer 1"}
            with pytest.raises(OSError, match="gone"):
                await leader
        assert app.calls == 1


async def test_it_stops_when_those_have_left_too() -> None:
    app = App()
    stopping(app)
    async with Fleet(app) as fleet:
        gone = asyncio.Event()
        leader = asyncio.ensure_future(request(fleet.middlewares[0], "GET", "/", gone=gone))
        await joined(fleet, 1)
        herd = fleet.herd(2)
        await joined(fleet, 3)
        gone.set()
        for task in herd:
            task.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait([*herd, leader])
        assert app.open == 0


async def test_a_renewal_that_a_head_began_ends_though_nobody_reads_its_answer() -> None:
    app = App({"cache-control": "max-age=10, stale-while-revalidate=60", "etag": '"a"'})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        assert "hit" in status_of(await fleet.get(method="HEAD"))
        await until(lambda: app.calls == 2)
        await fleet.settled()
        async with asyncio.timeout(60):
            await until(lambda: app.open == 0)
        assert (await fleet.get()).get("age") == "0"


async def test_a_client_that_hangs_up_on_a_real_server_harms_nobody() -> None:
    app = App()
    middle = asyncio.Event()
    halves(app, cached(content_length="8"), middle)
    guard = StampedeGuard.from_url("memory://")
    async with guard, listening(StampedeMiddleware(app, guard=guard), date_header=False) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        async with asyncio.timeout(60):
            await reader.readuntil(b"half")
        others = [asyncio.ensure_future(raw(port, GET)) for _ in range(5)]
        writer.close()
        await writer.wait_closed()
        middle.set()
        async with asyncio.timeout(60):
            assert {body for _, body in await asyncio.gather(*others)} == {b"halfmore"}
        assert app.calls == 1


async def test_what_a_change_invalidates_is_invalidated_though_its_client_leaves_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some servers cancel the request of a client that has left; what it has changed is changed."""
    app = App()
    async with Fleet(app) as fleet:
        await fleet.get()
        session = fleet.guards[0].engine.runtime().session
        invalidate, sending, answered = session.invalidate, asyncio.Event(), asyncio.Event()

        async def slow(name: str, **options: Any) -> int:
            sending.set()
            await answered.wait()
            return await invalidate(name, **options)

        monkeypatch.setattr(session, "invalidate", slow)
        change = asyncio.ensure_future(fleet.get(method="PUT"))
        await sending.wait()
        change.cancel()
        await asyncio.wait({change})
        answered.set()
        await until(lambda: not fleet.middlewares[0].cache._tasks)
        assert (await fleet.get()).body == b"answer 3"
