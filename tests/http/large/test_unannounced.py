"""Large bodies without Content-Length: stored in pieces while they come, and served to others when complete."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard import Policy
from stampede_guard.http.large import bodies
from stampede_guard.http.pieces.piece import PIECE_BYTES, PieceGone
from stampede_guard.http.pieces.spool import Spool
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FaultyStore
from tests.http.asgi import scope_of
from tests.http.fleet import Fleet, status_of
from tests.http.large.bodies import LargeApp, clients, has_bytes, is_broken, let_go
from tests.http.large.content import LARGE, OPTIONS, is_whole, whole
from tests.http.large.test_forgotten import pieces
from tests.http.test_herd import joined
from tests.http.test_traps_streaming import Client
from tests.support.clock import Clock
from tests.support.gate import until


def fleet_of(app: LargeApp, **more: Any) -> Fleet:
    """Its bodies have as much time as a loaded machine needs."""
    return Fleet(app, **{"processes": 2, "stream_timeout": 60.0, **OPTIONS, **more})


@pytest.fixture
def spools(monkeypatch: pytest.MonkeyPatch) -> list[Spool]:
    """Those that were begun."""
    found: list[Spool] = []

    def begun(*given: Any, **more: Any) -> Spool:
        found.append(Spool(*given, **more))
        return found[-1]

    monkeypatch.setattr(bodies, "Spool", begun)
    return found


@pytest.mark.parametrize("server", [False, True], ids=["memory", "server"])
async def test_a_herd_over_two_processes_costs_one_call_and_hits_have_a_length(
    server: bool, valkey_url: str, namespace: str
) -> None:
    app = LargeApp(announced=False, etag='"a"')
    on = valkey_url if server else None
    async with fleet_of(app, on=on, namespace=namespace) as fleet:
        answers = await asyncio.gather(*fleet.herd(6))
        assert all(is_whole(answer.body) for answer in answers) and app.calls == 1
        for process in (0, 1):
            answer = await fleet.get(process=process)
            assert is_whole(answer.body) and "; hit" in status_of(answer)
            assert answer.get("content-length") == str(LARGE)
        first, last = PIECE_BYTES - 5, 2 * PIECE_BYTES + 5
        part = await fleet.get(range=f"bytes={first}-{last}")
        assert part.body == whole()[first : last + 1]
        assert part.get("content-range") == f"bytes {first}-{last}/{LARGE}"
        assert app.calls == 1


async def test_its_own_client_reads_every_part_before_the_next_one_is_made() -> None:
    app = LargeApp(announced=False)
    app.more = asyncio.Semaphore(0)
    async with fleet_of(app) as fleet:
        own = Client(fleet)
        for count in (PIECE_BYTES, 2 * PIECE_BYTES, 3 * PIECE_BYTES):
            app.more.release()
            await has_bytes(own, count)
            assert len(own.body) == count
        app.more.release()
        await own.task
        assert is_whole(own.body) and "; hit" in status_of(await fleet.get(process=1))


async def test_a_slow_client_holds_back_nobody_and_reads_on_from_the_store() -> None:
    app = LargeApp(announced=False)
    async with fleet_of(app) as fleet:
        slow = Client(fleet, tickets=2)
        await has_bytes(slow, PIECE_BYTES)
        assert is_whole((await fleet.get(process=1)).body)
        let_go(slow.ticket)
        await slow.task
        assert is_whole(slow.body) and app.calls == 1


async def test_one_chunk_that_is_larger_than_the_memory_bound_is_stored() -> None:
    app = LargeApp(announced=False)

    async def at_once(scope: Any, receive: Any, send: Any, number: int) -> None:
        headers = [(name.encode(), value.encode()) for name, value in app.headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": whole(number)})

    app.handler = at_once
    async with fleet_of(app) as fleet:
        own = Client(fleet)
        await own.task
        assert is_whole(own.body)
        assert [message["more_body"] for message in own.messages[1:]].index(False) == len(own.messages) - 2
        assert is_whole((await fleet.get()).body) and app.calls == 1


async def test_a_client_that_leaves_ends_nothing_for_the_others() -> None:
    app = LargeApp(announced=False)
    app.more = asyncio.Semaphore(2)
    async with fleet_of(app, processes=1) as fleet:
        own = Client(fleet)
        await has_bytes(own, 2 * PIECE_BYTES)
        other = Client(fleet)
        await joined(fleet, 2)
        own.gone.set()
        own.task.cancel()
        let_go(app.more)
        await other.task
        assert is_whole(other.body) and app.calls == 1


async def test_a_body_larger_than_the_bound_passes_through_and_leaves_no_pieces(spools: list[Spool]) -> None:
    app, store = LargeApp(announced=False, size=LARGE + PIECE_BYTES), MemoryStore()
    async with fleet_of(app, on=store, processes=1) as fleet:
        answers = await asyncio.gather(*fleet.herd(4))
        assert sorted(answer.body[:9] for answer in answers) == [b"%08d|" % n for n in (1, 2, 3, 4)]
        assert {len(answer.body) for answer in answers} == {app.size}
        await until(lambda: not pieces(store))
        # It is remembered: the next ones write nothing in vain.
        for _ in range(2):
            assert len((await fleet.get()).body) == app.size
        assert len(spools) == 1


async def test_a_body_that_does_not_end_in_time_goes_on_for_its_own_client_alone(spools: list[Spool]) -> None:
    app, store = LargeApp(announced=False), MemoryStore()
    app.more = asyncio.Semaphore(2)
    async with fleet_of(app, on=store) as fleet:
        own = Client(fleet)
        await has_bytes(own, 2 * PIECE_BYTES)
        await until(lambda: len(pieces(store)) == 2)
        other = Client(fleet, process=1)
        spools[0].cut_off("stream")
        await until(lambda: app.calls == 2)
        app.more.release()
        await has_bytes(own, 3 * PIECE_BYTES)
        let_go(app.more)
        await asyncio.gather(own.task, other.task)
        assert is_whole(own.body) and is_whole(other.body, 2)
        await until(lambda: len(pieces(store)) in (0, 4))


async def test_its_client_keeps_its_response_if_compute_timeout_is_shorter_than_stream_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float] = []

    async def spool(
        self: Any, key: str, exchange: Any, draft: Any, *, within: float, has_client: bool
    ) -> str:
        given.append(within)
        return "stream"

    monkeypatch.setattr(bodies.LargeBodies, "spool", spool)
    async with fleet_of(LargeApp(announced=False), processes=1, stream_timeout=3600.0) as fleet:
        assert is_whole((await fleet.get()).body)
    assert given[0] < Policy().compute_timeout, "the engine would end the call in mid-body"


async def test_a_slow_client_has_the_beginning_from_the_store_and_the_rest_from_its_own_process(
    spools: list[Spool],
) -> None:
    app, store = LargeApp(announced=False), MemoryStore()
    app.more = asyncio.Semaphore(3)
    async with fleet_of(app, on=store) as fleet:
        slow = Client(fleet, tickets=2)
        await has_bytes(slow, PIECE_BYTES)
        await until(lambda: len(pieces(store)) == 3)
        spools[0].cut_off("stream")
        let_go(app.more)
        let_go(slow.ticket)
        await slow.task
        assert is_whole(slow.body)
        await until(lambda: not pieces(store))


async def test_a_body_that_breaks_off_is_broken_for_its_client_and_leaves_no_pieces() -> None:
    app, store = LargeApp(announced=False, fails=2 * PIECE_BYTES), MemoryStore()
    async with fleet_of(app, on=store) as fleet:
        own = Client(fleet)
        await is_broken(own, RuntimeError)
        assert len(own.body) == 2 * PIECE_BYTES
        await until(lambda: not pieces(store))
        app.fails = None
        assert is_whole((await fleet.get(process=1)).body, 2)


async def test_its_own_client_gets_the_whole_body_if_the_store_goes_away_in_mid_body() -> None:
    app = LargeApp(announced=False)
    app.more = asyncio.Semaphore(1)
    store = FaultyStore(clock=Clock(1_700_000_000.0))
    async with fleet_of(app, on=store, processes=1) as fleet:
        own = Client(fleet)
        await has_bytes(own, PIECE_BYTES)
        store.fail()
        let_go(app.more)
        await own.task
        assert is_whole(own.body)


async def test_the_process_that_ends_in_mid_body_deletes_its_pieces() -> None:
    app, store = LargeApp(announced=False), MemoryStore()
    app.more = asyncio.Semaphore(2)
    async with fleet_of(app, on=store) as fleet:
        own = Client(fleet)
        await has_bytes(own, 2 * PIECE_BYTES)
        await fleet.middlewares[0].cache.large.aclose(within=0.01)
        await until(lambda: not pieces(store))
        await is_broken(own, PieceGone)


async def test_a_range_that_comes_first_is_answered_by_the_call_that_it_begins() -> None:
    for wanted in ("bytes=-7", f"bytes={PIECE_BYTES}-{PIECE_BYTES + 6}"):
        app = LargeApp(announced=False)
        async with fleet_of(app) as fleet:
            answer = await fleet.get(range=wanted)
            assert (answer.status, len(answer.body), app.calls) == (206, 7, 1)
            assert is_whole((await fleet.get()).body) and app.calls == 1


async def test_what_the_application_wrote_into_the_scope_of_a_range_stays_there() -> None:
    app = LargeApp(announced=False)
    answer = app.handler
    assert answer is not None

    async def routed(scope: Any, receive: Any, send: Any, number: int) -> None:
        scope["endpoint"] = "list"
        await answer(scope, receive, send, number)

    app.handler = routed
    async with fleet_of(app, processes=1) as fleet:
        scope = scope_of("GET", "/", [("range", "bytes=-7")])

        async def receive() -> Any:
            return {"type": "http.request"}

        async def send(message: Any) -> None:
            pass

        await fleet.middlewares[0](scope, receive, send)
        assert scope["endpoint"] == "list"


async def test_an_invalidation_in_mid_body_counts() -> None:
    app = LargeApp(announced=False)
    app.more = asyncio.Semaphore(2)
    async with fleet_of(app) as fleet:
        before = clients(fleet, 1)[0]
        await has_bytes(before, 2 * PIECE_BYTES)
        await fleet.middlewares[1].purge(url="http://example.test/")
        let_go(app.more)
        await before.task
        assert is_whole(before.body)
        for process in (0, 1):
            assert is_whole((await fleet.get(process=process)).body, 2)


async def test_a_full_server_stores_no_pieces_and_each_client_has_its_own_whole_body(
    own_valkey: ValkeyServer, namespace: str, spools: list[Spool]
) -> None:
    app = LargeApp(announced=False)
    async with (
        redis.asyncio.Redis.from_url(own_valkey.url) as outside,
        fleet_of(app, on=own_valkey.url, namespace=namespace) as fleet,
    ):
        await outside.config_set("maxmemory", "1")
        for number in (1, 2):
            slow = Client(fleet, process=number - 1, tickets=2)
            await until(lambda number=number: len(spools) == number and spools[-1].outcome.done())
            assert spools[-1].outcome.result() == "store"
            let_go(slow.ticket)
            await slow.task
            assert is_whole(slow.body, number)
        await outside.config_set("maxmemory", "0")
        assert is_whole((await fleet.get()).body, 3) and is_whole((await fleet.get(process=1)).body, 3)
