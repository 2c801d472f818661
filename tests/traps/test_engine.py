"""The engine under faults: what was known before an invalidation is not served after it, and other sequences.

Each test is a short sequence of events, made certain by a store whose answers are held back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stampede_guard import Policy, StampedeGuard
from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import StoreUnavailable
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.support.gate import Gate, soon, until

KEY = "report:7"


class Database:
    """One number. `gate` holds a computation after it has read."""

    def __init__(self) -> None:
        self.number = 1
        self.computed = 0
        self.gate: Gate | None = None

    def __cache_key__(self) -> str:
        return "the database"  # the number is its content

    async def read(self) -> int:
        self.computed += 1
        seen, gate = self.number, self.gate
        if gate is not None:
            await gate.hold()
        return seen


def guard_on(store: Any, **fields: Any) -> StampedeGuard:
    return StampedeGuard(store, namespace="traps", policy=Policy(ttl=300.0, **fields))


def name_of(guard: StampedeGuard) -> str:
    return f"{guard.prefix}={KEY}"


class Held:
    """Answers of one of a session's methods are held back until `arrive`; or, with `instead`, never come."""

    def __init__(self, guard: StampedeGuard, method: str, *, instead: Exception | None = None) -> None:
        self._runtime = runtime = guard.engine.runtime()
        self._method = method
        self._inner = inner = getattr(runtime.session, method)
        self._gate = gate = Gate()

        async def held(*args: Any, **kwargs: Any) -> Any:
            answer = await inner(*args, **kwargs) if instead is None else None
            await gate.hold()
            if instead is not None:
                raise instead
            return answer

        self._put(lambda *args, **kwargs: asyncio.ensure_future(held(*args, **kwargs)))

    def _put(self, method: Any) -> None:
        setattr(self._runtime.session, self._method, method)
        if self._method == "read":
            self._runtime.read = method

    async def answered(self) -> None:
        await self._gate.arrival()

    def arrive(self) -> None:
        self._put(self._inner)
        self._gate.open()


class Lost:
    """One of a session's methods fails until `heal`."""

    def __init__(self, guard: StampedeGuard, method: str) -> None:
        self._session = session = guard.engine.runtime().session
        self._method, self._inner = method, getattr(session, method)

        async def lost(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("no answer")

        setattr(session, method, lost)

    def heal(self) -> None:
        setattr(self._session, self._method, self._inner)


Face = Callable[[StampedeGuard, Database], tuple[Callable[[], Awaitable[Any]], Callable[[], Awaitable[str]]]]


def keyed(guard: StampedeGuard, source: Database) -> Any:
    return lambda: guard.get_or_compute(KEY, source.read), lambda: guard.invalidate(KEY)


def decorated(guard: StampedeGuard, source: Database) -> Any:
    call = guard.locked_cache(name="read")(source.read)
    return call, call.invalidate


def decorated_with_tags(guard: StampedeGuard, source: Database) -> Any:
    async def read(project: int) -> int:
        return await source.read()

    call = guard.locked_cache(name="read", tags=["project:{project}"])(read)
    return lambda: call(7), lambda: guard.invalidate_tag("project:7")


def tagged(guard: StampedeGuard, source: Database) -> Any:
    return lambda: guard.get_or_compute(KEY, source.read, tags=["t"]), lambda: guard.invalidate_tag("t")


def many(guard: StampedeGuard, source: Database) -> Any:
    async def read(ids: list[int]) -> dict[int, int]:
        seen = await source.read()
        return dict.fromkeys(ids, seen)

    call = guard.cached_many(name="many")(read)

    async def one() -> int:
        return (await call([7]))[7]  # type: ignore[no-any-return]

    return one, lambda: call.invalidate([7])


def single(guard: StampedeGuard, source: Database) -> Any:
    async def block() -> Any:
        async with guard.single(KEY) as entry:
            if entry.missing:
                await entry.set(await source.read())
        return entry.value

    return block, lambda: guard.invalidate(KEY)


def tenant(guard: StampedeGuard, source: Database) -> Any:
    return keyed(guard.within("acme"), source)


FACES = [keyed, decorated, decorated_with_tags, tagged, many, single, tenant]
faces = pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)


# --- a pending invalidation is obeyed in its own process --------------------------------------------------


def invalidating(face: Face) -> str:
    """The session's method that an invalidation by this face calls."""
    return "drop_tag" if "tag" in face.__name__ else "invalidate"


