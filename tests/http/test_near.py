"""Hits that do not leave the process (`l1_ttl`) for HTTP entries, and the messages that end them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stampede_guard import Policy, StampedeGuard
from stampede_guard.events import Event, Hit
from stampede_guard.policy import Limits
from tests.http.fleet import App, Fleet, cached, status_of
from tests.support.gate import soon, until

NEAR = Policy(l1_ttl=30.0)


@pytest.fixture(params=["memory", "valkey"])
def on(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield None if request.param == "memory" else request.getfixturevalue("valkey_url")


def counted(fleet: Fleet, process: int = 0) -> list[str]:
    """The reads of one process's store, from now on."""
    runtime = fleet.guards[process].engine.runtime()
    read, names = runtime.read, []

    def counting(name: str) -> Any:
        names.append(name)
        return read(name)

    runtime.read = counting  # type: ignore[method-assign]
    return names


def copies(guard: StampedeGuard) -> int:
    return len(guard.engine.runtime().l1)


async def warm(fleet: Fleet, path: str = "/", *, process: int = 0, entries: int = 1, **fields: str) -> None:
    """Until the process keeps a copy: it must be subscribed before."""

    async def asks() -> None:
        while copies(fleet.guards[process]) < entries:
            await fleet.get(path, process=process, **fields)

    await soon(asks())


async def test_a_hit_from_a_copy_sends_no_command(on: Any, namespace: str) -> None:
    app = App(cached())
    async with Fleet(app, on=on, namespace=namespace, policy=NEAR) as fleet:
        await warm(fleet)
        reads = counted(fleet)
        answers = [await fleet.get() for _ in range(5)]
        assert {answer.body for answer in answers} == {b"answer 1"}
        assert all("; hit; ttl=" in status_of(answer) for answer in answers)
        assert (reads, app.calls) == ([], 1)


async def test_without_l1_ttl_each_hit_reads_the_store(on: Any, namespace: str) -> None:
    async with Fleet(App(cached()), on=on, namespace=namespace) as fleet:
        await fleet.get()
        reads = counted(fleet)
        for _ in range(3):
            await fleet.get()
        assert (len(reads), copies(fleet.guards[0])) == (3, 0)


async def test_after_an_invalidation_by_another_process_no_copy_is_served(on: Any, namespace: str) -> None:
    app = App(cached())
    async with Fleet(app, processes=2, on=on, namespace=namespace, policy=NEAR) as fleet:
        await warm(fleet)
        await warm(fleet, process=1)
        await fleet.get(process=1, method="DELETE")
        assert "fwd=uri-miss" in status_of(await fleet.get(process=1))
        await until(lambda: copies(fleet.guards[0]) == 0)
        assert (await fleet.get()).body == b"answer 3"


async def test_a_refresh_by_another_process_ends_a_copy(on: Any, namespace: str) -> None:
    app = App(cached())
    async with Fleet(app, processes=2, on=on, namespace=namespace, policy=NEAR) as fleet:
        await warm(fleet)
        assert (await fleet.get(process=1, cache_control="no-cache")).body == b"answer 2"
        await until(lambda: copies(fleet.guards[0]) == 0)
        assert (await fleet.get()).body == b"answer 2"


async def test_a_copy_lives_for_l1_ttl_and_no_longer_than_its_response_is_fresh() -> None:
    app = App({"cache-control": "max-age=40"})
    async with Fleet(app, policy=NEAR) as fleet:
        await warm(fleet)
        reads = counted(fleet)
        fleet.clock.advance(29)
        answer = await fleet.get()
        assert (answer.get("age"), reads) == ("29", [])
        fleet.clock.advance(2)
        answer = await fleet.get()
        assert (answer.get("age"), len(reads)) == ("31", 1)
        fleet.clock.advance(8)
        assert (await fleet.get()).get("age") == "39"
        fleet.clock.advance(2)
        assert (await fleet.get()).body == b"answer 2"


async def test_conditions_and_ranges_are_answered_from_a_copy() -> None:
    async with Fleet(App(cached(etag='"a"')), policy=NEAR) as fleet:
        await warm(fleet)
        reads = counted(fleet)
        assert (await fleet.get(if_none_match='"a"')).status == 304
        assert (await fleet.get(range="bytes=0-2")).body == b"ans"
        assert (await fleet.get(method="HEAD")).body == b""
        assert reads == []


@pytest.mark.parametrize("wish", ["no-cache", "max-age=0", "min-fresh=100", "only-if-cached"])
async def test_a_client_with_a_directive_gets_what_the_store_says(wish: str) -> None:
    async with Fleet(App(cached()), policy=NEAR) as fleet:
        await warm(fleet)
        reads = counted(fleet)
        await fleet.get(cache_control=wish)
        assert len(reads) >= 1


async def test_each_variant_has_a_copy_of_its_own() -> None:
    app = App(cached(vary="accept-language"))
    async with Fleet(app, policy=NEAR) as fleet:
        await warm(fleet, accept_language="de")
        await warm(fleet, accept_language="fr", entries=2)
        reads, calls = counted(fleet), app.calls
        assert (await fleet.get(accept_language="de")).body == b"answer 1"
        assert (await fleet.get(accept_language="fr")).body == b"answer 2"
        assert (reads, app.calls) == ([], calls)
        assert "vary-miss" in status_of(await fleet.get(accept_language="it"))
        await fleet.get(method="DELETE")
        assert "fwd=uri-miss" in status_of(await fleet.get(accept_language="fr"))


async def test_a_response_with_groups_is_read_from_the_store_each_time() -> None:
    async with Fleet(App(cached(cache_groups='"a"')), policy=NEAR) as fleet:
        for _ in range(3):
            await fleet.get()
        reads = counted(fleet)
        assert "; hit" in status_of(await fleet.get())
        assert (len(reads), copies(fleet.guards[0])) == (1, 0)


async def test_copies_have_a_limit() -> None:
    async with Fleet(App(cached()), policy=NEAR) as fleet:
        runtime = fleet.guards[0].engine.runtime()
        runtime.l1._kept._max_entries = 4
        await warm(fleet)
        for number in range(30):
            await fleet.get(f"/{number}")
            await fleet.get(f"/{number}")
        assert 0 < len(runtime.l1) <= 4
        assert runtime.l1.bytes <= Limits().l1_bytes


async def test_a_hit_from_a_copy_is_an_event_as_well() -> None:
    async with Fleet(App(cached()), policy=NEAR) as fleet:
        await warm(fleet)
        events: list[Event] = []
        fleet.guards[0].engine.hooks.add(events.append)
        await fleet.get()
        assert [event.source for event in events if isinstance(event, Hit)] == ["l1"]
