"""A thin line is no outage: what still moves is alive, what stands still is not, and there is an end to patience."""

from __future__ import annotations

import asyncio

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.errors import StoreUnavailable
from stampede_guard.policy import Policy
from tests.support.asking import grant, publish
from tests.support.gate import Gate, soon, until
from tests.support.listener import PATIENCE
from tests.support.proxy import FaultProxy
from tests.support.sessions import LONG, Sessions, unavailable, warm

DEADLINE = 2.0
SLOW = b"\x00\xff" * 1_000_000
"""On the line of these tests, two deadlines long."""


def thin(proxy: FaultProxy, pause: float = 0.04) -> None:
    proxy.bandwidth(piece=20_000, pause=pause)


async def test_a_value_that_takes_several_deadlines_on_the_wire_is_stored_and_read(
    proxy: FaultProxy, sessions: Sessions, name: str
) -> None:
    session, listener = sessions.open(proxy.url, deadline=DEADLINE)
    await warm(session, name)
    granted = await grant(session, name + "-slow")
    accepted = proxy.accepted
    thin(proxy)
    begun = asyncio.get_running_loop().time()
    assert await soon(publish(session, name + "-slow", granted, SLOW))
    stored = asyncio.get_running_loop().time()
    reading = await soon(session.read(name + "-slow"))
    assert reading is not None and reading.body == SLOW
    # Or nothing would have been shown.
    assert stored - begun > DEADLINE < asyncio.get_running_loop().time() - stored
    assert (listener.breaker, proxy.accepted) == ([], accepted)


async def test_what_is_asked_behind_a_large_value_waits_for_it_and_is_answered(
    proxy: FaultProxy, sessions: Sessions, name: str
) -> None:
    session, listener = sessions.open(proxy.url, deadline=DEADLINE)
    await warm(session, name)
    granted = await grant(session, name + "-slow")
    thin(proxy)
    large = asyncio.ensure_future(publish(session, name + "-slow", granted, SLOW))
    await until(lambda: session._lane._pending)
    behind = session.read(name)
    assert await soon(large)
    reading = await soon(behind)
    assert reading is not None and reading.body == b"body"
    # Its first byte comes behind a megabyte of another's.
    large_read, small_read = session.read(name + "-slow"), session.read(name + "-absent")
    await until(lambda: session._lane._pending)
    after = session.read(name)
    assert await soon(small_read) is None and (await soon(large_read)) is not None
    assert await soon(after) is not None
    assert listener.breaker == []


@pytest.mark.parametrize("way", ["reply", "request"])
async def test_a_value_that_stops_in_the_middle_is_a_lost_connection(
    way: str, proxy: FaultProxy, sessions: Sessions, name: str
) -> None:
    session, _ = sessions.open(proxy.url, deadline=DEADLINE)
    other, _ = sessions.open(proxy.url, deadline=LONG)
    await warm(session, name)
    if way == "reply":
        assert await publish(other, name + "-slow", await grant(other, name + "-slow"), SLOW)
    granted = await grant(session, name + "-new")
    accepted = proxy.accepted
    thin(proxy)
    progress = session._lane._pipe.progress if session._lane._pipe is not None else None
    assert progress is not None
    before = progress.moved_at
    asked: asyncio.Future[object]
    if way == "reply":
        asked = session.read(name + "-slow")  # type: ignore[assignment]
    else:
        asked = asyncio.ensure_future(publish(session, name + "-new", granted, SLOW))
    await until(lambda: progress.moved_at > before)
    proxy.black_hole()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(asked, PATIENCE)
    proxy.heal()
    assert await soon(session.read(name)) is not None
    assert proxy.accepted == accepted + 1


async def test_a_line_that_moves_a_little_now_and_then_is_given_up_in_the_end(
    proxy: FaultProxy, sessions: Sessions, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stampede_guard.stores.connections.lane.LONGEST", 3)
    session, _ = sessions.open(proxy.url, deadline=DEADLINE)
    await warm(session, name)
    assert await publish(session, name + "-slow", await grant(session, name + "-slow"), SLOW)
    proxy.bandwidth(piece=1000, pause=0.02)
    assert session._lane._pipe is not None
    progress = session._lane._pipe.progress
    begun = asyncio.get_running_loop().time()
    await unavailable(session, name + "-slow")
    # It moved until the end, or it would have been given up after the first.
    assert progress.moved_at - begun > 2 * DEADLINE


async def test_an_answer_of_which_nothing_comes_is_late_after_one_deadline(
    proxy: FaultProxy, sessions: Sessions, name: str
) -> None:
    session, _ = sessions.open(proxy.url, deadline=DEADLINE)
    await warm(session, name)
    proxy.black_hole()
    checks = 0
    check = session._lane._check

    def counted(*args: float) -> None:
        nonlocal checks
        checks += 1
        check(*args)  # type: ignore[arg-type]

    session._lane._check = counted  # type: ignore[method-assign,assignment]
    await unavailable(session, name)
    assert checks <= 2, "the deadline, and the moment for the reader"


async def test_a_value_that_takes_longer_than_the_lease_to_be_stored_is_computed_once(
    server: ValkeyServer, proxy: FaultProxy, namespace: str
) -> None:
    thin(proxy, pause=0.03)  # at least five seconds for the value: two leases
    gate = Gate()

    async def compute() -> bytes:
        await gate.hold()
        return SLOW

    policy = Policy(lease_ttl=2.5, poll_interval=0.1, wait_timeout=PATIENCE, fallback_timeout=PATIENCE)
    # Long enough for the whole value: after ten of the far one's deadlines, its publication is given up.
    slow = f"{proxy.url}?socket_timeout={DEADLINE:g}"
    async with (
        StampedeGuard.from_url(slow, namespace=namespace, policy=policy) as far,
        StampedeGuard.from_url(server.url, namespace=namespace, policy=policy) as near,
    ):
        calls = [asyncio.ensure_future(far.get_or_compute("k", compute))]
        await gate.arrival()
        calls.append(asyncio.ensure_future(near.get_or_compute("k", compute)))
        gate.open()
        assert await soon(asyncio.gather(*calls)) == [SLOW, SLOW]
    assert gate.entered == 1
