"""What cannot be stored is served: to the callers of its flight, and to no later ones."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stampede_guard import Policy, StampedeGuard, UnsupportedValue, locked_cache
from stampede_guard.errors import WaitTimeout
from stampede_guard.events import NotStored
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, soon
from tests.support.guards import Guards, joined


class Row:
    """Of a class that no codec knows."""


class Source:
    """Makes one object per run."""

    def __init__(self, make: Callable[[], Any] = Row) -> None:
        self.gate = Gate()
        self.made: list[Any] = []
        self._make = make

    async def __call__(self, *_: Any) -> Any:
        await self.gate.hold()
        self.made.append(self._make())
        return self.made[-1]


async def test_all_callers_of_one_flight_get_the_object_and_a_later_one_another(guards: Guards) -> None:
    guard, source = guards.guard(), Source()
    calls = [asyncio.create_task(guard.get_or_compute("k", source)) for _ in range(5)]
    await source.gate.arrival()
    await joined(guard, guards.name("k"), 5)
    source.gate.open()
    values = await soon(asyncio.gather(*calls))
    assert len(source.made) == 1 and all(value is source.made[0] for value in values)
    assert await guard.get_or_compute("k", source) is source.made[1]


@dataclasses.dataclass
class Wrapped:
    row: Row
    labels: list[str]


async def test_plain_data_around_the_object_is_each_callers_own(guards: Guards) -> None:
    guard, source = guards.guard(), Source(lambda: {"rows": [Wrapped(Row(), ["a"])]})
    calls = [asyncio.create_task(guard.get_or_compute("k", source)) for _ in range(3)]
    await source.gate.arrival()
    await joined(guard, guards.name("k"), 3)
    source.gate.open()
    values = await soon(asyncio.gather(*calls))
    for value in values:
        value["rows"][0].labels.append("mine")
        value["mine"] = 1
    assert [value["rows"][0].labels for value in values] == [["a", "mine"]] * 3
    assert len({id(value["rows"][0].row) for value in values}) == 1


class Loose(msgspec.Struct, dict=True):
    labels: list[str]


def loose() -> Loose:
    made = Loose(["a"])
    made.extra = ["b"]  # type: ignore[attr-defined]
    return made


async def test_a_struct_with_more_than_its_fields_is_copied_with_all_of_it(guards: Guards) -> None:
    guard, source = guards.guard(), Source(loose)
    calls = [asyncio.create_task(guard.get_or_compute("k", source)) for _ in range(3)]
    await source.gate.arrival()
    await joined(guard, guards.name("k"), 3)
    source.gate.open()
    values = await soon(asyncio.gather(*calls))
    assert [(value.labels, value.extra) for value in values] == [(["a"], ["b"])] * 3
    assert len({id(value.extra) for value in values}) == 3


async def test_callers_that_share_do_not_share_with_the_others(guards: Guards) -> None:
    guard, source = guards.guard(), Source(lambda: {"row": Row()})
    shares = [True, False, True, False]
    calls = [asyncio.create_task(guard.get_or_compute("k", source, share=share)) for share in shares]
    await source.gate.arrival()
    await joined(guard, guards.name("k"), 4)
    source.gate.open()
    one, own, other, second = await soon(asyncio.gather(*calls))
    assert one is other and len({id(value) for value in (one, own, second)}) == 3
    assert len(source.made) == 1


def deep() -> Any:
    value: Any = [Row()]
    for _ in range(60):
        value = [value]
    return value


@pytest.mark.parametrize("make", [deep, lambda: [[Row()] for _ in range(25_000)]], ids=["deep", "large"])
async def test_what_cannot_be_copied_is_not_shared_either(guards: Guards, make: Callable[[], Any]) -> None:
    guard, source = guards.guard(), Source(make)
    calls = [asyncio.create_task(guard.get_or_compute("k", source)) for _ in range(3)]
    await source.gate.arrival()
    await joined(guard, guards.name("k"), 3)
    source.gate.open()
    assert len({id(value) for value in await soon(asyncio.gather(*calls))}) == 3


async def test_an_object_of_one_request_is_not_given_to_another(guards: Guards) -> None:
    guard, gate = guards.guard(ttl=60), Gate()

    @locked_cache(guard=guard, unkeyed=("session",))
    async def load(session: str) -> Any:
        await gate.hold()
        row: Any = Row()
        row.session = session
        return row

    names = [f"session {number}" for number in range(3)]
    calls = [asyncio.create_task(load(name)) for name in names]
    await gate.arrival()
    await joined(guard, load.key(""), 3)
    gate.open()
    assert [row.session for row in await soon(asyncio.gather(*calls))] == names


async def test_a_caller_that_joins_a_computation_with_tags_gets_its_object(guards: Guards) -> None:
    guard, source = guards.guard(), Source()
    call = asyncio.create_task(guard.get_or_compute("k", source, tags=("t",)))
    await source.gate.arrival()
    late = asyncio.create_task(guard.get_or_compute("k", source, tags=("t",)))
    await joined(guard, guards.name("k"), 2)
    source.gate.open()
    assert await soon(asyncio.gather(call, late)) == [source.made[0]] * 2
    assert len(source.made) == 1


async def test_a_caller_that_comes_after_its_tag_was_invalidated_gets_another_object(guards: Guards) -> None:
    guard, source = guards.guard(), Source()
    call = asyncio.create_task(guard.get_or_compute("k", source, tags=("t",)))
    await source.gate.arrival()
    await guard.invalidate_tag("t")
    late = asyncio.create_task(guard.get_or_compute("k", source, tags=("t",)))
    await joined(guard, guards.name("k"), 2)
    source.gate.open()
    first, second = await soon(asyncio.gather(call, late))
    assert first is source.made[0] and second is source.made[1]


async def test_other_processes_compute_for_themselves(guards: Guards) -> None:
    here, there, source = guards.guard(), guards.guard(), Source()
    calls = [asyncio.create_task(here.get_or_compute("k", source))]
    await source.gate.arrival()
    calls += [asyncio.create_task(there.get_or_compute("k", source)) for _ in range(3)]
    await joined(there, guards.name("k"), 3)
    source.gate.open()
    first, *others = await soon(asyncio.gather(*calls))
    assert first is source.made[0] and {id(value) for value in others} == {id(source.made[1])}
    assert len(source.made) == 2


async def test_what_serves_one_caller_only_is_computed_by_each(guards: Guards) -> None:
    def numbers() -> Any:
        yield from (1, 2, 3)

    guard, source = guards.guard(), Source(numbers)
    calls = [asyncio.create_task(guard.get_or_compute("k", source)) for _ in range(3)]
    await source.gate.arrival()
    await joined(guard, guards.name("k"), 3)
    source.gate.open()
    values = await soon(asyncio.gather(*calls))
    assert len(source.made) == 3
    assert [list(value) for value in values] == [[1, 2, 3]] * 3


async def test_every_face_serves_it(guards: Guards) -> None:
    guard = guards.guard(ttl=60)
    row = Row()

    @locked_cache(guard=guard, tags=("project:{project}",))
    async def tagged(project: int) -> Any:
        return row

    @locked_cache(guard=guard)
    def plain(project: int) -> Any:
        return row

    @locked_cache(guard=guard)
    async def declared(project: int) -> dict[str, int]:
        return {"a": row}  # type: ignore[dict-item]

    @guard.cached_many(ttl=60)
    async def many(ids: list[int]) -> dict[int, Any]:
        return {id: row for id in ids if id}

    for _ in range(2):
        assert await tagged(1) is row
        assert await asyncio.to_thread(plain, 1) is row
        assert (await declared(1))["a"] is row
        assert await many([0, 1, 2]) == {1: row, 2: row}
    async with guard.single("k", ttl=60) as entry:
        assert await entry.set(row) is row
    with guard.bypassed():
        assert await tagged(1) is row
    assert await tagged.refresh(1) is row


async def test_a_fallback_serves_it(guards: Guards) -> None:
    slow = guards.guard()
    quick = guards.guard(wait_timeout=0.3, poll_interval=0.1)
    source, row = Source(), Row()

    async def fallback() -> Any:
        return row

    holder = asyncio.create_task(slow.get_or_compute("k", source))
    await source.gate.arrival()
    assert await soon(quick.get_or_compute("k", fallback, tags=("t",))) is row
    source.gate.open()
    await soon(holder)


async def test_without_the_store_it_is_served(namespace: str) -> None:
    async with StampedeGuard.from_url("redis://127.0.0.1:1", namespace=namespace) as guard:
        row = Row()

        async def compute() -> Any:
            return row

        assert await soon(guard.get_or_compute("k", compute)) is row
        assert await soon(guard.get_or_compute("k", compute)) is row


async def test_one_error_per_function_says_what_to_write_and_each_value_is_an_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[Any] = []
    async with StampedeGuard(MemoryStore(), namespace="shop", hooks=(events.append,)) as guard:

        @locked_cache(guard=guard, name="shop.rows")
        async def rows(project: int) -> Any:
            return Row()

        with caplog.at_level(logging.ERROR, logger="stampede_guard"):
            for project in range(3):
                await rows(project)
    (record,) = caplog.records
    assert "shop.rows: its results are served, but not cached" in record.getMessage()
    assert "annotate the function" in record.getMessage()
    told = [(event.function, event.kind) for event in events if isinstance(event, NotStored)]
    assert told == [("shop.rows", "unsupported")] * 3


async def test_strict_makes_it_an_error_of_all_callers(guards: Guards) -> None:
    guard, other = guards.guard(strict=True), guards.guard(strict=True)
    source = Source()
    source.gate.open()
    for each in (guard, other):
        with pytest.raises(UnsupportedValue, match="tests Row"):
            await each.get_or_compute("k", source)
    assert len(source.made) == 1


async def test_strict_fallbacks_fail(guards: Guards) -> None:
    slow, quick = guards.guard(), guards.guard(wait_timeout=0.3, poll_interval=0.1, strict=True)
    source = Source()
    holder = asyncio.create_task(slow.get_or_compute("k", source))
    await source.gate.arrival()

    async def fallback() -> Any:
        return Row()

    with pytest.raises(WaitTimeout):
        await soon(quick.get_or_compute("k", fallback))
    source.gate.open()
    await soon(holder)


def test_the_test_kit_is_strict(stampede_guard_memory: StampedeGuard) -> None:
    @locked_cache(ttl=60)
    def rows() -> Any:
        return Row()

    with pytest.raises(UnsupportedValue):
        rows()
    assert Policy().strict is False
