"""The same over a real server, and while the store is away."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard import CacheRoute
from stampede_guard.testing import FaultyStore
from tests.http.fleet import App, Fleet, cached, status_of
from tests.http.test_herd import joined
from tests.support.clock import Clock


async def test_a_herd_of_three_processes_on_a_server_costs_one_call_and_a_put_one_more(
    valkey_url: str, namespace: str
) -> None:
    app = App(cached(vary="accept-language", etag='"a"'))
    async with Fleet(app, processes=3, on=valkey_url, namespace=namespace) as fleet:
        for expected in (1, 3):
            app.go.clear()
            herd = fleet.herd(30, accept_language="de")
            await joined(fleet, 30)
            app.go.set()
            answers = await asyncio.gather(*herd)
            assert {answer.body for answer in answers} == {b"answer %d" % expected}
            assert app.calls == expected
            for process in range(3):
                answer = await fleet.get(process=process, accept_language="de", if_none_match='"a"')
                assert answer.status == 304
                assert "hit" in status_of(answer)
                other = await fleet.get(process=process, accept_language="de", range="bytes=0-5")
                assert other.body == b"answer"
            await fleet.get(method="PUT")


async def test_while_the_store_is_away_it_is_one_call_in_each_process_and_what_was_seen_is_served() -> None:
    app, clock = App(), Clock(1_700_000_000.0)
    store = FaultyStore(clock=clock)
    async with Fleet(app, processes=2, on=store) as fleet:
        await fleet.get("/seen")
        store.fail()
        for process in (0, 1):
            while not fleet.guards[process].engine.runtime().away:
                await fleet.get("/something", process=process)
        assert (await fleet.get("/seen")).body == b"answer 1"
        before = app.calls
        app.go.clear()
        herd = fleet.herd(20, "/new")
        await joined(fleet, 20)
        app.go.set()
        assert {answer.status for answer in await asyncio.gather(*herd)} == {200}
        assert app.calls == before + 2


async def test_while_the_store_is_away_nobody_waits_for_what_is_not_shared() -> None:
    app, clock = App({"cache-control": "private"}), Clock(1_700_000_000.0)
    store = FaultyStore(clock=clock)
    async with Fleet(app, on=store) as fleet:
        await fleet.get()
        store.fail()
        answers = await asyncio.gather(*fleet.herd(20))
        assert len({answer.body for answer in answers}) == 20


@pytest.mark.parametrize("fault", ["fail", "refuse", "refuse_writes"])
async def test_no_fault_of_the_store_is_an_error_of_an_answer(fault: str) -> None:
    app = App(cached(etag='"a"'))
    store = FaultyStore(clock=Clock(1_700_000_000.0))
    async with Fleet(app, on=store, routes=[CacheRoute("/r", ttl=9, methods=("GET", "POST"))]) as fleet:
        await fleet.get()
        getattr(store, fault)()
        for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"):
            for path in ("/", "/new", "/r"):
                answer = await fleet.get(path, method=method)
                assert answer.status == 200, (method, path)
        assert (await fleet.get(if_none_match='"a"')).status in (200, 304)
