"""Large responses in pieces: read in all processes while they arrive, whole or visibly broken, never mixed."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.http.middleware import StampedeMiddleware
from stampede_guard.http.operating.listing import stored_urls
from stampede_guard.http.pieces.piece import PIECE_BYTES, PieceGone
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FaultyStore
from tests.http.asgi import request, scope_of
from tests.http.fleet import App, Fleet, status_of
from tests.http.large.bodies import LargeApp, clients, has_bytes, is_broken, let_go
from tests.http.large.content import LARGE, OPTIONS, is_whole, whole
from tests.http.test_traps_streaming import Client
from tests.support.clock import Clock
from tests.support.encryption import Rot


@pytest.mark.parametrize("server", [False, True], ids=["memory", "server"])
async def test_waiters_in_all_processes_read_each_piece_before_the_application_makes_the_next(
    server: bool, valkey_url: str, namespace: str
) -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(0)
    on = valkey_url if server else None
    async with Fleet(app, processes=2, on=on, namespace=namespace, **OPTIONS) as fleet:
        readers = clients(fleet, 6)
        for count in range(PIECE_BYTES, LARGE, PIECE_BYTES):
            app.more.release()
            async with asyncio.timeout(60):
                await asyncio.gather(*[has_bytes(reader, count) for reader in readers])
            assert {len(reader.body) for reader in readers} == {count}
        app.more.release()
        await asyncio.gather(*[reader.task for reader in readers])
        assert all(is_whole(reader.body) for reader in readers)
        assert all(dict(r.messages[0]["headers"])[b"content-length"] == b"%d" % LARGE for r in readers)
        for process in (0, 1):
            answer = await fleet.get(process=process)
            assert is_whole(answer.body) and "; hit" in status_of(answer)
        assert app.calls == 1


async def test_without_the_option_nothing_changes() -> None:
    app = LargeApp()
    async with Fleet(app, max_body_bytes=1000) as fleet:
        first, second = await fleet.get(), await fleet.get()
        assert is_whole(first.body) and is_whole(second.body, 2)
        assert 'detail="too large"' in status_of(first)


async def test_what_is_larger_still_passes_through() -> None:
    async with Fleet(LargeApp(size=LARGE + 1), **OPTIONS) as fleet:
        assert 'detail="too large"' in status_of(await fleet.get())


async def test_a_slow_client_holds_back_nobody() -> None:
    app = LargeApp()
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        slow = Client(fleet, tickets=2)
        await has_bytes(slow, PIECE_BYTES)
        assert is_whole((await fleet.get(process=1)).body)
        let_go(slow.ticket)
        await slow.task
        assert is_whole(slow.body) and app.calls == 1


async def test_a_client_that_leaves_ends_nothing_for_the_others() -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        own = Client(fleet)
        await has_bytes(own, PIECE_BYTES)
        other = Client(fleet, process=1)
        await has_bytes(other, PIECE_BYTES)
        own.gone.set()
        own.task.cancel()
        let_go(app.more)
        await other.task
        assert is_whole(other.body) and app.calls == 1


async def test_a_response_that_breaks_off_is_broken_for_all_and_made_anew_for_the_next() -> None:
    app = LargeApp(fails=PIECE_BYTES)
    app.more = asyncio.Semaphore(1)
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        own = Client(fleet)
        await has_bytes(own, PIECE_BYTES)
        other = Client(fleet, process=1)
        await has_bytes(other, PIECE_BYTES)
        app.more.release()
        await is_broken(own, RuntimeError)
        await is_broken(other, PieceGone)
        app.fails = None
        let_go(app.more)
        for process in (1, 0):
            assert is_whole((await fleet.get(process=process)).body, 2)


async def test_a_body_that_is_too_short_or_too_long_is_never_served_as_complete() -> None:
    for size in (LARGE - 500, LARGE + 500):
        app = LargeApp(size=size)
        app.headers["content-length"] = str(LARGE)
        async with Fleet(app, **OPTIONS) as fleet:
            client = Client(fleet)
            async with asyncio.timeout(60):
                await asyncio.wait({client.task})
            assert client.task.exception() is not None
            assert not client.messages or client.messages[-1].get("more_body", True)


async def test_an_invalidation_in_mid_body_is_seen_at_once_and_generations_are_not_mixed() -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        before = [Client(fleet, process=n) for n in (0, 1)]
        for client in before:
            await has_bytes(client, PIECE_BYTES)
        await fleet.middlewares[1].purge(url="http://example.test/")
        let_go(app.more)
        assert is_whole((await fleet.get(process=1)).body, 2)
        assert is_whole((await fleet.get(process=0)).body, 2)
        for client in before:
            await client.task
            assert is_whole(client.body, 1)


async def _stored(fleet: Fleet) -> StoredResponse:
    engine = fleet.guards[0].engine
    plan = fleet.middlewares[0].cache.plan
    _, stored = await engine.judged.read(plan, engine.prefix + "http3:http://example.test/?")
    return cast(StoredResponse, stored)


async def _forget(fleet: Fleet, number: int) -> None:
    """The store drops a piece, as a full server may."""
    engine, layout = fleet.guards[0].engine, (await _stored(fleet)).pieces
    assert layout is not None
    await engine.invalidate(engine.prefix + layout.name(number), fleet.guards[0].policy)


async def test_without_its_first_piece_the_response_is_a_miss() -> None:
    app = LargeApp()
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        await fleet.get()
        await _forget(fleet, 0)
        answer = await fleet.get(process=1)
        assert is_whole(answer.body, 2) and "fwd=partial" in status_of(answer)
        assert is_whole((await fleet.get()).body, 2)
        assert app.calls == 2


async def test_without_a_later_piece_one_client_sees_a_broken_body_and_the_next_a_new_one() -> None:
    app = LargeApp()
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        await fleet.get()
        await _forget(fleet, 2)
        await is_broken(Client(fleet, process=1), PieceGone)
        assert is_whole((await fleet.get()).body, 2)
        assert is_whole((await fleet.get(process=1)).body, 2)
        assert app.calls == 2


async def test_ranges_conditions_and_heads_are_answered_from_pieces() -> None:
    app = LargeApp(etag='"a"')
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        await fleet.get()
        head = await fleet.get(process=1, method="HEAD")
        assert (head.status, head.body, head.get("content-length")) == (200, b"", str(LARGE))
        first, last = PIECE_BYTES - 5, 2 * PIECE_BYTES + 5
        for told in ({}, {"if_range": '"a"'}):
            part = await fleet.get(process=1, range=f"bytes={first}-{last}", **told)
            assert part.status == 206 and part.body == whole()[first : last + 1]
            assert part.get("content-range") == f"bytes {first}-{last}/{LARGE}"
            assert part.get("content-length") == str(last - first + 1)
        assert (await fleet.get(range="bytes=-7")).body == whole()[-7:]
        assert is_whole((await fleet.get(range="bytes=0-1", if_range='"b"')).body)
        beyond = await fleet.get(range=f"bytes={LARGE}-")
        assert (beyond.status, beyond.get("content-range")) == (416, f"bytes */{LARGE}")
        same = await fleet.get(if_none_match='"a"')
        assert (same.status, same.body) == (304, b"")
        assert app.calls == 1


async def test_a_head_that_asks_anew_and_a_forced_reload_leave_whole_bodies() -> None:
    app = LargeApp(etag='"a"')
    async with Fleet(app, **OPTIONS) as fleet:
        await fleet.get()
        await fleet.get(method="HEAD", cache_control="no-cache")
        answer = await fleet.get(cache_control="no-cache")
        assert is_whole(answer.body, app.calls)
        again = await fleet.get()
        assert is_whole(again.body, app.calls) and "; hit" in status_of(again)


async def test_a_response_in_pieces_is_a_miss_when_its_lifetime_ends() -> None:
    app = LargeApp(etag='"a"')
    async with Fleet(app, **OPTIONS) as fleet:
        await fleet.get()
        fleet.clock.advance(61)
        answer = await fleet.get()
        assert is_whole(answer.body, 2) and app.calls == 2


@pytest.mark.parametrize("value", [-1, True, 1000, "1 GB"])
def test_a_limit_that_cannot_be_meant_is_refused(value: Any) -> None:
    with pytest.raises(Misuse, match="max_pieces_bytes"):
        StampedeMiddleware(App(), max_body_bytes=1000, max_pieces_bytes=value)


async def test_its_own_client_gets_the_whole_body_if_the_store_goes_away_in_mid_body() -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    store = FaultyStore(clock=Clock(1_700_000_000.0))
    async with Fleet(app, on=store, **OPTIONS) as fleet:
        own = Client(fleet, tickets=2)
        await has_bytes(own, PIECE_BYTES)
        store.fail()
        let_go(app.more)
        let_go(own.ticket)
        await own.task
        assert is_whole(own.body)


async def test_while_the_store_is_away_a_large_response_passes_through() -> None:
    app = LargeApp()
    store = FaultyStore(clock=Clock(1_700_000_000.0))
    async with Fleet(app, on=store, **OPTIONS) as fleet:
        store.fail()
        while not fleet.guards[0].engine.runtime().away:
            await fleet.get("/something")
        calls = app.calls
        answer = await fleet.get()
        assert is_whole(answer.body, calls + 1)


async def test_its_own_client_gets_its_own_cookie_and_no_other_client_does() -> None:
    app = LargeApp(set_cookie="a=1")
    async with Fleet(app, processes=2, set_cookie="strip", **OPTIONS) as fleet:
        own, other = await fleet.get(), await fleet.get(process=1)
        assert own.get("set-cookie") == "a=1" and other.get("set-cookie") is None
        assert is_whole(own.body) and is_whole(other.body)


async def test_a_herd_over_two_processes_costs_one_call_and_pieces_are_no_urls() -> None:
    app = LargeApp()
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        answers = await asyncio.gather(*fleet.herd(10))
        assert all(is_whole(answer.body) for answer in answers) and app.calls == 1
        assert await stored_urls(fleet.guards[0]) == {"http://example.test/": 1}


async def test_a_full_server_stores_no_pieces_and_each_client_has_its_own_whole_body(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    app = LargeApp()
    async with (
        redis.asyncio.Redis.from_url(own_valkey.url) as outside,
        Fleet(app, processes=2, on=own_valkey.url, namespace=namespace, **OPTIONS) as fleet,
    ):
        await outside.config_set("maxmemory", "1")
        for number in (1, 2):
            assert is_whole((await fleet.get(process=number - 1)).body, number)


async def test_pieces_are_encrypted_as_all_values_are() -> None:
    rot = Rot()
    guard = StampedeGuard(MemoryStore(), namespace="web", encryption=rot)
    site = StampedeMiddleware(LargeApp(), guard=guard, **OPTIONS)
    for _ in range(2):
        assert is_whole((await request(site, "GET", "/")).body)
    assert len([name for name in rot.encrypted if "http3p:" in name]) == 4
    await site.cache.aclose()


async def test_a_client_that_leaves_ends_the_reading_and_a_receive_that_repeats_itself_does_not() -> None:
    app = LargeApp()
    async with Fleet(app, **OPTIONS) as fleet:
        await fleet.get()
        leaving = Client(fleet, tickets=2)
        await has_bytes(leaving, PIECE_BYTES)
        leaving.gone.set()
        let_go(leaving.ticket)
        await leaving.task
        assert len(leaving.body) < LARGE

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        await fleet.middlewares[0](scope_of("GET", "/", []), receive, send)
        assert is_whole(b"".join(message.get("body", b"") for message in messages))


@pytest.mark.parametrize("seconds", [2**31, 10 * 366 * 86_400])
async def test_the_longest_lifetimes_are_stored_and_the_response_ends_before_its_pieces(seconds: int) -> None:
    app = LargeApp(cache_control=f"public, max-age={seconds}")
    async with Fleet(app, **OPTIONS) as fleet:
        for _ in range(2):
            assert is_whole((await fleet.get()).body)
        fleet.clock.advance(10 * 366 * 86_400 - 300)
        assert is_whole((await fleet.get()).body, 2)
