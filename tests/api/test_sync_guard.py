"""`guard.sync`: invalidation for code without an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import Misuse


@pytest.fixture(params=["memory", "valkey"])
def guard(request: pytest.FixtureRequest, valkey_url: str, namespace: str) -> Iterator[StampedeGuard]:
    url = "memory://" if request.param == "memory" else valkey_url
    made = StampedeGuard.from_url(url, namespace=namespace)
    yield made
    made.close()


@pytest.fixture
async def elsewhere(guard: StampedeGuard) -> AsyncIterator[StampedeGuard]:
    """The same guard, used from the test's event loop too."""
    yield guard
    await guard.aclose()


class Source:
    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self) -> int:
        self.runs += 1
        return self.runs


def total(guard: StampedeGuard, source: Source) -> int:
    """As a portal's caller sees it."""
    return portal().call(guard.get_or_compute, "total:7", source, ttl=300, tags=("project:7",))


def test_a_thread_without_an_event_loop_drops_an_entry(guard: StampedeGuard) -> None:
    source = Source()
    assert [total(guard, source), total(guard, source)] == [1, 1]
    assert guard.sync.invalidate("total:7") == "done"
    assert total(guard, source) == 2


def test_and_all_entries_with_a_tag(guard: StampedeGuard) -> None:
    source = Source()
    assert total(guard, source) == 1
    assert guard.sync.invalidate_tag("project:7") == "done"
    assert total(guard, source) == 2


def test_entries_of_a_tenant_are_its_own(guard: StampedeGuard) -> None:
    source, acme = Source(), guard.within("acme")
    assert [total(guard, source), total(acme, source)] == [1, 2]
    assert acme.sync.invalidate("total:7") == "done"
    assert [total(guard, source), total(acme, source)] == [1, 3]


def test_the_type_is_named_as_in_the_asynchronous_form(guard: StampedeGuard) -> None:
    async def name() -> str:
        return "value"

    portal().call(guard.get_or_compute, "k", name, type=str)
    assert guard.sync.invalidate("k", type=str) == "done"
    with pytest.raises(Misuse):
        guard.sync.invalidate("")
    with pytest.raises(Misuse):
        guard.sync.invalidate_tag("")


async def test_copies_of_other_event_loops_of_the_process_are_dropped_too(elsewhere: StampedeGuard) -> None:
    source = Source()

    async def here() -> int:
        return await elsewhere.get_or_compute("total:7", source, ttl=300, l1_ttl=60)

    assert [await here(), await here()] == [1, 1]
    assert elsewhere.sync.invalidate("total:7") == "done"
    assert await here() == 2
