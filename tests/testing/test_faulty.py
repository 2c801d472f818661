"""The store that fails on demand does to a guard what a lost Redis does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from stampede_guard import Misuse, Policy, StampedeGuard
from stampede_guard.core.breaker import PROBE_SECONDS
from stampede_guard.core.scripts import Granted
from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.testing import FakeClock, FaultyStore
from stampede_guard.testing.faults.faultysession import FaultySession
from tests.support.asking import POLICY, fill, grant, publish
from tests.support.gate import Gate, until
from tests.support.listener import RecordingListener

NAME = "test:entry"


class Waits:
    """An injected wait that takes no time and remembers."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def opened(store: FaultyStore) -> AsyncIterator[tuple[FaultySession, RecordingListener]]:
    listener = RecordingListener()
    session = store.open_session(listener)
    try:
        yield session, listener
    finally:
        await session.aclose()


def computing(value: str = "value") -> Callable[[], Awaitable[str]]:
    async def compute() -> str:
        compute.calls += 1  # type: ignore[attr-defined]
        return value

    compute.calls = 0  # type: ignore[attr-defined]
    return compute


class TestSession:
    async def test_one_failure_is_no_outage_and_two_are(self) -> None:
        store = FaultyStore(wait=Waits())
        async with opened(store) as (session, listener):
            store.fail()
            for away in (False, True):
                with pytest.raises(StoreUnavailable):
                    await session.invalidate(NAME, policy=POLICY)
                assert (session.away, session.away_for(NAME)) == (away, away)
            assert listener.breaker == [True]

    async def test_reads_of_one_moment_fail_as_one_command(self) -> None:
        store = FaultyStore()
        async with opened(store) as (session, _):
            store.fail()
            reads = [session.read(f"{NAME}{number}") for number in range(5)]
            outcomes = await asyncio.gather(*reads, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
            assert not session.away

    async def test_recovery_is_known_at_once_and_the_entries_are_there(self) -> None:
        store = FaultyStore()
        async with opened(store) as (session, listener):
            await fill(session, NAME)
            store.fail()
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await session.read(NAME)
            store.recover()
            assert not session.away
            assert listener.breaker == [True, False]
            reading = await session.read(NAME)
            assert reading is not None and reading.body == b"body"

    async def test_the_subscription_is_lost_and_comes_back_with_a_gap_each(self) -> None:
        store = FaultyStore()
        async with opened(store) as (_, listener):
            store.fail()
            assert listener.gaps == 1
            store.recover()
            assert listener.gaps == 2
            store.lose_replies(1)
            store.recover()
            assert listener.gaps == 2

    async def test_no_wake_up_arrives_while_it_fails(self) -> None:
        store = FaultyStore()
        async with opened(store) as (holder, _), opened(store) as (waiter, listener):
            granted = await grant(holder, NAME)
            await waiter.acquire(NAME, flight="waiter", policy=POLICY)
            assert await publish(holder, NAME, granted)
            # Published, and on its way when the server goes.
            store.fail()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert listener.messages == []

    async def test_a_lost_reply_is_a_command_that_was_carried_out(self) -> None:
        store = FaultyStore()
        async with opened(store) as (session, _):
            store.lose_replies(1)
            with pytest.raises(StoreUnavailable, match="lost its answer"):
                await session.acquire(NAME, flight="holder", policy=POLICY)
            lease = store.memory.look(NAME).lease
            assert lease is not None and lease.owner == "holder"
            answer = await session.acquire(NAME, flight="holder", policy=POLICY)
            assert isinstance(answer, Granted) and answer.token == lease.token

    async def test_a_slow_answer_takes_its_time_by_the_injected_wait(self) -> None:
        waits = Waits()
        store = FaultyStore(wait=waits)
        store.slow(0.2)
        async with opened(store) as (session, _):
            assert await session.read(NAME) is None
        assert waits.seconds == [0.2]

    async def test_an_answer_that_is_too_slow_is_none_though_it_was_carried_out(self) -> None:
        waits = Waits()
        store = FaultyStore(wait=waits, deadline=0.5)
        store.slow(3)
        async with opened(store) as (session, _):
            with pytest.raises(StoreUnavailable, match=r"within 0\.5 s"):
                await session.acquire(NAME, flight="holder", policy=POLICY)
            assert waits.seconds == [0.5]
            assert store.memory.look(NAME).lease is not None

    async def test_a_slow_answer_that_the_outage_overtakes_does_not_come(self) -> None:
        clock = FakeClock()
        store = FaultyStore(clock=clock, wait=clock.sleep)
        store.slow(0.2)
        async with opened(store) as (session, _):
            asked = asyncio.create_task(session.release(NAME, flight="holder"))
            await until(lambda: clock._sleepers)
            store.fail()
            clock.advance(1)
            with pytest.raises(StoreUnavailable):
                await asked

    async def test_a_refusal_is_an_answer(self) -> None:
        store = FaultyStore()
        store.refuse()
        async with opened(store) as (session, listener):
            for _ in range(3):
                with pytest.raises(StoreRefused):
                    await session.read(NAME)
            assert not session.away and listener.breaker == []

    async def test_refusing_writes_it_still_reads_and_invalidates(self) -> None:
        store = FaultyStore()
        async with opened(store) as (session, _):
            await fill(session, NAME)
            store.refuse_writes()
            assert await session.read(NAME) is not None
            with pytest.raises(StoreRefused):
                await session.acquire(f"{NAME}2", flight="holder", policy=POLICY)
            await session.invalidate(NAME, policy=POLICY)
            assert await session.read(NAME) is None

    async def test_a_probe_finds_it_back_when_only_answers_were_lost(self) -> None:
        clock = FakeClock()
        store = FaultyStore(clock=clock, wait=clock.sleep)
        store.lose_replies(2)
        async with opened(store) as (session, listener):
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await session.invalidate(NAME, policy=POLICY)
            assert session.away
            await until(lambda: clock._sleepers)
            clock.advance(PROBE_SECONDS)
            await listener.until(lambda heard: heard.breaker == [True, False])
            assert not session.away

    async def test_a_lease_that_an_unanswered_command_got_is_given_back_when_it_can_be(self) -> None:
        store = FaultyStore()
        async with opened(store) as (session, _):
            await grant(session, NAME)
            store.fail()
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await session.read(NAME)
            session.forget(NAME, flight="holder")
            store.recover()
            await until(lambda: store.memory.look(NAME).lease is None)

    async def test_closing_ends_what_is_under_way(self) -> None:
        clock = FakeClock()
        store = FaultyStore(clock=clock, wait=clock.sleep)
        store.slow(0.2)
        async with opened(store) as (session, _):
            read = session.read(NAME)
            await until(lambda: clock._sleepers)
        with pytest.raises(StoreUnavailable, match="closed"):
            await read

    @pytest.mark.parametrize("turns", [0, 1, 2])
    async def test_closing_ends_what_was_asked_for_a_moment_before(self, turns: int) -> None:
        async with opened(FaultyStore()) as (session, _):
            read = session.read(NAME)
            for _ in range(turns):
                await asyncio.sleep(0)
        await until(read.done)
        assert read.exception() is None or isinstance(read.exception(), StoreUnavailable)

    async def test_it_can_be_broken_from_another_thread(self) -> None:
        store = FaultyStore()
        async with opened(store) as (_, listener):
            await asyncio.to_thread(store.fail)
            await listener.until(lambda heard: heard.gaps == 1)

    @pytest.mark.parametrize(
        ("call", "says"),
        [
            (lambda store: store.slow(-1), r"slow\(-1\) is not allowed: give the time that an answer takes"),
            (
                lambda store: store.lose_replies(1.5),
                r"lose_replies\(1\.5\) is not allowed: give how many answers",
            ),
            (lambda store: store.lose_replies(-1), "a whole number of at least 0"),
        ],
    )
    def test_faults_that_cannot_be_are_refused(self, call: Callable[[FaultyStore], Any], says: str) -> None:
        with pytest.raises(Misuse, match=says):
            call(FaultyStore())


class TestGuard:
    async def test_while_it_is_away_callers_have_the_last_value_within_its_lifetime(self) -> None:
        clock = FakeClock()
        store, compute = FaultyStore(clock=clock), computing()
        async with StampedeGuard(store, policy=Policy(ttl=10, stale_ttl=20)) as guard:
            await guard.get_or_compute("report", compute)
            store.fail()
            # Somebody has to find out, and computes.
            await guard.get_or_compute("another", computing())
            assert guard.engine.runtime().away
            for _ in range(5):
                assert await guard.get_or_compute("report", compute) == "value"
            assert compute.calls == 1  # type: ignore[attr-defined]
            clock.advance(31)
            assert await guard.get_or_compute("report", compute) == "value"
            assert compute.calls == 2  # type: ignore[attr-defined]

    async def test_while_it_is_away_a_herd_in_one_process_is_one_computation(self) -> None:
        store, gate = FaultyStore(), Gate()

        async def compute() -> str:
            await gate.hold()
            return "value"

        store.fail()
        async with StampedeGuard(store) as guard:
            callers = [asyncio.create_task(guard.get_or_compute("report", compute)) for _ in range(20)]
            await gate.arrival()
            gate.open()
            assert set(await asyncio.gather(*callers)) == {"value"}
            assert gate.entered == 1

    async def test_an_invalidation_meanwhile_is_pending_and_done_after_recovery(self) -> None:
        store, compute = FaultyStore(), computing()
        async with StampedeGuard(store, namespace="test") as guard:
            await guard.get_or_compute("report", compute)
            store.fail()
            assert await guard.invalidate("report") == "pending"
            store.recover()
            await until(lambda: store.memory.look("test:=report").value is None)
            assert await guard.get_or_compute("report", compute) == "value"
            assert compute.calls == 2  # type: ignore[attr-defined]

    async def test_a_lost_publish_reply_costs_no_second_computation(self) -> None:
        store, compute = FaultyStore(), computing()
        gate = Gate()

        async def held() -> str:
            await gate.hold()
            return await compute()

        async with StampedeGuard(store) as guard:
            caller = asyncio.create_task(guard.get_or_compute("report", held))
            await gate.arrival()
            store.lose_replies(1)
            gate.open()
            assert await caller == "value"
            assert await guard.get_or_compute("report", held) == "value"
            assert compute.calls == 1  # type: ignore[attr-defined]

    async def test_refused_everywhere_it_serves_what_was_seen_last(self) -> None:
        store, compute = FaultyStore(), computing()
        async with StampedeGuard(store) as guard:
            await guard.get_or_compute("report", compute)
            store.refuse()
            assert await guard.get_or_compute("report", compute) == "value"
            store.recover()
            assert await guard.get_or_compute("report", compute) == "value"
            assert compute.calls == 1  # type: ignore[attr-defined]
