"""What every store must do with leases, waiters and fallbacks. A new store passes this or does not exist."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stampede_guard.core.scripts import Denied, Found, Granted, Message
from tests.support.asking import POLICY, fail, fill, grant, held, publish
from tests.support.backends import Backend, Part

RECORD_SECONDS = POLICY.record_ms / 1000


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

    async def test_the_same_flight_asking_again_has_the_whole_lease_time_before_it(
        self, backend: Backend, name: str
    ) -> None:
        (session, _), (other, _) = backend.open(), backend.open()
        granted = await grant(session, name)
        await backend.age(name, 7)
        assert await grant(session, name) == granted
        await backend.age(name, 7)
        await held(other, name)
        await backend.age(name, 3.1)
        assert await grant(other, name, "other") != granted

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


class TestAdmitting:
    async def test_a_grant_is_admitted_until_its_entry_is_invalidated(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        granted = await grant(one, name)
        assert await other.admits(name, granted)
        assert await one.release(name, flight="holder")
        assert await other.admits(name, granted), "without its lease, too"
        await other.invalidate(name, policy=POLICY)
        assert not await one.admits(name, granted)
        assert await one.admits(name, await grant(other, name, "next"))

    async def test_asking_makes_nothing(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        assert not await session.admits(name, Granted(1, "epoch"))
        granted = await grant(session, name)
        assert not await session.admits(name, replace(granted, epoch="another"))
        await backend.evict(name, "record")
        assert not await session.admits(name, granted)


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

    @pytest.mark.parametrize("what", ["fallback_timeout", "lease_ttl"])
    async def test_a_slot_lasts_as_long_as_its_taker_was_given_also_for_a_process_with_shorter_times(
        self, backend: Backend, name: str, what: str
    ) -> None:
        session, _ = backend.open()
        policy = POLICY.replace(compute_timeout=1.0)
        longer = policy.replace(**{what: 25.0})
        assert isinstance(await session.fallback(name, flight="one", policy=longer), Granted)
        assert isinstance(await session.fallback(name, flight="two", policy=policy), Denied)
        await backend.age(name, longer.fallback_timeout + longer.lease_ttl - 0.5)
        assert isinstance(await session.fallback(name, flight="two", policy=policy), Denied)
        await backend.age(name, 0.6)
        assert isinstance(await session.fallback(name, flight="two", policy=policy), Granted)

    async def test_a_flight_that_asks_again_with_other_times_has_one_slot(
        self, backend: Backend, name: str
    ) -> None:
        policy = POLICY.replace(fallback_limit=2)
        session, _ = backend.open()
        for times in (policy, policy.replace(lease_ttl=9.0), policy):
            assert isinstance(await session.fallback(name, flight="one", policy=times), Granted)
        assert isinstance(await session.fallback(name, flight="two", policy=policy), Granted)
        assert await session.release(name, flight="one")
        assert isinstance(await session.fallback(name, flight="three", policy=policy), Granted)

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
        looks = [await held(other, name), await held(other, name)]
        assert [(look.suspect, look.first) for look in looks] == [(True, True), (True, False)]
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
