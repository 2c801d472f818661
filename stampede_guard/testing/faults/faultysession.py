"""A faulty store as one event loop uses it; see `testing.faults.faulty`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from stampede_guard.core import breaker
from stampede_guard.core.breaker import PROBE_SECONDS, Breaker
from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Answer, Denied, Found, Granted, Message
from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.stores.fleet.series import Series
from stampede_guard.stores.fleet.stream import HAPPENED, StreamName
from stampede_guard.stores.protocol import Listener
from stampede_guard.stores.switch import Switch

if TYPE_CHECKING:
    from stampede_guard.testing.faults.faulty import FaultyStore

__all__ = ["FaultySession"]

T = TypeVar("T")


class FaultySession:
    """See `stores.protocol.Session`."""

    def __init__(self, store: FaultyStore, listener: Listener) -> None:
        self.away = False
        self._store = store
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._inner = store.memory.open_session(_WhileReached(store, listener))
        self._breaker = Breaker()
        self._probing: asyncio.Task[None] | None = None
        self._reads: list[tuple[str, asyncio.Future[Reading | None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_release: list[tuple[str, str]] = []
        self._closing = False

    def away_for(self, name: str) -> bool:
        return self.away

    def hears_changes(self, name: str) -> bool:
        return not self._store.failing and self._inner.hears_changes(name)

    # --- commands ----------------------------------------------------------------------------------

    async def _ask(self, carry_out: Callable[[], Awaitable[T]], *, writes: bool = False) -> T:
        try:
            answer = await self._store.answer(carry_out, writes=writes)
        except StoreUnavailable:
            self._changed(False)
            raise
        except StoreRefused:
            self._changed(True)
            raise
        self._changed(True)
        return answer

    def read(self, name: str) -> asyncio.Future[Reading | None]:
        future: asyncio.Future[Reading | None] = self._loop.create_future()
        self._reads.append((name, future))
        if len(self._reads) == 1:
            self._begin(self._read_all())
        return future

    async def _read_all(self) -> None:
        # In the next turn of the loop, so that the reads of this turn travel together.
        await asyncio.sleep(0)
        reads, self._reads = self._reads, []

        async def carry_out() -> dict[str, Reading | None]:
            return {name: await self._inner.read(name) for name, _ in reads}

        try:
            readings = await self._ask(carry_out)
        except BaseException as error:
            self._fail(
                reads, error if isinstance(error, StoreError) else StoreUnavailable("the session was closed")
            )
            if not isinstance(error, StoreError):
                raise
            return
        for name, future in reads:
            if not future.done():
                future.set_result(readings[name])

    @staticmethod
    def _fail(reads: list[tuple[str, asyncio.Future[Reading | None]]], error: StoreError) -> None:
        for _, future in reads:
            if not future.done():
                future.set_exception(error)

    # Passed on unchanged: other arguments are between the guard and the store.

    async def acquire(self, name: str, **asked: Any) -> Answer:
        return await self._ask(lambda: self._inner.acquire(name, **asked), writes=True)

    async def renew(self, name: str, **asked: Any) -> bool:
        return await self._ask(lambda: self._inner.renew(name, **asked), writes=True)

    async def publish(self, name: str, **asked: Any) -> bool:
        return await self._ask(lambda: self._inner.publish(name, **asked), writes=True)

    async def invalidate(self, name: str, **asked: Any) -> int:
        return await self._ask(lambda: self._inner.invalidate(name, **asked))

    async def fence(self, name: str) -> tuple[str, int] | None:
        return await self._ask(lambda: self._inner.fence(name))

    async def release(self, name: str, **asked: Any) -> bool:
        return await self._ask(lambda: self._inner.release(name, **asked))

    async def admits(self, name: str, grant: Granted) -> bool:
        return await self._ask(lambda: self._inner.admits(name, grant))

    async def stamp(self, name: str, **asked: Any) -> Granted:
        return await self._ask(lambda: self._inner.stamp(name, **asked), writes=True)

    async def fallback(self, name: str, **asked: Any) -> Found | Granted | Denied:
        return await self._ask(lambda: self._inner.fallback(name, **asked), writes=True)

    def read_tag(self, name: str) -> asyncio.Future[Reading | None]:
        return self.read(name)

    async def ensure_tag(self, name: str, **asked: Any) -> bytes:
        return await self._ask(lambda: self._inner.ensure_tag(name, **asked), writes=True)

    async def drop_tag(self, name: str) -> None:
        await self._ask(lambda: self._inner.drop_tag(name))

    # None of these is a caller's command. They are not counted, and do not affect the breaker.

    async def switches(self, namespace: str) -> Mapping[str, Switch]:
        self._reached()
        return await self._inner.switches(namespace)

    async def switch(self, namespace: str, title: str, switch: Switch | None) -> int:
        self._reached()
        return await self._inner.switch(namespace, title, switch)

    async def count(self, namespace: str, series: Series, slot: int, numbers: Mapping[str, int]) -> int:
        self._reached()
        return await self._inner.count(namespace, series, slot, numbers)

    async def tell(
        self, namespace: str, happenings: Sequence[tuple[int, str]], *, stream: StreamName = HAPPENED
    ) -> None:
        self._reached()
        await self._inner.tell(namespace, happenings, stream=stream)

    def _reached(self) -> None:
        if self._store.failing:
            raise StoreUnavailable("the store cannot be reached")

    def forget(self, name: str, *, flight: str) -> None:
        self._to_release.append((name, flight))
        if not self.away:
            self._begin(self._release_forgotten())

    async def _release_forgotten(self) -> None:
        while self._to_release and not self.away:
            name, flight = self._to_release[0]
            with contextlib.suppress(StoreRefused):
                try:
                    await self.release(name, flight=flight)
                except StoreUnavailable:
                    continue
            with contextlib.suppress(ValueError):
                self._to_release.remove((name, flight))

    # --- availability ------------------------------------------------------------------------------

    def told_of(self, *, back: bool, gap: bool = True) -> None:
        """The store has failed, or has recovered. May be called from any thread."""
        if _running_loop() is self._loop:
            self._notice(back, gap)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._notice, back, gap)

    def _notice(self, back: bool, gap: bool) -> None:
        if self._closing:
            return
        if gap:
            # The subscription was lost, or is back.
            self._listener.gap()
        if back:
            self._changed(True)

    def _changed(self, ok: bool) -> None:
        if self._closing:
            return
        self._breaker = breaker.succeeded(self._breaker) if ok else breaker.failed(self._breaker)
        if self._breaker.is_open == self.away:
            return
        self.away = self._breaker.is_open
        self._listener.breaker_changed(away=self.away)
        if self.away:
            if self._probing is None or self._probing.done():
                self._probing = self._begin(self._look_for_store())
        elif self._to_release:
            self._begin(self._release_forgotten())

    async def _look_for_store(self) -> None:
        while self.away:
            await self._store.wait(PROBE_SECONDS)
            if await self._store.probe():
                self._changed(True)

    def _begin(self, work: Any) -> asyncio.Task[None]:
        # In its own context: it belongs to no caller.
        task: asyncio.Task[None] = self._loop.create_task(
            work, name="stampede_guard faulty store", context=Context()
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- the end -----------------------------------------------------------------------------------

    async def aclose(self) -> None:
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        # Reads that callers asked for in the same turn as the close: the tasks that would do them are cancelled.
        reads, self._reads = self._reads, []
        self._fail(reads, StoreUnavailable("the session was closed"))
        await self._inner.aclose()

    def abandon(self) -> None:
        self._closing = True
        self._inner.abandon()


class _WhileReached:
    """Passes on the store's messages while the store is reachable. See `stores.protocol.Listener`."""

    def __init__(self, store: FaultyStore, listener: Listener) -> None:
        self._store = store
        self._listener = listener

    def heard(self, name: str, message: Message) -> None:
        if not self._store.failing:
            self._listener.heard(name, message)

    def changed(self, name: str, fence: int) -> None:
        if not self._store.failing:
            self._listener.changed(name, fence)

    def gap(self) -> None:
        self._listener.gap()

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None:
        self._listener.breaker_changed(away=away, part=part, why=why)

    def not_kept(self, name: str, error: StoreRefused) -> None:
        self._listener.not_kept(name, error)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
