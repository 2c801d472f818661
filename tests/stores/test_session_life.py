"""A session among callers that leave, in an event loop that is blocked, and at its end."""

from __future__ import annotations

import asyncio
import os
import select
import time
from typing import Any

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import StoreUnavailable
from tests.support.asking import POLICY, established, grant, publish
from tests.support.gate import until
from tests.support.heap import collect
from tests.support.listener import PATIENCE, RecordingListener
from tests.support.proxy import FaultProxy
from tests.support.sessions import LONG, SHORT, Sessions, unavailable, until_in_flight, warm

BIG = b"\x00\xff" * 4_000_000


class TestBlockedLoop:
    """An answer that is in the socket when a blocked event loop goes on is an answer, however late it is read."""

    @pytest.mark.parametrize("blocked", [1.02, 1.2, 1.7, 4.0])
    async def test_an_answer_in_the_socket_is_no_time_out(
        self, server: ValkeyServer, sessions: Sessions, name: str, blocked: float
    ) -> None:
        session, listener = sessions.open(server.url, deadline=SHORT)
        await warm(session, name)
        connection = session._lane._connection
        read = session.read(name)
        await until_in_flight(session)
        time.sleep(blocked * SHORT)
        # The server of a busy machine may need longer. The event loop is blocked until it has answered, too.
        readable, _, _ = select.select([connection._writer.get_extra_info("socket")], [], [], PATIENCE)
        assert readable
        assert await read is not None
        assert listener.breaker == [] and session._lane._connection is connection

    async def test_connecting_is_no_time_out_either(
        self, server: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(server.url, deadline=SHORT)
        asking = asyncio.ensure_future(grant(session, name))
        reading = session.read(name + "-other")
        for _ in range(4):
            await asyncio.sleep(0)
            time.sleep(1.5 * SHORT)
        await asking
        await reading
        assert listener.breaker == []

    async def test_a_blocked_loop_does_not_make_a_dead_server_live(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url, deadline=SHORT)
        await warm(session, name)
        proxy.black_hole()
        read = session.read(name)
        await until_in_flight(session)
        time.sleep(3 * SHORT)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(read, PATIENCE)


class TestCallersThatLeave:
    async def test_cancelled_callers_burn_no_connection_and_mix_up_no_answers(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url)
        for number in range(5):
            await warm(session, f"{name}-{number}")
        accepted = proxy.accepted
        for round_ in range(20):
            leaving = [
                asyncio.ensure_future(session.acquire(f"{name}-{round_}", flight="f", policy=POLICY)),
                session.read(f"{name}-{round_ % 5}"),
            ]
            staying = {f"{name}-{number}": session.read(f"{name}-{number}") for number in range(5)}
            if round_ % 2:
                await until_in_flight(session)
            for call in leaving:
                call.cancel()
            for reading in await asyncio.gather(*staying.values()):
                assert reading is not None and reading.body == b"body"
            assert await session.read(f"{name}-absent") is None
        assert proxy.accepted == accepted


@pytest.mark.filterwarnings(
    "error:unclosed Connection:ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning"
)
class TestTheEnd:
    async def test_closing_leaves_no_task_and_no_socket(
        self, server: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        before, sockets = asyncio.all_tasks(), established(server.port)
        session, _ = sessions.open(server.url)
        await warm(session, name)
        session.forget(name, flight="ghost")
        assert established(server.port) == sockets + 3
        await session.aclose()
        assert asyncio.all_tasks() == before
        assert established(server.port) == sockets

    @pytest.mark.parametrize("when", ["connecting", "waiting for an answer", "writing", "away", "never used"])
    async def test_closing_at_a_bad_moment_leaves_nothing_either(
        self, server: ValkeyServer, sessions: Sessions, name: str, when: str
    ) -> None:
        async with FaultProxy(server.port) as proxy:
            session, listener = sessions.open(proxy.url, deadline=SHORT if when == "away" else LONG)
            mine = asyncio.all_tasks()
            pending: list[asyncio.Future[Any]] = []
            if when == "connecting":
                proxy.black_hole()
                pending.append(asyncio.ensure_future(grant(session, name)))
                await until(lambda: proxy.accepted == 1)
            elif when != "never used":
                await warm(session, name)
                granted = await grant(session, name + "-big")
                proxy.black_hole()
                if when == "away":
                    await unavailable(session, name)
                    await unavailable(session, name)
                    assert listener.breaker == [True]
                else:
                    pending.append(session.read(name))
                    if when == "writing":
                        big = publish(session, name + "-big", granted, BIG)
                        pending.append(asyncio.ensure_future(big))
                    await until_in_flight(session)
            await asyncio.wait_for(session.aclose(), PATIENCE)
            for outcome in await asyncio.gather(*pending, return_exceptions=True):
                assert isinstance(outcome, StoreUnavailable)
            left = {task for task in asyncio.all_tasks() - mine if "stampede_guard" in repr(task)}
            assert left == set()
            assert established(proxy.port) == 0
            del session
            collect()  # a connection that was left to the collector says so

    async def test_after_closing_everything_is_refused_at_once(
        self, server: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(server.url)
        before = asyncio.all_tasks()
        await session.aclose()
        await unavailable(session, name)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(grant(session, name), PATIENCE)
        await session.aclose()
        assert asyncio.all_tasks() == before

    async def test_a_forked_child_lets_go_without_a_word(
        self, server: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(server.url)
        await warm(session, name)
        child = os.fork()
        if child == 0:
            try:
                session.abandon()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert await session.read(name) is not None
        assert (listener.gaps, listener.breaker) == (1, [])


async def test_the_listener_of_these_tests_says_what_it_did_not_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.listener.PATIENCE", 0.01)
    with pytest.raises(TimeoutError, match="gaps=0"):
        await RecordingListener().until(lambda heard: heard.gaps > 0)
