"""`guard.sync`: the whole guard for code without an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stampede_guard import MISSING, ReentrantCall, StampedeGuard
from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import Misuse
from tests.support.listener import PATIENCE


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
    assert await asyncio.to_thread(elsewhere.sync.invalidate, "total:7") == "done"
    assert await here() == 2


# --- the other methods ---------------------------------------------------------------------------


def test_plain_functions_compute_once_for_all_threads(guard: StampedeGuard) -> None:
    begun, go, runs = threading.Event(), threading.Event(), []

    def compute() -> int:
        runs.append(threading.current_thread())
        begun.set()
        assert go.wait(PATIENCE)
        return 7

    def call() -> int:
        return guard.sync.get_or_compute("total:7", compute, ttl=300)

    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(call) for _ in range(4)]
        assert begun.wait(PATIENCE)
        go.set()
        assert [made.result(PATIENCE) for made in calls] == [7] * 4
    assert len(runs) == 1 and runs[0] is not threading.main_thread()
    assert guard.sync.get_or_compute_with_info("total:7", compute, ttl=300).source == "hit"


def test_coroutine_functions_compute_too(guard: StampedeGuard) -> None:
    assert guard.sync.get_or_compute("total:7", Source(), ttl=300) == 1
    assert guard.sync.get_or_compute("total:7", Source(), ttl=300) == 1


def test_values_are_set_and_got(guard: StampedeGuard) -> None:
    assert guard.sync.get("report:7") is MISSING
    assert guard.sync.get("report:7", default=None) is None
    assert guard.sync.set("report:7", {"rows": 3}, ttl="10m", tags=("shop",)) == "stored"
    assert guard.sync.get("report:7", tags=("shop",)) == {"rows": 3}
    assert guard.sync.set("count", 3, type=int, ttl=60) == "stored"
    assert guard.sync.get("count", type=int) == 3
    assert guard.sync.invalidate_tag("shop") == "done"
    assert guard.sync.get("report:7", tags=("shop",)) is MISSING


def test_a_refresh_computes_again(guard: StampedeGuard) -> None:
    numbers = iter(range(10))
    compute = lambda: next(numbers)  # noqa: E731
    assert guard.sync.get_or_compute("n", compute, ttl=300) == 0
    assert guard.sync.refresh("n", compute, ttl=300) == 1
    assert guard.sync.get_or_compute("n", compute, ttl=300) == 1


def test_a_block_computes_in_its_own_thread(guard: StampedeGuard) -> None:
    with guard.sync.single("report:7", type=int, ttl=300) as entry:
        assert entry.missing and entry.previous is None
        with pytest.raises(ReentrantCall):
            guard.sync.get_or_compute("report:7", lambda: 1, type=int, ttl=300)
        assert entry.set(3) == 3
        assert entry.info.source == "computed"
    with guard.sync.single("report:7", type=int, ttl=300) as entry:
        assert not entry.missing and entry.value == 3 and entry.info.source == "hit"


@pytest.mark.parametrize("error", [LookupError("gone"), KeyboardInterrupt()])
def test_a_block_that_raises_leaves_no_lease(guard: StampedeGuard, error: BaseException) -> None:
    with pytest.raises(type(error)), guard.sync.single("report:7", ttl=300, error_ttl=0) as entry:
        assert entry.missing
        raise error
    with guard.sync.single("report:7", ttl=300, error_ttl=0) as entry:
        assert entry.missing, "the next caller computes at once"
        entry.set(1)


def test_other_threads_wait_for_the_block(guard: StampedeGuard) -> None:
    with ThreadPoolExecutor(1) as pool:
        with guard.sync.single("report:7", ttl=300) as entry:
            assert entry.missing
            other = pool.submit(guard.sync.get_or_compute_with_info, "report:7", lambda: "never", ttl=300)
            assert not other.done()
            entry.set("from the block")
        told = other.result(PATIENCE)
    assert told.value == "from the block" and told.source in ("collapsed", "hit")


CALLS: dict[str, Callable[[Any], Any]] = {
    "get_or_compute": lambda sync: sync.get_or_compute("k", lambda: 1),
    "refresh": lambda sync: sync.refresh("k", lambda: 1),
    "get": lambda sync: sync.get("k"),
    "set": lambda sync: sync.set("k", 1),
    "invalidate": lambda sync: sync.invalidate("k"),
    "invalidate_tag": lambda sync: sync.invalidate_tag("t"),
}


async def test_in_an_event_loop_the_error_says_what_to_write(elsewhere: StampedeGuard) -> None:
    for name, call in CALLS.items():
        with pytest.raises(Misuse, match=f"write `await guard.{name}"):
            call(elsewhere.sync)
    with pytest.raises(Misuse, match=r"write `async with guard\.single"):
        elsewhere.sync.single("k")


def test_mistakes_name_what_to_write(guard: StampedeGuard) -> None:
    async def coroutine() -> int:
        return 1

    with pytest.raises(Misuse, match="plain functions"):
        guard.sync.get_or_compute("k", coroutine, in_thread=False)
    with pytest.raises(Misuse, match="coroutine function itself"):
        guard.sync.get_or_compute("k", lambda: coroutine())
    with pytest.raises(Misuse, match="do you mean ttl"):
        guard.sync.get_or_compute("k", lambda: 1, tll=60)  # type: ignore[call-overload]


def forked(function: Callable[[], str]) -> str:
    """What a function returns in a child that is forked here."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        try:
            os.write(writing, function().encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_uses_it_too(guard: StampedeGuard) -> None:
    assert guard.sync.set("report:7", 1, ttl=300) == "stored"
    with guard.sync.single("report:8", ttl=300) as entry:

        def in_the_child() -> str:
            assert guard.sync.set("report:7", 2, ttl=300) == "stored"
            with pytest.raises(Misuse):
                entry.set(1)
            assert guard.sync.get_or_compute("report:9", lambda: os.getpid(), ttl=300) == os.getpid()
            return str(guard.sync.get("report:7"))

        assert forked(in_the_child) == "2"
        entry.set(8)
    assert guard.sync.get("report:8") == 8
