"""What every store must do with values, failures and invalidations. A new store passes this or does not exist."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard.core.entry import Reading, freshness
from stampede_guard.core.scripts import FailedRecently, Found, Granted, Held, Message
from tests.support.asking import POLICY, fail, fill, grant, held, publish
from tests.support.backends import Backend


def fresh(reading: Reading | None) -> str:
    if reading is None:
        return "missing"
    return freshness(reading.remaining_ms, reading.total_ms, reading.stale_ms)


class TestReading:
    async def test_an_entry_that_was_never_stored_reads_as_nothing(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        assert await session.read(name) is None

    async def test_a_value_comes_with_its_token_and_its_lifetimes(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        granted = await fill(session, name, b"\x00SG1\r\n\xff")
        reading = await session.read(name)
        assert reading is not None
        assert reading[:4] == (b"\x00SG1\r\n\xff", granted.token, 30_000, 10_000)
        assert 10_000 < reading.remaining_ms <= 30_000

    async def test_an_empty_value_is_a_value(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        await fill(session, name, b"")
        reading = await session.read(name)
        assert reading is not None and reading.body == b""

    async def test_a_value_is_fresh_then_stale_then_gone(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        await fill(session, name)
        assert fresh(await session.read(name)) == "fresh"
        await backend.age(name, 20.5)
        assert fresh(await session.read(name)) == "stale"
        await backend.age(name, 10)
        assert fresh(await session.read(name)) == "missing"

    async def test_a_value_with_more_time_than_it_was_given_is_stale(
        self, backend: Backend, name: str
    ) -> None:
        session, _ = backend.open()
        await fill(session, name)
        await backend.stretch(name, 500)
        assert fresh(await session.read(name)) == "stale"
        assert isinstance(await session.acquire(name, flight="other", policy=POLICY), Granted)

    async def test_each_reader_of_a_tick_has_a_future_of_its_own(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        await fill(session, name)
        first, second, absent = session.read(name), session.read(name), session.read(name + "-absent")
        assert first is not second
        first.cancel()
        reading = await second
        assert reading is not None and reading.body == b"body"
        assert await absent is None

    @pytest.mark.parametrize("ending", ["\n", "\r\n$3\r\n", "}{", "ключ", " ", "\x00", "\ud800"])
    async def test_a_name_may_hold_any_character(self, backend: Backend, name: str, ending: str) -> None:
        name += ending
        (one, _), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        await held(other, name)
        await publish(one, name, granted)
        message = await heard.message(name)
        assert message.reading is not None and message.reading.body == b"body"
        reading = await other.read(name)
        assert reading is not None and reading.body == b"body"

    async def test_a_thousand_entries_can_be_read_in_one_tick(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        await fill(session, f"{name}-700")
        readings = await asyncio.gather(*[session.read(f"{name}-{number}") for number in range(1_000)])
        assert [number for number, reading in enumerate(readings) if reading is not None] == [700]


class TestPublishing:
    async def test_a_stored_value_wakes_the_waiters_and_ends_the_lease(
        self, backend: Backend, name: str
    ) -> None:
        (one, silence), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        await held(other, name)
        assert await publish(one, name, granted)
        reading = Reading(b"body", granted.token, 30_000, 10_000, 30_000)
        assert await heard.message(name) == Message("value", granted.token, reading=reading)
        assert await backend.parts(name) == {"value", "record"}
        assert len(heard.messages) == 1 and silence.messages == []

    async def test_each_waiting_process_is_woken_once(self, backend: Backend, name: str) -> None:
        (one, _), others = backend.open(), [backend.open() for _ in range(4)]
        granted = await grant(one, name)
        for index, (session, _) in enumerate(others):
            await held(session, name, f"first-{index}")
            await held(session, name, f"second-{index}")
        await publish(one, name, granted)
        await fill(one, name + "-after")
        for _, heard in others:
            await heard.message(name)
            assert len(heard.about(name)) == 1

    async def test_a_value_too_large_to_travel_is_announced_without_it(
        self, backend: Backend, name: str
    ) -> None:
        if backend.always_inline:
            return  # nothing travels inside one process
        (one, _), (other, heard) = backend.open(), backend.open()
        limit = POLICY.inline_bytes
        for size, body in ((limit, b"x" * limit), (limit + 1, None)):
            entry = f"{name}-{size}"
            granted = await grant(one, entry)
            await held(other, entry)
            await publish(one, entry, granted, b"x" * size)
            message = await heard.message(entry)
            assert (message.kind, message.token) == ("value", granted.token)
            assert (None if message.reading is None else message.reading.body) == body

    async def test_publishing_twice_is_as_good_as_once(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        granted = await fill(session, name)
        assert await publish(session, name, granted)
        reading = await session.read(name)
        assert reading is not None and reading.token == granted.token

    async def test_a_lapsed_holder_may_still_store_what_nobody_has_overtaken(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        old = await grant(one, name)
        await backend.evict(name, "lease")
        new = await grant(other, name, "other")
        await held(other, name, "third")
        assert await publish(one, name, old, b"old")
        assert "lease" in await backend.parts(name), "the lease is another's by now"
        assert (await heard.message(name)).token == old.token
        assert await publish(other, name, new, b"new", flight="other")
        assert not await publish(one, name, old, b"old")
        reading = await one.read(name)
        assert reading is not None and reading.body == b"new"

    async def test_a_refused_value_ends_the_lease_and_says_ask_again(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        fence = await one.invalidate(name, policy=POLICY)
        assert (await held(other, name)).fence == fence
        assert not await publish(one, name, granted)
        assert await heard.message(name) == Message("again", granted.token)
        assert await backend.parts(name) == {"record"}

    async def test_a_grant_from_before_an_eviction_stores_nothing(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        await held(other, name)
        await backend.evict(name, "record")
        assert not await publish(one, name, granted)
        assert (await heard.message(name)).kind == "again"
        await backend.age(name, 0.001)
        new = await grant(other, name, "other")
        assert new.token > granted.token
        assert not await publish(one, name, Granted(new.token + 1, granted.epoch))

    async def test_a_value_without_waiters_wakes_nobody(self, backend: Backend, name: str) -> None:
        (one, _), (_, heard) = backend.open(), backend.open()
        await fill(one, name)
        (other, known) = backend.open()
        granted = await grant(one, name + "-next")
        await held(other, name + "-next")
        await publish(one, name + "-next", granted)
        await known.message(name + "-next")
        assert heard.messages == [] and known.about(name) == []


class TestFailing:
    async def test_for_a_moment_nobody_tries_again(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        await held(other, name)
        assert await fail(one, name, granted)
        assert await heard.message(name) == Message("failure", granted.token, body=b"why")
        answer = await other.acquire(name, flight="other", policy=POLICY)
        assert answer == FailedRecently(b"why", granted.token)
        assert await backend.parts(name) == {"failure", "record"}
        await backend.age(name, 6.1)
        await grant(other, name, "other")

    async def test_without_an_error_ttl_it_is_told_and_not_kept(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        await held(other, name)
        assert await fail(one, name, granted, policy=POLICY.replace(error_ttl=0))
        assert (await heard.message(name)).kind == "failure"
        await grant(other, name, "other")

    async def test_a_failure_never_replaces_a_newer_value(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        granted = await grant(session, name)
        beside = await session.fallback(name, flight="beside", policy=POLICY)
        assert isinstance(beside, Granted)
        assert await publish(session, name, beside, b"newer", flight="beside")
        assert not await fail(session, name, granted)
        answer = await session.acquire(name, flight="other", policy=POLICY)
        assert isinstance(answer, Found) and answer.reading.body == b"newer"

    async def test_a_stale_value_survives_a_failure(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        await fill(session, name, b"old")
        await backend.age(name, 21)
        assert await fail(session, name, await grant(session, name))
        assert fresh(await session.read(name)) == "stale"
        answer = await session.acquire(name, flight="other", policy=POLICY)
        assert isinstance(answer, FailedRecently)

    async def test_a_value_ends_a_failure(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        beside_one = await session.fallback(name, flight="beside", policy=POLICY)
        assert isinstance(beside_one, Granted)
        granted = await grant(session, name)
        assert await fail(session, name, beside_one, flight="beside")
        assert await publish(session, name, granted)
        assert "failure" not in await backend.parts(name)

    async def test_a_failure_from_before_an_invalidation_is_refused(
        self, backend: Backend, name: str
    ) -> None:
        session, _ = backend.open()
        granted = await grant(session, name)
        await session.invalidate(name, policy=POLICY)
        assert not await fail(session, name, granted)
        await grant(session, name, "other")


class TestInvalidating:
    async def test_the_fence_is_above_everything_and_grows(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        granted = await fill(session, name)
        first = await session.invalidate(name, policy=POLICY)
        second = await session.invalidate(name, policy=POLICY)
        assert granted.token < first < second
        assert await session.read(name) is None
        assert (await grant(session, name)).token > second

    async def test_what_was_computed_before_is_never_stored(self, backend: Backend, name: str) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        granted = await grant(one, name)
        await other.invalidate(name, policy=POLICY)
        assert not await publish(one, name, granted)
        assert not await publish(one, name, granted)
        assert await other.read(name) is None

    async def test_of_an_entry_that_is_not_there_it_still_raises_a_fence(
        self, backend: Backend, name: str
    ) -> None:
        session, _ = backend.open()
        fence = await session.invalidate(name, policy=POLICY)
        assert fence > 0 and await backend.parts(name) == {"record"}

    async def test_a_failure_goes_too(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        await fail(session, name, await grant(session, name))
        await session.invalidate(name, policy=POLICY)
        await grant(session, name, "other")

    async def test_waiters_are_woken_and_the_holder_keeps_its_lease(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        await held(other, name)
        fence = await one.invalidate(name, policy=POLICY)
        assert await heard.message(name) == Message("again", fence)
        assert await held(other, name) == Held(fence, False)
        assert await one.renew(name, flight="holder", token=granted.token, policy=POLICY)

    async def test_a_stale_value_goes_too(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        await fill(session, name)
        await backend.age(name, 21)
        await session.invalidate(name, policy=POLICY)
        assert await session.read(name) is None
