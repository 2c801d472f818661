"""What every store must do with a value that no computation made: it takes a token first, and obeys fences."""

from __future__ import annotations

from stampede_guard.core.scripts import Found
from tests.support.asking import POLICY, fail, fill, grant, held, publish, put
from tests.support.backends import Backend
from tests.support.gate import until


class TestStamps:
    async def test_a_stamped_value_is_stored_and_no_lease_is_taken(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        stamped = await session.stamp(name, policy=POLICY)
        assert await backend.parts(name) == {"record"}
        assert await put(session, name, stamped)
        reading = await session.read(name)
        assert reading is not None
        assert reading[:4] == (b"put", stamped.token, 30_000, 10_000)
        assert await backend.parts(name) == {"value", "record"}

    async def test_tokens_grow_whoever_takes_them(self, backend: Backend, name: str) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        tokens = [
            (await one.stamp(name, policy=POLICY)).token,
            (await other.stamp(name, policy=POLICY)).token,
            (await grant(one, name)).token,
            (await other.stamp(name, policy=POLICY)).token,
            await one.invalidate(name, policy=POLICY),
            (await other.stamp(name, policy=POLICY)).token,
        ]
        assert tokens == sorted(set(tokens))

    async def test_its_value_wakes_those_who_wait_for_an_older_computation(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        older = await grant(one, name)
        answer = await held(other, name)
        stamped = await other.stamp(name, policy=POLICY)
        assert await put(other, name, stamped)
        message = await heard.message(name)
        assert (message.kind, message.token) == ("value", stamped.token)
        assert message.token > answer.fence, "the waiter may believe it"
        assert await backend.parts(name) == {"value", "record", "lease"}, "its holder goes on"
        assert not await publish(one, name, older), "and what it computed is refused"
        reading = await one.read(name)
        assert reading is not None and reading.body == b"put"
        assert await backend.parts(name) == {"value", "record"}

    async def test_a_computation_that_began_later_is_newer(self, backend: Backend, name: str) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        stamped = await one.stamp(name, policy=POLICY)
        later = await grant(other, name)
        assert await publish(other, name, later, b"computed")
        assert not await put(one, name, stamped)
        reading = await one.read(name)
        assert reading is not None and reading.body == b"computed"

    async def test_what_an_invalidation_has_overtaken_is_refused(self, backend: Backend, name: str) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        stamped = await one.stamp(name, policy=POLICY)
        await other.invalidate(name, policy=POLICY)
        assert not await put(one, name, stamped)
        assert await one.read(name) is None

    async def test_the_latest_of_several_stamps_stays(self, backend: Backend, name: str) -> None:
        (one, _), (other, _) = backend.open(), backend.open()
        first = await one.stamp(name, policy=POLICY)
        second = await other.stamp(name, policy=POLICY)
        assert await put(other, name, second, b"second")
        assert not await put(one, name, first, b"first")
        reading = await one.read(name)
        assert reading is not None and reading.body == b"second"

    async def test_nothing_is_stored_under_a_record_that_was_lost(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        stamped = await session.stamp(name, policy=POLICY)
        await backend.evict(name, "record")
        assert not await put(session, name, stamped)

    async def test_its_value_ends_a_failure_and_is_found_by_the_next_flight(
        self, backend: Backend, name: str
    ) -> None:
        session, _ = backend.open()
        await fail(session, name, await grant(session, name))
        assert await put(session, name, await session.stamp(name, policy=POLICY))
        answer = await session.acquire(name, flight="next", policy=POLICY)
        assert isinstance(answer, Found) and answer.reading.body == b"put"

    async def test_copies_of_the_value_that_it_replaces_are_outdated(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        await until(lambda: other.hears_changes(name))
        await fill(one, name)
        stamped = await one.stamp(name, policy=POLICY)
        assert await put(one, name, stamped)
        await heard.until(lambda it: bool(it.changes))
        assert heard.changes == [(name, stamped.token)]
