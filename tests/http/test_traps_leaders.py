"""Who comes first may ask for what helps nobody else. The herd behind him is one call all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import Policy
from stampede_guard.http.requests.exchange import BrokenOff
from tests.http.asgi import scope_of
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.http.test_herd import joined
from tests.support.gate import until

VALIDATED = cached(etag='"a"')


def answering_to_its_conditions(app: App, status: int, headers: dict[str, str]) -> None:
    """`status` with `headers` to whoever asks with more than a Host; the page to everybody else."""

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        own = any(name != b"host" for name, _ in scope["headers"])
        await start(send, headers if own else cached(), status if own else 200)
        await send(
            {"type": "http.response.body", "body": b"" if status == 304 and own else b"page %d" % number}
        )

    app.handler = handler


async def herd_behind(fleet: Fleet, app: App, first: Any, count: int = 12) -> list[Any]:
    app.called.clear()
    app.go.clear()
    leader = asyncio.ensure_future(first)
    await app.called.wait()
    herd = fleet.herd(count)
    await joined(fleet, count + 1)
    app.go.set()
    async with asyncio.timeout(60):
        return [await leader, *await asyncio.gather(*herd)]


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize(
    ("fields", "status", "headers"),
    [
        ({"if_match": '"x"'}, 412, cached()),
        ({"range": "bytes=9-"}, 416, cached()),
        ({"expect": "x"}, 417, cached()),
        ({"if_none_match": '"a"'}, 304, {"etag": '"a"'}),
        ({"range": "bytes=0-1"}, 206, cached(content_range="bytes */*")),
    ],
)
async def test_an_answer_to_ones_own_conditions_does_not_let_the_herd_through(
    fields: dict[str, str], status: int, headers: dict[str, str], processes: int
) -> None:
    app = App()
    answering_to_its_conditions(app, status, headers)
    async with Fleet(app, processes=processes) as fleet:
        first, *answers = await herd_behind(fleet, app, fleet.get(**fields))
        assert first.status == status
        assert len({answer.body for answer in answers}) == 1
        assert app.calls == 2
        await fleet.settled()
        assert "hit" in status_of(await fleet.get())


@pytest.mark.parametrize("processes", [1, 3])
async def test_a_head_that_finds_a_change_does_not_let_the_herd_through(processes: int) -> None:
    app = App(VALIDATED)
    async with Fleet(app, processes=processes) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        app.headers = cached(etag='"b"')
        first, *answers = await herd_behind(fleet, app, fleet.get(method="HEAD"))
        assert first.get("etag") == '"b"'
        assert len({answer.body for answer in answers}) == 1
        assert app.calls == 3
        await fleet.settled()
        assert "hit" in status_of(await fleet.get())


async def test_where_only_other_processes_wait_behind_such_a_head_one_of_them_asks_next() -> None:
    app = App(VALIDATED)
    async with Fleet(app, processes=3) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        app.headers = cached(etag='"b"')
        app.called.clear()
        app.go.clear()
        head = asyncio.ensure_future(fleet.get(method="HEAD"))
        await app.called.wait()
        herd = [asyncio.ensure_future(fleet.get(process=1 + n % 2)) for n in range(12)]
        await joined(fleet, 13)
        app.go.set()
        async with asyncio.timeout(60):
            assert {answer.body for answer in await asyncio.gather(*herd)} == {b"answer 3"}
        await head
        assert app.calls == 3


@pytest.mark.parametrize("processes", [1, 3])
async def test_what_somebody_known_found_unchanged_does_not_let_the_herd_through(processes: int) -> None:
    app = App(VALIDATED)

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        same = any(name == b"if-none-match" for name, _ in scope["headers"])
        await start(send, VALIDATED, 304 if same else 200)
        await send({"type": "http.response.body", "body": b"" if same else b"page"})

    app.handler = handler
    async with Fleet(app, processes=processes) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        answers = await herd_behind(fleet, app, fleet.get(authorization="me"))
        assert {answer.body for answer in answers} == {b"page"}
        assert app.calls <= 3


async def test_where_only_other_processes_wait_behind_somebody_known_one_asks_next_and_what_is_stored_stays() -> (
    None
):
    app = App(VALIDATED)
    async with Fleet(app, processes=3) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        app.called.clear()
        app.go.clear()
        known = asyncio.ensure_future(fleet.get(authorization="me"))
        await app.called.wait()
        herd = [asyncio.ensure_future(fleet.get(process=1 + n % 2)) for n in range(12)]
        await joined(fleet, 13)
        app.go.set()
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*herd)
        assert (await known).body == b"answer 2"
        assert {answer.body for answer in answers} == {b"answer 3"}
        assert app.calls == 3
        validating = [scope for scope in app.scopes if (b"if-none-match", b'"a"') in scope["headers"]]
        assert len(validating) == 2


async def test_a_collapsed_request_asks_for_nobody_when_what_it_reads_breaks_off() -> None:
    """1. Slow clients read what is being made. 2. It breaks off. 3. They have had their answer."""
    app = App()
    middle = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        await start(send, cached(content_length="8"))
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await middle.wait()

    app.handler = handler
    app.go.clear()
    slow = asyncio.Event()
    async with Fleet(app) as fleet:

        async def visit() -> None:
            async def send(message: Any) -> None:
                if message.get("body"):
                    await slow.wait()

            async def receive() -> Any:
                await asyncio.Event().wait()

            await fleet.middlewares[0](scope_of("GET", "/", []), receive, send)

        visits = [asyncio.ensure_future(visit()) for _ in range(5)]
        await joined(fleet, 5)
        app.go.set()
        await app.called.wait()
        middle.set()
        await fleet.settled()
        slow.set()
        async with asyncio.timeout(60):
            broken = await asyncio.gather(*visits, return_exceptions=True)
        assert {type(error) for error in broken} == {BrokenOff}
        assert app.calls == 1


async def test_somebody_known_who_does_not_wait_longer_takes_nothing_from_the_slow_one_he_waited_for() -> (
    None
):
    app = App()
    slow = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        if number == 1:
            await slow.wait()
        await start(send, cached())
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app.handler = handler
    policy = Policy(wait_timeout=0.3, poll_interval=0.1, fallback_limit=1)
    async with Fleet(app, processes=2, policy=policy) as fleet:
        first = asyncio.ensure_future(fleet.get())
        await app.called.wait()
        async with asyncio.timeout(60):
            assert (await fleet.get(process=1, authorization="me")).body == b"answer 2"
        slow.set()
        assert (await first).body == b"answer 1"
        await fleet.settled()
        assert "hit" in status_of(await fleet.get(process=1))
        assert app.calls == 2


async def test_those_who_were_let_through_are_asked_for_by_nobody_else() -> None:
    """1. The last answer was not to be stored, so nobody waits. 2. Some are known, and what they get is theirs."""
    app = App({"cache-control": "no-store"})
    async with Fleet(app) as fleet:
        for agent in ("one", "another"):
            await fleet.get(user_agent=agent)
        app.headers = cached()
        app.go.clear()
        known = [asyncio.ensure_future(fleet.get(authorization=f"{number}")) for number in range(3)]
        await until(lambda: app.calls == 5)
        others = fleet.herd(3)
        await until(lambda: app.calls == 8)
        app.go.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*known, *others)
        assert app.calls == 8
