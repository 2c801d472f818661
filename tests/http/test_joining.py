"""Who comes while the application is at it waits for its answer, and need not look into the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.http.fleet import App, Fleet, status_of
from tests.support.gate import until


class Reads:
    """Counts what this process reads from the store."""

    def __init__(self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        session = fleet.guards[0].runtime().session
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
    await until(lambda: sum(flight.joined for flight in fleet.guards[0].runtime().flights.values()) >= count)


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
