"""A process with several event loops: what one of them invalidates, none of them serves from before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stampede_guard import Misuse, StampedeGuard, WaitTimeout
from stampede_guard.core.entry import Reading
from stampede_guard.engine.flights.delivery import crash_of
from stampede_guard.engine.l1 import NOTHING
from stampede_guard.engine.tags.templates import tag_names
from stampede_guard.engine.tags.versions import VersionsAsked
from tests.support.gate import soon, until
from tests.support.guards import Guards
from tests.support.source import KEY, TAGS, Source


class Elsewhere:
    """Another event loop in a thread of its own, in which `main` runs."""

    def __init__(self, main: Callable[[], Awaitable[None]]) -> None:
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(main,))
        self._thread.start()

    def _run(self, main: Callable[[], Any]) -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            self._failed = error

    async def ended(self) -> None:
        await asyncio.to_thread(self._thread.join)
        if self._failed is not None:
            raise self._failed


def deaf(guard: StampedeGuard) -> None:
    """This event loop's connection is dead and does not say so: no message reaches it."""
    guard.engine.runtime().changed = lambda name, fence: None  # type: ignore[method-assign]


@pytest.mark.parametrize("tags", [(), TAGS])
async def test_an_answer_on_its_way_in_one_loop_is_not_kept_after_an_invalidation_in_another(
    namespace: str, tags: tuple[str, ...]
) -> None:
    async with Guards("memory", namespace) as guards:
        guard, source = guards.guard(l1_ttl=300.0, ttl=300.0), Source()
        ready, begun, arrived, done = (threading.Event() for _ in range(4))
        found: list[Any] = []
        answered: list[str] = []

        async def elsewhere() -> None:
            deaf(guard)
            runtime = guard.engine.runtime()
            assert await source.ask(guard, tags) == 1
            session, read = runtime.session, runtime.session.read

            async def late(name: str) -> Reading | None:
                answer = await read(name)
                answered.append(name)
                if len(answered) > len(tags):  # the entry, and all of its tags
                    arrived.set()
                await until(done.is_set)
                return answer

            ready.set()
            await until(begun.is_set)
            session.read = late  # type: ignore[method-assign,assignment]
            # Who began before the invalidation was done may have the older value.
            assert await soon(source.ask(guard, tags)) == 1
            session.read = read  # type: ignore[method-assign]
            found.append(runtime.l1.find(guards.name(KEY), tag_names(guard.prefix, sorted(tags))))
            found.append(await source.ask(guard, tags))
            await guard.aclose()

        async def held(name: str, **asked: Any) -> Any:
            begun.set()
            await until(arrived.is_set)
            return await command(name, **asked)

        other = Elsewhere(elsewhere)
        await until(ready.is_set)
        session, source.number = guard.engine.runtime().session, 2
        what = "drop_tag" if tags else "invalidate"
        command = getattr(session, what)
        setattr(session, what, held)
        assert await (guard.invalidate_tag(tags[0]) if tags else guard.invalidate(KEY)) == "done"
        done.set()
        await other.ended()
        assert found == [NOTHING, 2]


async def test_a_tag_invalidated_in_another_loop_counts_again_when_its_new_version_is_known(
    namespace: str,
) -> None:
    async with Guards("memory", namespace) as guards:
        guard, source = guards.guard(ttl=300.0), Source()
        ready, done = threading.Event(), threading.Event()
        allowed: list[bool] = []

        async def elsewhere() -> None:
            runtime, (name,) = guard.engine.runtime(), tag_names(guard.prefix, ("all",))
            assert await source.ask(guard, ("all",)) == 1
            ready.set()
            await until(done.is_set)
            for _ in range(2):
                known, _ = runtime.last.find(guards.name(KEY), now=runtime.now())
                allowed.append(known is not None and runtime.tags.allow((name,), known.body))
                assert await source.ask(guard, ("all",)) == 2
            assert await VersionsAsked(runtime, (name,)).answer() != [None]
            await guard.aclose()

        other = Elsewhere(elsewhere)
        await until(ready.is_set)
        await source.write(guard, "all")
        done.set()
        await other.ended()
        assert allowed == [False, True], (
            "without the store, the value of after the invalidation may be served"
        )


def test_without_an_event_loop_of_asyncio_the_error_says_so() -> None:
    guard = StampedeGuard.from_url("memory://", namespace="elsewhere")

    @guard.locked_cache(ttl=60)
    async def load(number: int) -> int:
        return number

    # As trio begins them, without a loop of asyncio.
    for call in (
        load(1), load.refresh(1), load.invalidate(1), guard.get("key"), guard.invalidate_tag("tag"),
        guard.invalidate("key"), guard.single("key").__aenter__(),
    ):  # fmt: skip
        with pytest.raises(Misuse, match=r"no event loop of asyncio here.*or call a plain `def` function"):
            call.send(None)
    guard.close()


def test_without_an_event_loop_of_asyncio_a_guard_says_how_it_is_closed() -> None:
    guard = StampedeGuard.from_url("memory://", namespace="elsewhere")
    for call in (guard.aclose(), guard.__aenter__()):
        with pytest.raises(Misuse, match=r"no event loop of asyncio here.*guard\.close\(\)"):
            call.send(None)
    guard.close()


def test_without_an_event_loop_of_asyncio_the_error_says_so_also_after_use_in_one() -> None:
    guard = StampedeGuard.from_url("memory://", namespace="elsewhere")

    @guard.locked_cache(ttl=60)
    async def load(number: int) -> int:
        return number

    @guard.locked_cache(ttl=60, l1_ttl=60)
    async def near(number: int) -> int:
        return number

    @guard.cached_many(ids="numbers", ttl=60)
    async def many(numbers: list[int]) -> dict[int, int]:
        return {number: number for number in numbers}

    async def main() -> None:
        assert await load(1) == await near(1) == (await many([1]))[1] == 1

    asyncio.run(main())
    # The guard still knows the runtime of that loop.
    for call in (load(1), load(2), load.with_info(1), near(1), near.peek(1), many([1])):
        with pytest.raises(Misuse, match="no event loop of asyncio here"):
            call.send(None)
    guard.close()


def test_a_flight_whose_event_loop_was_closed_is_no_error_of_the_library(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> Any:
        async with StampedeGuard.from_url("memory://") as guard:
            begun = asyncio.Event()

            async def compute() -> None:
                begun.set()

            call = asyncio.create_task(guard.get_or_compute(KEY, compute))
            await begun.wait()
            (flight,) = guard.engine.runtime().flights.values()
            await call
            return flight

    flight = asyncio.run(main())
    # Python closes the coroutine of a flight that nothing refers to any more.
    crash = crash_of(flight, GeneratorExit())
    assert isinstance(crash, WaitTimeout) and "its event loop was closed" in str(crash)
    assert not caplog.records
