"""What every store must do, whichever it is. A new store passes this or does not exist."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard.core.entry import Reading, freshness
from stampede_guard.core.scripts import Denied, FailedRecently, Found, Granted, Held, Message
from stampede_guard.policy import Policy
from stampede_guard.stores.protocol import Session
from tests.support.backends import Backend, Part

# All of these are ages that a test brings about, never times it waits for.
POLICY = Policy(ttl=20, stale_ttl=10, error_ttl=6, lease_ttl=10, takeover_gap=2)
RECORD_SECONDS = POLICY.record_ms / 1000


async def grant(session: Session, name: str, flight: str = "holder", *, policy: Policy = POLICY) -> Granted:
    answer = await session.acquire(name, flight=flight, policy=policy)
    assert isinstance(answer, Granted), answer
    return answer


async def held(session: Session, name: str, flight: str = "waiter", *, policy: Policy = POLICY) -> Held:
    answer = await session.acquire(name, flight=flight, policy=policy)
    assert isinstance(answer, Held), answer
    return answer


async def publish(
    session: Session, name: str, granted: Granted, body: bytes = b"body", *, flight: str = "holder"
) -> bool:
    return await session.publish(
        name, flight=flight, grant=granted, outcome="value", body=body, policy=POLICY
    )


async def fail(
    session: Session, name: str, granted: Granted, *, flight: str = "holder", policy: Policy = POLICY
) -> bool:
    return await session.publish(
        name, flight=flight, grant=granted, outcome="failure", body=b"why", policy=policy
    )


async def fill(session: Session, name: str, body: bytes = b"body") -> Granted:
    granted = await grant(session, name)
    assert await publish(session, name, granted, body)
    return granted


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


class TestAcquiring:
    async def test_the_first_flight_is_granted_and_the_next_one_waits(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        granted = await grant(one, name)
        answer = await held(other, name)
        assert answer.fence < granted.token and not answer.suspect
        assert await backend.parts(name) == {"record", "lease", "waiters"}

    async def test_the_same_flight_asking_again_gets_the_same_grant(
        self, backend: Backend, name: str
    ) -> None:
        session, _ = backend.open()
        assert await grant(session, name) == await grant(session, name)

    async def test_a_fenced_flight_asking_again_gets_a_new_token(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        granted = await grant(session, name)
        fence = await session.invalidate(name, policy=POLICY)
        again = await grant(session, name)
        assert again.token > fence > granted.token
        assert await publish(session, name, again)

    async def test_a_flight_whose_record_vanished_gets_a_new_grant(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        granted = await grant(session, name)
        await backend.evict(name, "record")
        again = await grant(session, name)
        assert again.token > granted.token and again.epoch != granted.epoch

    async def test_a_value_stored_since_the_read_is_found(self, backend: Backend, name: str) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        granted = await fill(one, name)
        answer = await other.acquire(name, flight="late", policy=POLICY)
        assert isinstance(answer, Found)
        assert answer.reading.body == b"body" and answer.reading.token == granted.token
        assert await backend.parts(name) == {"value", "record"}

    async def test_a_stale_value_is_no_answer(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        old = await fill(session, name)
        await backend.age(name, 21)
        new = await grant(session, name)
        assert new.token > old.token

    async def test_a_flight_may_ask_for_something_newer(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        old = await fill(session, name)
        found = await session.acquire(name, flight="f", policy=POLICY, newer_than=old.token - 1)
        assert isinstance(found, Found)
        granted = await session.acquire(name, flight="f", policy=POLICY, newer_than=old.token)
        assert isinstance(granted, Granted) and granted.token > old.token

    async def test_a_lapsed_lease_goes_to_the_next_one_with_a_larger_token(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        first = await grant(one, name)
        await backend.age(name, 10.1)
        second = await grant(other, name, "other")
        assert second.token > first.token and second.epoch == first.epoch

    async def test_tokens_grow_for_ever_whatever_is_forgotten_meanwhile(
        self, backend: Backend, name: str
    ) -> None:
        session, _ = backend.open()
        tokens: list[int] = []
        parts: tuple[Part, ...] = ("record", "lease", "value", "failure")
        for round_, part in enumerate(parts * 3):
            granted = await grant(session, name, f"flight-{round_}")
            tokens.append(granted.token)
            await publish(session, name, granted, flight=f"flight-{round_}")
            tokens.append(await session.invalidate(name, policy=POLICY))
            beside = await session.fallback(name, flight=f"beside-{round_}", policy=POLICY)
            assert isinstance(beside, Granted | Denied)
            if isinstance(beside, Granted):
                tokens.append(beside.token)
            if part in await backend.parts(name):
                await backend.evict(name, part)
                # With everything forgotten only the clock is left.
                await backend.age(name, 0.001)
        assert tokens == sorted(set(tokens))


class TestRenewing:
    async def test_a_renewed_lease_outlives_its_first_deadline(self, backend: Backend, name: str) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        granted = await grant(one, name)
        for _ in range(3):
            await backend.age(name, 4)
            assert await one.renew(name, flight="holder", token=granted.token, policy=POLICY)
        await held(other, name)

    async def test_only_owner_and_token_together_renew(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        granted = await grant(session, name)
        assert not await session.renew(name, flight="stranger", token=granted.token, policy=POLICY)
        assert not await session.renew(name, flight="holder", token=granted.token + 1, policy=POLICY)
        assert await session.renew(name, flight="holder", token=granted.token, policy=POLICY)

    async def test_a_renewal_creates_nothing(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        assert not await session.renew(name, flight="holder", token=1, policy=POLICY)
        assert await backend.parts(name) == set()
        granted = await grant(session, name)
        await backend.evict(name, "lease")
        assert not await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
        await grant(session, name)
        await backend.evict(name, "record")
        again = await grant(session, name)
        await backend.evict(name, "record")
        assert await session.renew(name, flight="holder", token=again.token, policy=POLICY)
        assert await backend.parts(name) == {"lease"}

    async def test_a_renewal_keeps_the_record_too(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        granted = await grant(session, name)
        for _ in range(round(RECORD_SECONDS // 4) + 2):
            await backend.age(name, 4)
            assert await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
        assert await publish(session, name, granted)


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


class TestReleasing:
    async def test_a_released_lease_goes_to_a_woken_waiter(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        await held(other, name)
        assert await one.release(name, flight="holder")
        assert await heard.message(name) == Message("again", granted.token)
        assert (await grant(other, name, "waiter")).token > granted.token

    async def test_only_its_owner_releases_a_lease(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        assert not await other.release(name, flight="stranger")
        await grant(one, name)
        await held(other, name)
        assert not await other.release(name, flight="stranger")
        await held(other, name)
        assert heard.messages == []


class TestFallingBack:
    async def test_at_most_the_limit_at_once_and_each_with_its_own_token(
        self, backend: Backend, name: str
    ) -> None:
        policy = POLICY.replace(fallback_limit=2)
        session, _ = backend.open()
        granted = await grant(session, name)
        one = await session.fallback(name, flight="one", policy=policy)
        two = await session.fallback(name, flight="two", policy=policy)
        assert isinstance(one, Granted) and isinstance(two, Granted)
        assert granted.token < one.token < two.token
        assert isinstance(await session.fallback(name, flight="three", policy=policy), Denied)

    async def test_the_same_flight_does_not_take_a_second_slot(self, backend: Backend, name: str) -> None:
        policy = POLICY.replace(fallback_limit=2)
        session, _ = backend.open()
        for flight in ("one", "one", "one", "two", "two", "one"):
            assert isinstance(await session.fallback(name, flight=flight, policy=policy), Granted)
        assert isinstance(await session.fallback(name, flight="three", policy=policy), Denied)

    async def test_none_is_granted_where_the_limit_is_none(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        policy = POLICY.replace(fallback_limit=0)
        assert isinstance(await session.fallback(name, flight="one", policy=policy), Denied)
        assert await backend.parts(name) == set()

    async def test_a_slot_is_free_again_after_its_time(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        assert isinstance(await session.fallback(name, flight="one", policy=POLICY), Granted)
        await backend.age(name, POLICY.fallback_timeout + POLICY.lease_ttl - 0.5)
        assert isinstance(await session.fallback(name, flight="two", policy=POLICY), Denied)
        await backend.age(name, 0.6)
        assert isinstance(await session.fallback(name, flight="two", policy=POLICY), Granted)

    async def test_its_value_ends_the_wait_for_all(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        await held(other, name)
        beside = await other.fallback(name, flight="beside", policy=POLICY)
        assert isinstance(beside, Granted)
        assert await publish(other, name, beside, b"beside", flight="beside")
        message = await heard.message(name)
        assert message.reading is not None and message.reading.body == b"beside"
        assert await backend.parts(name) == {"value", "record", "lease"}
        assert not await publish(one, name, granted, b"too late")
        assert await backend.parts(name) == {"value", "record"}

    async def test_a_value_that_came_meanwhile_is_found(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        await fill(session, name)
        answer = await session.fallback(name, flight="beside", policy=POLICY)
        assert isinstance(answer, Found) and answer.reading.body == b"body"

    async def test_a_failed_one_keeps_its_slot(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        beside = await session.fallback(name, flight="one", policy=POLICY)
        assert isinstance(beside, Granted)
        assert await fail(session, name, beside, flight="one", policy=POLICY.replace(error_ttl=0))
        assert isinstance(await session.fallback(name, flight="two", policy=POLICY), Denied)


class TestTakingOver:
    async def test_a_dead_holder_is_replaced_at_the_second_sighting_and_not_before(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        granted = await grant(one, name)
        await backend.lose(one)
        assert (await held(other, name)).suspect
        assert (await held(other, name)).suspect
        await backend.age(name, 2)
        assert (await grant(other, name, "waiter")).token > granted.token

    async def test_a_holder_whose_inbox_lives_is_never_superseded(self, backend: Backend, name: str) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        granted = await grant(one, name)
        for _ in range(10):
            assert not (await held(other, name)).suspect
            await backend.age(name, 1)
            assert await one.renew(name, flight="holder", token=granted.token, policy=POLICY)

    async def test_a_renewal_forgets_the_sighting(self, backend: Backend, name: str) -> None:
        (one, _), (other, _), (back, _) = backend.open(), backend.open(), backend.open()
        granted = await grant(one, name)
        await back.read(name)
        await backend.lose(one)
        assert (await held(other, name)).suspect
        # What follows a closing brace is not hashed: in a cluster it is the same master.
        await grant(back, name + "}-so-that-its-inbox-is-there")
        assert await back.renew(name, flight="holder", token=granted.token, policy=POLICY)
        await backend.age(name, 2.1)
        assert not (await held(other, name)).suspect
        await backend.lose(back)
        assert (await held(other, name)).suspect, "a second death is seen twice again"

    async def test_a_superseded_holder_cannot_end_the_new_lease(self, backend: Backend, name: str) -> None:
        (one, _), (other, _), (ghost, _) = backend.open(), backend.open(), backend.open()
        granted = await grant(one, name)
        await backend.lose(one)
        await held(other, name)
        await backend.age(name, 2.1)
        await grant(other, name, "waiter")
        assert not await ghost.renew(name, flight="holder", token=granted.token, policy=POLICY)
        assert not await ghost.release(name, flight="holder")
        assert "lease" in await backend.parts(name)


class TestForgetting:
    @pytest.mark.parametrize("part", ["value", "failure", "record", "lease", "waiters", "slots"])
    async def test_after_any_eviction_the_entry_can_be_computed_again(
        self, backend: Backend, name: str, part: Part
    ) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        if part == "value":
            await fill(one, name)
        elif part == "failure":
            await fail(one, name, await grant(one, name))
        else:
            await grant(one, name)
            await held(other, name)
            await one.fallback(name, flight="beside", policy=POLICY)
        assert part in await backend.parts(name)
        await backend.evict(name, part)
        await backend.age(name, POLICY.lease_ttl + 0.1)
        again = await grant(other, name, "other")
        assert await publish(other, name, again, flight="other")

    async def test_evicted_slots_are_free_slots(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        assert isinstance(await session.fallback(name, flight="one", policy=POLICY), Granted)
        await backend.evict(name, "slots")
        assert isinstance(await session.fallback(name, flight="two", policy=POLICY), Granted)

    async def test_evicted_waiters_are_not_woken_and_nothing_breaks(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        granted = await grant(one, name)
        await held(other, name)
        await backend.evict(name, "waiters")
        assert await publish(one, name, granted)
        next_ = await grant(one, name + "-next")
        await held(other, name + "-next")
        await publish(one, name + "-next", next_)
        await heard.message(name + "-next")
        assert heard.about(name) == []

    async def test_nothing_is_kept_for_ever(self, backend: Backend, name: str) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        await fail(one, name, await grant(one, name))
        await backend.age(name, 6.1)
        await fill(one, name)
        await backend.age(name, 21)
        await grant(one, name)
        await held(other, name)
        await one.fallback(name, flight="beside", policy=POLICY)
        assert await backend.parts(name) == {"value", "record", "lease", "waiters", "slots"}
        await backend.age(name, RECORD_SECONDS + 1)
        assert await backend.parts(name) - {"waiters"} == set()
        # Waiters alone: gone by their own lifetime, or with the next write to any other entry.
        await grant(one, name + "-other")
        assert await backend.parts(name) == set()
