"""What every store must do with a key whose value may not be stored."""

from __future__ import annotations

from stampede_guard.core.scripts import Granted, Held, Message, Uncacheable
from stampede_guard.stores.protocol import Session
from tests.support.asking import POLICY, fail, fill, grant, held, publish
from tests.support.backends import Backend

TWO = POLICY.replace(uncacheable_limit=2, uncacheable_ttl=6)


async def mark(session: Session, name: str, granted: Granted, flight: str = "holder") -> bool:
    return await session.publish(
        name, flight=flight, grant=granted, outcome="pass", body=b"private", policy=TWO
    )


async def uncacheable(session: Session, name: str, flight: str) -> Granted:
    answer = await session.acquire(name, flight=flight, policy=TWO)
    assert isinstance(answer, Uncacheable), answer
    return answer.grant


async def test_what_may_not_be_stored_is_not_stored_and_does_not_travel(backend: Backend, name: str) -> None:
    (one, _), (other, heard) = backend.open(), backend.open()
    granted = await grant(one, name)
    await held(other, name)
    assert await mark(one, name, granted)
    assert await heard.message(name) == Message("again", granted.token)
    assert await one.read(name) is None
    assert await backend.parts(name) == {"failure", "record"}


async def test_as_many_as_the_limit_are_let_through_at_once(backend: Backend, name: str) -> None:
    (one, _), (other, heard) = backend.open(), backend.open()
    await mark(one, name, await grant(one, name))
    first, second = await uncacheable(one, name, "first"), await uncacheable(other, name, "second")
    assert second.token > first.token and not first.leased
    answer = await other.acquire(name, flight="third", policy=TWO)
    assert isinstance(answer, Held) and not answer.suspect
    assert await mark(one, name, first, "first")
    assert (await heard.message(name)).kind == "again"
    await uncacheable(other, name, "third")


async def test_a_failed_or_released_one_gives_its_slot_back(backend: Backend, name: str) -> None:
    session, _ = backend.open()
    await mark(session, name, await grant(session, name))
    first = await uncacheable(session, name, "first")
    await uncacheable(session, name, "second")
    assert await fail(session, name, first, flight="first", policy=POLICY.replace(error_ttl=0))
    await uncacheable(session, name, "third")
    assert await session.release(name, flight="third")
    assert not await session.release(name, flight="third")
    await uncacheable(session, name, "fourth")


async def test_a_value_that_may_be_stored_ends_it(backend: Backend, name: str) -> None:
    session, _ = backend.open()
    await mark(session, name, await grant(session, name))
    through = await uncacheable(session, name, "first")
    assert await publish(session, name, through, flight="first")
    reading = await session.read(name)
    assert reading is not None and reading.token == through.token
    assert await backend.parts(name) == {"value", "record"}


async def test_an_invalidation_ends_it(backend: Backend, name: str) -> None:
    session, _ = backend.open()
    await mark(session, name, await grant(session, name))
    through = await uncacheable(session, name, "first")
    await session.invalidate(name, policy=POLICY)
    assert not await mark(session, name, through, "first")
    await grant(session, name, "second")


async def test_it_ends_by_itself(backend: Backend, name: str) -> None:
    session, _ = backend.open()
    await mark(session, name, await grant(session, name))
    await backend.age(name, 6.1)
    await grant(session, name, "second")
    assert isinstance(await session.acquire(name, flight="third", policy=TWO), Held)


async def test_a_grant_names_the_value_that_was_stored_at_its_moment(backend: Backend, name: str) -> None:
    session, _ = backend.open()
    old = await fill(session, name)
    assert old.replaces == 0
    await backend.age(name, 21)
    again = await grant(session, name)
    assert again.replaces == old.token
    await session.release(name, flight="holder")
    await session.invalidate(name, policy=POLICY)
    assert (await grant(session, name)).replaces == 0