@faces
@pytest.mark.parametrize("l1_ttl", [0.0, 300.0])
async def test_a_read_answered_during_an_invalidation_that_turns_out_pending_is_not_remembered(
    face: Face, l1_ttl: float
) -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store, l1_ttl=l1_ttl) as here, guard_on(store) as there:
        # Known to the store, and not to this process.
        assert await face(there, source)[0]() == 1
        ask, invalidate = face(here, source)
        here.engine.runtime().session.hears_changes("traps:x")
        read = Held(here, "read")
        reading = asyncio.ensure_future(ask())
        await read.answered()
        command = Held(here, invalidating(face), instead=StoreUnavailable("no answer"))
        source.number = 2
        told = asyncio.ensure_future(invalidate())
        await command.answered()
        read.arrive()
        assert await soon(reading) == 1, "it came before"
        store.fail()
        command.arrive()
        assert await soon(told) == "pending"
        assert await soon(ask()) == 2, "this process serves what it has itself invalidated"
        store.recover()
        await until(lambda: not here.engine.runtime().away)
        assert await soon(ask()) == 2


@faces
async def test_a_read_that_was_on_its_way_is_not_remembered_when_it_is_answered_after_a_pending_invalidation(
    face: Face,
) -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store, l1_ttl=300.0) as here, guard_on(store) as there:
        assert await face(there, source)[0]() == 1
        ask, invalidate = face(here, source)
        here.engine.runtime().session.hears_changes("traps:x")
        read = Held(here, "read")
        reading = asyncio.ensure_future(ask())
        await read.answered()
        store.fail()
        source.number = 2
        assert await soon(invalidate()) == "pending"
        read.arrive()
        assert await soon(reading) == 1
        assert await soon(ask()) == 2


# --- a store that refuses writes does not bring back what was invalidated ----------------------------------


@faces
async def test_what_another_process_has_invalidated_is_not_served_while_writes_are_refused(
    face: Face,
) -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store) as here, guard_on(store) as there:
        ask, _ = face(here, source)
        assert await ask() == 1
        assert await face(there, source)[0]() == 1
        source.number = 2
        assert await face(there, source)[1]() == "done"
        store.refuse_writes()
        assert await soon(ask()) == 2, "reads work, so this process knows that the value is gone"
        assert await soon(ask()) == 2
        source.number = 3
        assert await face(there, source)[1]() == "done"
        assert await soon(ask()) == 3, "nor what it has computed itself meanwhile"


async def test_while_writes_are_refused_what_was_computed_meanwhile_still_counts() -> None:
    store, source = FaultyStore(), Database()
    store.refuse_writes()
    async with guard_on(store) as here:
        for _ in range(5):
            assert await here.get_or_compute(KEY, source.read) == 1
        assert source.computed == 1, "every call would compute"


# --- what is pending is known to all event loops of a guard ------------------------------------------------


async def in_thread(call: Callable[[], Any]) -> Any:
    return await soon(asyncio.to_thread(call))


def from_plain_code(guard: StampedeGuard, tags: tuple[str, ...]) -> str:
    """As a cached plain function invalidates. It may run in an event loop's thread, and then blocks that loop."""
    return portal().call(guard.invalidate_tag, "t") if tags else portal().call(guard.invalidate, KEY)


@pytest.mark.parametrize("tags", [(), ("t",)], ids=["entry", "tag"])
@pytest.mark.parametrize("where", ["in a thread", "in the event loop itself"])
@pytest.mark.parametrize("within", ["", "acme"], ids=["guard", "tenant"])
async def test_a_pending_invalidation_of_another_event_loop_is_obeyed(
    tags: tuple[str, ...], where: str, within: str
) -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store, l1_ttl=300.0) as root:
        guard = root.within(within) if within else root
        ask = lambda: guard.get_or_compute(KEY, source.read, tags=tags)  # noqa: E731
        guard.engine.runtime().session.hears_changes("traps:x")
        assert [await ask(), await ask()] == [1, 1]
        source.number = 2
        store.fail()
        invalidate = lambda: from_plain_code(guard, tags)  # noqa: E731
        told = await in_thread(invalidate) if where == "in a thread" else invalidate()
        assert told == "pending"
        # In this very turn of the event loop.
        assert await soon(ask()) == 2
        source.number = 3
        store.recover()
        await until(lambda: not guard.engine.runtime().away)
        assert await soon(ask()) == 3, "and it was applied"


@pytest.mark.parametrize("tags", [(), ("t",)], ids=["entry", "tag"])
async def test_a_copy_of_another_event_loop_goes_in_the_same_turn(tags: tuple[str, ...]) -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store, l1_ttl=300.0) as guard:
        ask = lambda: guard.get_or_compute(KEY, source.read, tags=tags)  # noqa: E731
        guard.engine.runtime().session.hears_changes("traps:x")
        await ask()
        assert await ask() == 1 and len(guard.engine.runtime().l1) == 1
        source.number = 2
        assert from_plain_code(guard, tags) == "done"
        assert await soon(ask()) == 2


