"""Who comes while the application is at it waits for its answer, and need not look into the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import Policy
from stampede_guard.errors import StoreUnavailable
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.support.gate import until


class Reads:
    """Counts what this process reads from the store."""

    def __init__(self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        session = fleet.guards[0].engine.runtime().session
        read = session.read

        def counted(name: str) -> Any:
            self.count += 1
            return read(name)

        monkeypatch.setattr(session, "read", counted)


async def at_it(fleet: Fleet, app: App) -> Any:
    """The leader's request, when the application has been called for it."""
    app.go.clear()
    app.called.clear()
    leader = fleet.herd(1)
    await app.called.wait()
    return leader


async def joined(fleet: Fleet, count: int) -> None:
    await until(
        lambda: sum(flight.joined for flight in fleet.guards[0].engine.runtime().flights.values()) >= count
    )


async def test_they_join_its_flight_without_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    async with Fleet(app) as fleet:
        leader = await at_it(fleet, app)
        reads = Reads(fleet, monkeypatch)
        herd = fleet.herd(10)
        await joined(fleet, 11)
        assert reads.count == 0
        app.go.set()
        answers = await asyncio.gather(*leader, *herd)
        assert {answer.body for answer in answers} == {b"answer 1"}
        assert all("fwd=uri-miss; collapsed" in status_of(answer) for answer in answers[1:])


async def test_so_at_an_expiry_and_they_say_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        leader = await at_it(fleet, app)
        reads = Reads(fleet, monkeypatch)
        herd = fleet.herd(10)
        await joined(fleet, 11)
        assert reads.count == 0
        app.go.set()
        answers = await asyncio.gather(*leader, *herd)
        assert {answer.body for answer in answers} == {b"answer 2"}
        assert all("fwd=stale; collapsed" in status_of(answer) for answer in answers[1:])


async def test_what_is_being_replaced_is_looked_up_by_those_who_could_use_it() -> None:
    """One client wants it anew; the others are served what is fresh."""
    app = App()
    async with Fleet(app) as fleet:
        await fleet.get()
        app.go.clear()
        app.called.clear()
        anew = asyncio.ensure_future(fleet.get(cache_control="no-cache"))
        await app.called.wait()
        assert "hit" in status_of(await fleet.get())
        app.go.set()
        assert (await anew).body == b"answer 2"


async def test_a_failing_application_has_them_served_what_is_stale() -> None:
    app = App({"cache-control": "max-age=60, stale-if-error=600"})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        app.status = 500
        leader = await at_it(fleet, app)
        herd = fleet.herd(10)
        await joined(fleet, 11)
        app.go.set()
        answers = await asyncio.gather(*leader, *herd)
        assert {(answer.status, answer.body) for answer in answers} == {(200, b"answer 1")}
        assert app.calls == 2


@pytest.mark.parametrize("limit", ["wait_timeout", "max_passengers", "compute_timeout"])
async def test_who_joined_and_waits_in_vain_is_served_what_is_stale_like_who_looked(limit: str) -> None:
    limits: dict[str, Any] = {
        "wait_timeout": {"wait_timeout": 0.3, "poll_interval": 0.1, "fallback_limit": 0},
        "max_passengers": {"max_passengers": 1},
        "compute_timeout": {"compute_timeout": 0.3},
    }
    app = App({"cache-control": "max-age=60, stale-if-error=600"})
    async with Fleet(app, policy=Policy(**limits[limit])) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        leader = await at_it(fleet, app)
        async with asyncio.timeout(60):
            answer = await fleet.get()
        app.go.set()
        await asyncio.gather(*leader)
        assert (answer.status, answer.body) == (200, b"answer 1")
        assert "timeout" in status_of(answer)


async def test_the_age_of_what_is_found_after_a_read_that_failed_counts_from_when_it_was_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App()
    async with Fleet(app, processes=2) as fleet:
        await fleet.get()
        fleet.clock.advance(30)
        session = fleet.guards[1].engine.runtime().session

        async def failing(name: str) -> Any:
            raise StoreUnavailable("no answer")

        monkeypatch.setattr(session, "read", failing)
        answer = await fleet.get(process=1)
        assert answer.body == b"answer 1"
        assert answer.get("age") == "30"


async def test_who_waits_in_vain_for_the_whole_is_not_served_a_part() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        if any(name == b"range" for name, _ in scope["headers"]):
            await start(send, cached(content_range="bytes 0-1/9"), 206)
            await send({"type": "http.response.body", "body": b"pa"})
        else:
            await asyncio.Event().wait()

    app.handler = handler
    async with Fleet(app, policy=Policy(compute_timeout=0.3)) as fleet:
        assert (await fleet.get(range="bytes=0-1")).status == 206
        async with asyncio.timeout(60):
            assert (await fleet.get()).status == 504


@pytest.mark.parametrize(("window", "served"), [(600, True), (20, False)])
async def test_what_is_served_in_place_of_an_error_has_grown_older_while_it_was_waited_for(
    window: int, served: bool
) -> None:
    app = App({"cache-control": f"max-age=60, stale-if-error={window}"})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        (leader,) = await at_it(fleet, app)
        fleet.clock.advance(30)
        app.status = 500
        app.go.set()
        answer = await leader
        assert answer.status == (200 if served else 500)
        assert answer.get("age") == ("91" if served else None)
