"""`guard.get` and `guard.set`: values without a computation, beside computations and invalidations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from stampede_guard import MISSING, Misuse, Policy, StampedeGuard, UnsupportedValue
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.support.clock import Clock
from tests.support.encryption import Rot
from tests.support.gate import Gate, until
from tests.support.listener import PATIENCE


@dataclass(frozen=True)
class Report:
    rows: int


@pytest.fixture(params=["memory", "valkey", "cluster", "encrypted"])
async def guards(
    request: pytest.FixtureRequest, namespace: str
) -> AsyncIterator[tuple[StampedeGuard, StampedeGuard]]:
    """Two processes, as far as flights and connections go, on one store."""
    made: list[StampedeGuard] = []
    store = MemoryStore()
    for _ in range(2):
        match request.param:
            case "memory":
                made.append(StampedeGuard(store, namespace=namespace))
            case "encrypted":
                made.append(StampedeGuard(store, namespace=namespace, encryption=Rot()))
            case "cluster":
                port = request.getfixturevalue("valkey_cluster").servers[0].port
                url = f"redis+cluster://127.0.0.1:{port}"
                made.append(StampedeGuard.from_url(url, namespace=namespace))
            case _:
                url = request.getfixturevalue("valkey_url")
                made.append(StampedeGuard.from_url(url, namespace=namespace))
    yield made[0], made[1]
    for guard in made:
        await guard.aclose()


async def computed(guard: StampedeGuard, value: Any = "computed", **options: Any) -> Any:
    async def compute() -> Any:
        return value

    return await guard.get_or_compute("report:7", compute, ttl=300, **options)


async def test_what_one_process_sets_every_process_gets(guards: tuple[StampedeGuard, StampedeGuard]) -> None:
    one, other = guards
    assert await other.get("report:7") is MISSING
    assert await one.set("report:7", {"rows": 3}, ttl="10m") == "stored"
    assert await other.get("report:7") == {"rows": 3} == await one.get("report:7")
    assert await computed(other) == {"rows": 3}, "a call computes nothing"
    assert await one.set("report:7", {"rows": 4}, ttl=300) == "stored"
    assert await other.get("report:7") == {"rows": 4}
    assert await other.invalidate("report:7") == "done"
    assert await one.get("report:7", default=None) is None
    assert await computed(one) == "computed"
    assert await other.get("report:7") == "computed", "it gets what was computed, too"


@pytest.mark.parametrize("value", [None, False, 0, "", b"", []])
async def test_nothing_is_a_value(guards: tuple[StampedeGuard, StampedeGuard], value: Any) -> None:
    one, other = guards
    await one.set("report:7", value, ttl=300)
    found = await other.get("report:7")
    assert found is not MISSING and found == value


async def test_a_declared_type_is_a_part_of_the_key(guards: tuple[StampedeGuard, StampedeGuard]) -> None:
    one, other = guards
    assert await one.set("report:7", Report(3), type=Report, ttl=300) == "stored"
    assert await other.get("report:7", type=Report) == Report(3)
    assert await other.get("report:7") is MISSING
    with pytest.raises(UnsupportedValue):
        await one.set("report:7", "three", type=Report, ttl=300)
    assert await other.get("report:7", type=Report) == Report(3)


async def test_a_look_with_another_type_than_that_of_set_is_told_once(
    guards: tuple[StampedeGuard, StampedeGuard], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = guards
    await one.set("report:7", Report(3), ttl=300)
    await other.get("report:8", type=Report)
    await other.get("report:7", type=Report)
    assert caplog.messages == [], "another process may have stored it"
    for _ in range(2):
        assert await one.get("report:7", type=Report) is MISSING
    (told,) = caplog.messages
    assert "guard.get with type=Report found nothing, because guard.set stored this key without type=" in told
    await one.set("report:7", Report(3), type=Report, ttl=300)
    assert await one.get("report:7") is not MISSING
    await one.invalidate("report:7")
    assert await one.get("report:7", type=Report, default=None) is None
    assert len(caplog.messages) == 1, "it was set with this type, and is invalidated"
    assert await one.get("report:7") is MISSING
    assert "guard.get without type= found nothing" in caplog.messages[1]


@pytest.mark.parametrize("call", ["get", "get_or_compute"])
async def test_a_value_with_tags_is_no_damaged_one_for_a_call_without_them(
    guards: tuple[StampedeGuard, StampedeGuard], caplog: pytest.LogCaptureFixture, call: str
) -> None:
    one, other = guards
    await one.set("report:7", {"rows": 3}, ttl=300, tags=("project:7",))

    async def compute() -> str:
        return "computed"

    if call == "get":
        assert await other.get("report:7") is MISSING
    else:
        assert await other.get_or_compute("report:7", compute) == "computed"
    assert caplog.messages, "nothing was said"
    assert all("stored with tags= counts as a miss: pass the same tags=" in told for told in caplog.messages)


async def test_a_computation_that_began_before_is_outdated(
    guards: tuple[StampedeGuard, StampedeGuard],
) -> None:
    one, other = guards
    gate = Gate()

    async def old() -> str:
        await gate.hold()
        return "old"

    slow = asyncio.create_task(one.get_or_compute("report:7", old, ttl=300))
    await gate.arrival()
    waiting = asyncio.create_task(computed(other, "never computed"))
    await until(lambda: other.engine.judged.is_computing)
    assert await other.set("report:7", "set", ttl=300) == "stored"
    assert await waiting == "set", "who waits elsewhere is woken with it"
    gate.open()
    assert await slow == "old", "its own caller came before"
    assert await other.get("report:7") == "set" == await one.get("report:7")
    assert await computed(one, "never computed") == "set"


async def test_those_who_wait_in_this_process_are_woken_too() -> None:
    guard, gate = StampedeGuard(MemoryStore()), Gate()

    async def old() -> str:
        await gate.hold()
        return "old"

    leader = asyncio.create_task(guard.get_or_compute("report:7", old, ttl=300))
    await gate.arrival()
    passengers = [asyncio.create_task(computed(guard, "never")) for _ in range(3)]
    await until(lambda: [flight.joined for flight in guard.engine.runtime().flights.values()] == [4])
    assert await guard.set("report:7", "set", ttl=300) == "stored"
    assert await asyncio.gather(*passengers) == ["set"] * 3
    assert not leader.done()
    gate.open()
    assert await leader == "old"
    assert await guard.get("report:7") == "set"
    await guard.aclose()


async def test_tags_outdate_a_value_that_was_set(guards: tuple[StampedeGuard, StampedeGuard]) -> None:
    one, other = guards
    tags = ("project:7",)
    assert await one.set("report:7", "set", ttl=300, tags=tags) == "stored"
    assert await other.get("report:7", tags=tags) == "set" == await computed(other, "no", tags=tags)
    assert await other.invalidate_tag("project:7") == "done"
    assert await one.get("report:7", tags=tags) is MISSING
    assert await one.set("report:7", "again", ttl=300, tags=tags) == "stored"
    assert await other.get("report:7", tags=tags) == "again"


async def test_a_tenants_values_are_its_own(guards: tuple[StampedeGuard, StampedeGuard]) -> None:
    one, other = guards
    await one.within("acme").set("report:7", "acme's", ttl=300)
    assert await other.get("report:7") is MISSING
    assert await other.within("acme").get("report:7") == "acme's"


async def test_copies_in_processes_follow(guards: tuple[StampedeGuard, StampedeGuard]) -> None:
    one, other = guards
    await one.set("report:7", 1, ttl=300, l1_ttl=60)

    await becomes(lambda: other.get("report:7", l1_ttl=60), 1, l1=other)
    assert await one.set("report:7", 2, ttl=300, l1_ttl=60) == "stored"
    assert await one.get("report:7", l1_ttl=60) == 2, "its own copy at once"
    await becomes(lambda: other.get("report:7", l1_ttl=60), 2)


async def becomes(ask: Callable[[], Awaitable[Any]], value: Any, *, l1: StampedeGuard | None = None) -> None:
    """Until it has this value, and with `l1` a copy of it."""
    async with asyncio.timeout(PATIENCE):
        while await ask() != value or (l1 is not None and not len(l1.engine.runtime().l1)):  # noqa: ASYNC110
            # A copy is served without a turn of the event loop, in which messages arrive.
            await asyncio.sleep(0.001)


async def test_a_stale_value_counts_as_missing() -> None:
    clock = Clock()
    guard = StampedeGuard(MemoryStore(clock=clock))
    await guard.set("report:7", "set", ttl=60, stale_ttl=3600)
    clock.advance(59)
    assert await guard.get("report:7") == "set"
    clock.advance(2)
    assert await guard.get("report:7") is MISSING
    await guard.aclose()


async def test_an_invalidation_during_the_call_is_newer() -> None:
    guard = StampedeGuard(MemoryStore())
    session = guard.engine.runtime().session
    publish = session.publish

    async def publish_late(name: str, **asked: Any) -> bool:
        await session.invalidate(name, policy=guard.policy)
        return await publish(name, **asked)

    session.publish = publish_late  # type: ignore[method-assign]
    assert await guard.set("report:7", "set", ttl=300) == "superseded"
    assert await guard.get("report:7") is MISSING
    await guard.aclose()


async def test_a_lost_record_drops_the_older_value() -> None:
    guard = StampedeGuard(MemoryStore())
    await guard.set("report:7", "old", ttl=300)
    session = guard.engine.runtime().session
    stamp = session.stamp

    async def stamp_of_another_record(name: str, **asked: Any) -> Any:
        granted = await stamp(name, **asked)
        return type(granted)(granted.token, "lost")

    session.stamp = stamp_of_another_record  # type: ignore[method-assign]
    assert await guard.set("report:7", "new", ttl=300) == "dropped"
    assert await guard.get("report:7") is MISSING, "the older value must not be served"
    await guard.aclose()


async def test_while_the_store_is_away_a_value_waits_and_this_process_has_it() -> None:
    store = FaultyStore()
    guard = StampedeGuard(store, policy=Policy(ttl=300))
    await guard.set("report:7", "old")
    store.fail()
    assert await guard.set("report:7", "new") == "pending"
    assert await guard.get("report:7") == "new"
    store.recover()
    name = guard.prefix + "=report:7"
    await until(lambda: not guard.engine.judged.is_away(name))
    assert await guard.get("report:7") is MISSING, "the old value is gone, and the new one was not stored"
    await guard.aclose()


async def test_modes_without_the_store_drop_the_older_value() -> None:
    guard = StampedeGuard(MemoryStore())
    await guard.set("report:7", "old", ttl=300)
    with guard.bypassed():
        assert await guard.get("report:7") is MISSING
        assert await guard.set("report:7", "new", ttl=300) == "dropped"
    assert await guard.get("report:7") is MISSING
    guard.mode = "off"
    assert await guard.set("report:7", "new", ttl=300) == "dropped"
    await guard.aclose()


async def test_what_cannot_be_stored_says_so() -> None:
    guard = StampedeGuard(MemoryStore())
    with pytest.raises(UnsupportedValue, match="max_value_bytes is 20"):
        await guard.set("report:7", "x" * 100, max_value_bytes=20, inline_bytes=20)
    with pytest.raises(UnsupportedValue):
        await guard.set("report:7", object())
    with pytest.raises(Misuse, match="is MISSING"):
        bool(await guard.get("report:8"))
    for call in (guard.set("report:7", 1, ttls=60), guard.get("report:7", tgas=("t",))):  # type: ignore[call-arg,call-overload]
        with pytest.raises(Misuse, match="do you mean"):
            await call
    await guard.aclose()
