"""One call of the application per expiry, and nobody harmed by what becomes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import CacheRoute, Policy
from tests.http.asgi import request, scope_of
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.support.gate import until


async def joined(fleet: Fleet, count: int) -> None:
    await until(
        lambda: (
            sum(flight.joined for guard in fleet.guards for flight in guard.engine.runtime().flights.values())
            >= count
        )
    )


@pytest.mark.parametrize("processes", [1, 4])
async def test_a_herd_costs_one_call_and_all_get_its_answer(processes: int) -> None:
    app = App()
    app.go.clear()
    async with Fleet(app, processes=processes) as fleet:
        herd = fleet.herd(40)
        await joined(fleet, 40)
        app.go.set()
        answers = await asyncio.gather(*herd)
        assert app.calls == 1
        assert {answer.body for answer in answers} == {b"answer 1"}
        collapsed = [answer for answer in answers if "collapsed" in status_of(answer)]
        assert len(collapsed) == 39
        assert sum("stored" in status_of(answer) for answer in answers) == 1
        assert "hit" in status_of(await fleet.get())
        assert app.calls == 1


async def test_a_herd_at_an_expiry_costs_one_call() -> None:
    app = App()
    async with Fleet(app, processes=3) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        app.go.clear()
        herd = fleet.herd(30)
        await joined(fleet, 30)
        app.go.set()
        assert {answer.body for answer in await asyncio.gather(*herd)} == {b"answer 2"}
        assert app.calls == 2


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize(
    "headers",
    [
        {"cache-control": "private, max-age=60"},
        {"cache-control": "no-store"},
        {"cache-control": "max-age=0"},
        {"cache-control": "no-cache", "etag": '"a"'},
        {"last-modified": "Wed, 01 Jan 2020 00:00:00 GMT", "set-cookie": "a=b"},
        {"vary": "*", "cache-control": "max-age=60"},
        {},
    ],
    ids=lambda headers: " ".join(headers.values()) or "nothing",
)
async def test_an_answer_that_may_not_be_shared_is_its_callers_only_and_makes_nobody_wait_in_line(
    headers: dict[str, str], processes: int
) -> None:
    app = App(headers)
    app.go.clear()
    async with Fleet(app, processes=processes) as fleet:
        herd = fleet.herd(20)
        await joined(fleet, 20)
        await app.called.wait()
        assert app.calls == 1
        app.go.set()
        answers = await asyncio.gather(*herd)
        assert len({answer.body for answer in answers}) == 20
        assert app.calls == 20


async def test_waiters_of_an_answer_that_is_not_storable_run_beside_each_other() -> None:
    app = App()
    everybody = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        if number > 1:
            if app.open == 19:
                everybody.set()
            await everybody.wait()
        await start(send, {"cache-control": "no-store"})
        await send({"type": "http.response.body", "body": b"mine"})

    app.handler = handler
    app.go.clear()
    async with Fleet(app, processes=2) as fleet:
        herd = fleet.herd(20)
        await joined(fleet, 20)
        app.go.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*herd)
        assert app.most_open == 19


@pytest.mark.parametrize("status", [404, 500, 503])
async def test_an_error_without_explicit_freshness_is_never_served_to_the_others(status: int) -> None:
    app = App({}, status=status)
    app.go.clear()
    async with Fleet(app) as fleet:
        herd = fleet.herd(5)
        await joined(fleet, 5)
        app.go.set()
        answers = await asyncio.gather(*herd)
        assert len({answer.body for answer in answers}) == 5


async def test_an_exception_reaches_only_the_request_that_ran_into_it() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        if number == 1:
            raise LookupError("no such thing")
        await start(send, cached())
        await send({"type": "http.response.body", "body": b"fine"})

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        herd = fleet.herd(5)
        await joined(fleet, 5)
        app.go.set()
        answers = await asyncio.gather(*herd, return_exceptions=True)
        assert sum(isinstance(answer, LookupError) for answer in answers) == 1
        assert sum(getattr(answer, "body", None) == b"fine" for answer in answers) == 4


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("begun", [False, True])
async def test_one_broken_call_lets_one_more_request_call_and_not_all(processes: int, begun: bool) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        if number == 1 and not begun:
            raise LookupError("no answer")
        await start(send, cached())
        if number == 1:
            raise LookupError("no end")
        await send({"type": "http.response.body", "body": b"fine"})

    app.handler = handler
    app.go.clear()
    async with Fleet(app, processes=processes) as fleet:
        herd = fleet.herd(20)
        await joined(fleet, 20)
        app.go.set()
        answers = await asyncio.gather(*herd, return_exceptions=True)
        assert sum(isinstance(answer, BaseException) for answer in answers) == 1
        assert sum(getattr(answer, "body", None) == b"fine" for answer in answers) == 19
        assert app.calls == 2


async def test_a_second_broken_call_in_a_row_lets_all_call() -> None:
    app = App()

    together = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        if app.open == 18:
            together.set()
        if number > 2:
            await together.wait()
        raise LookupError(f"no answer {number}")

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        herd = fleet.herd(20)
        await joined(fleet, 20)
        app.go.set()
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*herd, return_exceptions=True)
        assert len({str(answer) for answer in answers}) == 20, "each has the error of its own call"


async def test_the_leader_leaves_and_the_others_are_served_by_its_call() -> None:
    app = App()
    app.go.clear()
    async with Fleet(app) as fleet:
        herd = fleet.herd(10)
        await joined(fleet, 10)
        herd[0].cancel()
        await asyncio.wait({herd[0]})
        app.go.set()
        answers = await asyncio.gather(*herd[1:])
        assert {answer.body for answer in answers} == {b"answer 1"}
        assert app.calls == 1


async def test_the_leader_leaves_in_mid_body_and_what_comes_is_stored() -> None:
    app = App()
    half = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached(content_length="8"))
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        half.set()
        await app.go.wait()
        await send({"type": "http.response.body", "body": b"more"})

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        herd = fleet.herd(5)
        await half.wait()
        herd[0].cancel()
        await asyncio.wait({herd[0]})
        app.go.set()
        answers = await asyncio.gather(*herd[1:])
        assert {answer.body for answer in answers} == {b"halfmore"}
        assert app.calls == 1


async def test_an_entry_is_there_before_the_last_byte_of_the_first_answer_is_sent() -> None:
    for length in ({}, {"content_length": "8"}):
        app = App()

        async def handler(scope: Any, receive: Any, send: Any, number: int, length: Any = length) -> None:
            await start(send, cached(**length))
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            await send({"type": "http.response.body", "body": b"more", "more_body": bool(length)})
            if length:
                await send({"type": "http.response.body", "body": b""})

        app.handler = handler
        async with Fleet(app) as fleet:
            seen: list[bytes] = []
            found: list[str] = []

            async def send(
                message: Any, fleet: Fleet = fleet, seen: list[bytes] = seen, found: list[str] = found
            ) -> None:
                if message["type"] == "http.response.body":
                    seen.append(message["body"])
                    if b"".join(seen) == b"halfmore" and not found:
                        found.append(status_of(await fleet.get()))

            async def receive() -> Any:
                await asyncio.Event().wait()

            await fleet.middlewares[0](scope_of("GET", "/", []), receive, send)
            assert found
            assert "hit" in found[0]
            assert app.calls == 1


async def test_who_came_before_the_call_reads_its_answer_while_it_is_written() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached(content_length="8"))
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await app.go.wait()
        await send({"type": "http.response.body", "body": b"more"})

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        halves = 0
        all_half = asyncio.Event()
        done: list[bytes] = []

        async def visit() -> None:
            body = b""

            async def send(message: Any) -> None:
                nonlocal halves, body
                body += message.get("body", b"")
                if body == b"half" and message["type"] == "http.response.body":
                    halves += 1
                    if halves == 5:
                        all_half.set()

            async def receive() -> Any:
                await asyncio.Event().wait()

            await fleet.middlewares[0](scope_of("GET", "/", []), receive, send)
            done.append(body)

        visits = [asyncio.ensure_future(visit()) for _ in range(5)]
        async with asyncio.timeout(60):
            await all_half.wait()
        app.go.set()
        await asyncio.gather(*visits)
        assert done == [b"halfmore"] * 5
        assert app.calls == 1


async def test_a_large_body_passes_through_at_its_clients_pace_and_is_not_stored() -> None:
    app = App()
    sent = 0

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        nonlocal sent
        await start(send, cached())
        for _ in range(200):
            await send({"type": "http.response.body", "body": b"x" * 100, "more_body": True})
            sent += 1
        await send({"type": "http.response.body", "body": b""})

    app.handler = handler
    async with Fleet(app, max_body_bytes=1000) as fleet:
        got, ahead = 0, 0

        async def send(message: Any) -> None:
            nonlocal got, ahead
            if message["type"] == "http.response.body" and message["body"]:
                await asyncio.sleep(0)
                got += 1
                ahead = max(ahead, sent - got)

        async def receive() -> Any:
            await asyncio.Event().wait()

        await fleet.middlewares[0](scope_of("GET", "/", []), receive, send)
        assert got == 200
        assert ahead < 60
        await fleet.settled()
        assert "hit" not in status_of(await fleet.get())


@pytest.mark.parametrize("routes", [[], [CacheRoute("/*", ttl=60)]], ids=["plain", "routed"])
@pytest.mark.parametrize("kind", ["text/event-stream", "Text/Event-Stream; charset=utf-8"])
async def test_an_endless_answer_releases_its_waiters_and_ends_when_its_client_leaves(
    routes: list[CacheRoute], kind: str
) -> None:
    app = App()
    ended = 0

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        nonlocal ended
        await receive()
        await start(send, {"content-type": kind})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        ended += 1
        await send({"type": "http.response.body", "body": b""})

    app.handler = handler
    async with Fleet(app, routes=routes) as fleet:
        gone = asyncio.Event()
        herd = [
            asyncio.ensure_future(request(fleet.middlewares[0], "GET", "/events", gone=gone))
            for _ in range(5)
        ]
        await until(lambda: app.calls == 5)
        gone.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*herd)
        assert ended == 5


async def test_stale_while_revalidate_is_one_call_in_the_background() -> None:
    app = App({"cache-control": "max-age=10, stale-while-revalidate=50"})
    async with Fleet(app, processes=3) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.go.clear()
        answers = await asyncio.gather(*fleet.herd(30))
        assert {answer.body for answer in answers} == {b"answer 1"}
        assert all("hit; ttl=-10" in status_of(answer) for answer in answers)
        await until(lambda: app.calls == 2)
        app.go.set()
        await fleet.settled()
        assert (await fleet.get()).body == b"answer 2"
        assert app.calls == 2


@pytest.mark.parametrize("how", ["raises", "503", "breaks off"])
async def test_stale_if_error_serves_what_is_stored_and_asks_a_failing_application_once_a_second(
    how: str,
) -> None:
    app = App({"cache-control": "max-age=10, stale-if-error=100"})

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        if how == "breaks off":
            await breaking_off(scope, receive, send, number)
            return
        if how == "raises":
            raise LookupError("no such thing")
        await start(send, {}, 503 if how == "503" else 200)
        if how == "503":
            await send({"type": "http.response.body", "body": b"sorry"})

    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        if how == "breaks off":
            app.headers = cached()
        app.handler = handler
        app.go.clear()
        herd = fleet.herd(10)
        await joined(fleet, 10)
        app.go.set()
        answers = await asyncio.gather(*herd, return_exceptions=True)
        whole = [answer for answer in answers if getattr(answer, "body", None) == b"answer 1"]
        # Who has been sent half of an answer cannot be sent another.
        assert len(whole) == (9 if how == "breaks off" else 10)
        assert app.calls == 2
        assert (await fleet.get()).body == b"answer 1"
        assert app.calls == 2
        fleet.clock.advance(200)
        with pytest.raises((LookupError, RuntimeError, AssertionError)):
            answer = await fleet.get()
            assert answer.status == 200


async def breaking_off(scope: Any, receive: Any, send: Any, number: int) -> None:
    await asyncio.sleep(0)
    await start(send, cached())
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def test_a_put_in_between_keeps_an_older_answer_out_of_the_store() -> None:
    app = App()
    app.go.clear()
    async with Fleet(app, processes=2) as fleet:
        early = fleet.herd(2)
        await joined(fleet, 2)
        put = asyncio.ensure_future(fleet.get(method="PUT"))
        await until(lambda: app.calls == 2)
        app.go.set()
        await asyncio.gather(*early, put)
        await fleet.settled()
        after = await fleet.get()
        assert after.body not in {b"answer 1", b"answer 2"}


async def test_waiting_too_long_is_answered_with_503_and_when_to_come_back() -> None:
    app = App()
    app.go.clear()
    policy = Policy(wait_timeout=0.4, poll_interval=0.1, fallback_limit=0)
    async with Fleet(app, policy=policy) as fleet:
        leader = asyncio.ensure_future(fleet.get())
        await app.called.wait()
        answer = await fleet.get()
        assert answer.status == 503
        assert answer.get("retry-after") == "1"
        app.go.set()
        assert (await leader).body == b"answer 1"