async def test_a_read_answered_while_another_event_loop_invalidates_in_vain_is_remembered_nowhere() -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store, l1_ttl=300.0) as here, guard_on(store) as there:
        assert await there.get_or_compute(KEY, source.read) == 1
        here.engine.runtime().session.hears_changes("traps:x")
        read = Held(here, "read")
        reading = asyncio.ensure_future(here.get_or_compute(KEY, source.read))
        await read.answered()
        store.fail()
        source.number = 2
        assert await in_thread(lambda: here.sync.invalidate(KEY)) == "pending"
        read.arrive()
        assert await soon(reading) == 1
        assert await soon(here.get_or_compute(KEY, source.read)) == 2
        store.recover()
        await until(lambda: not here.engine.runtime().away)


async def test_a_flight_of_before_is_nothing_for_who_comes_after_a_pending_invalidation_of_another_loop() -> (
    None
):
    store, source = FaultyStore(), Database()
    async with guard_on(store) as guard:
        store.fail()
        source.gate = gate = Gate()
        before = asyncio.ensure_future(guard.get_or_compute(KEY, source.read))
        await gate.arrival()
        source.number, source.gate = 2, None
        assert from_plain_code(guard, ()) == "pending"
        gate.open()
        after = asyncio.ensure_future(guard.get_or_compute(KEY, source.read))
        assert [await soon(before), await soon(after)] == [1, 2]
        store.recover()


async def test_what_is_pending_when_its_event_loop_ends_is_applied_by_another() -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store) as guard, guard_on(store) as other:
        assert await guard.get_or_compute(KEY, source.read) == 1
        store.fail()
        source.number = 2

        async def invalidate() -> str:
            told = await guard.invalidate(KEY)
            await guard.aclose()
            return told

        assert await in_thread(lambda: asyncio.run(invalidate())) == "pending"
        assert guard.engine.runtime().away, "it waits in the event loop that is left"
        store.recover()
        await until(lambda: not guard.engine.runtime().away)
        assert await soon(other.get_or_compute(KEY, source.read)) == 2


# --- a flight that computes while an invalidation turns out pending ----------------------------------------


@faces
async def test_who_joins_after_a_pending_invalidation_gets_nothing_from_before_though_the_store_took_it(
    face: Face,
) -> None:
    store, source = FaultyStore(), Database()
    source.gate = gate = Gate()
    async with guard_on(store) as guard:
        ask, invalidate = face(guard, source)
        before = asyncio.ensure_future(ask())
        await gate.arrival()
        # The command does not get through, and all others do.
        lost = Lost(guard, invalidating(face))
        source.number, source.gate = 2, None
        assert await soon(invalidate()) == "pending"
        after = asyncio.ensure_future(ask())
        await asyncio.sleep(0)
        gate.open()
        assert await soon(before) == 1
        assert await soon(after) == 2, "it came after the invalidation"
        lost.heal()
        await until(lambda: not guard.engine.runtime().away)
        assert await soon(ask()) == 2


# --- after a refresh nothing older is served ---------------------------------------------------------------


@pytest.mark.parametrize("held", [False, True], ids=["copy", "read on its way"])
async def test_after_a_refresh_no_older_copy_is_served(held: bool) -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store, l1_ttl=300.0) as guard:
        call = guard.locked_cache(name="read")(source.read)
        guard.engine.runtime().session.hears_changes("traps:x")
        await call()
        assert await call() == 1
        runtime = guard.engine.runtime()
        # No message tells of the change.
        store.memory.tell_watchers = lambda *_: None  # type: ignore[method-assign]
        reading = None
        if held:
            runtime.l1.drop("traps:" + call.key().partition(":")[2])
            read = Held(guard, "read")
            reading = asyncio.ensure_future(call())
            await read.answered()
            runtime.session.read = runtime.read = read._inner
        source.number = 2
        assert await call.refresh() == 2
        if reading is not None:
            read.arrive()
            await soon(reading)
        assert await call() == 2


async def test_after_a_refresh_no_event_loop_serves_an_older_copy() -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store, l1_ttl=300.0) as guard:
        call = guard.locked_cache(name="read")(source.read)
        guard.engine.runtime().session.hears_changes("traps:x")
        await call()
        assert await call() == 1
        store.memory.tell_watchers = lambda *_: None  # type: ignore[method-assign]
        source.number = 2
        assert await in_thread(lambda: asyncio.run(_refreshed(guard, call))) == 2
        assert await call() == 2


async def _refreshed(guard: StampedeGuard, call: Any) -> Any:
    try:
        return await call.refresh()
    finally:
        await guard.aclose()


async def test_after_a_refresh_without_the_store_no_event_loop_serves_an_older_value() -> None:
    store, source = FaultyStore(), Database()
    async with guard_on(store, l1_ttl=300.0) as guard:
        call = guard.locked_cache(name="read")(source.read)
        assert await call() == 1
        store.fail()
        source.number = 2
        assert await in_thread(lambda: asyncio.run(_refreshed(guard, call))) == 2
        assert await soon(call()) == 2
        store.recover()
        await until(lambda: not guard.engine.runtime().away)
        assert await soon(call()) == 2
