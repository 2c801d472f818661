"""What one event loop of a guard has of an unsteady store: commands, messages, and a breaker for each node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from stampede_guard.core import breaker
from stampede_guard.core.breaker import PROBE_SECONDS, Breaker
from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Denied, Granted, Message, Uncacheable
from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.stores.protocol import Listener
from stampede_guard.testing.faults.faultysession import FaultySession
from tests.engine.fuzz.journal import number_in

if TYPE_CHECKING:
    from tests.engine.fuzz.network import UnsteadyStore

__all__ = ["LateListener", "UnsteadySession"]

T = TypeVar("T")


class UnsteadySession(FaultySession):
    def __init__(self, store: UnsteadyStore, listener: Listener) -> None:
        super().__init__(store, listener)
        self._unsteady = store
        self._hears = store.memory._subscribers[self._inner._inbox].listener
        self._breakers = dict.fromkeys(store.all_nodes, Breaker())
        self._away: set[str] = set()

    def away_for(self, name: str) -> bool:
        return self._unsteady.node_of(name) in self._away

    def hears_changes(self, name: str) -> bool:
        store = self._unsteady
        down = store.deaf or store.is_down(store.node_of(name))
        return not down and super().hears_changes(name)

    def hear_again(self) -> None:
        if not self._closing:
            self._unsteady.memory.subscribe(self._inner._inbox, self._hears)
            self._listener.gap()

    # --- commands ----------------------------------------------------------------------------------

    async def _ask(
        self,
        carry_out: Callable[[], Awaitable[T]],
        *,
        writes: bool = False,
        what: str = "read",
        node: str = "",
    ) -> T:
        try:
            answer = await self._unsteady.answer(carry_out, writes=writes, what=what, node=node)
        except StoreError as error:
            self._node_answers(node, isinstance(error, StoreRefused))
            raise
        self._node_answers(node, True)
        return answer

    async def _read_all(self) -> None:
        # In the next turn of the loop, so that the reads of this turn travel together: those of each node.
        await asyncio.sleep(0)
        reads, self._reads = self._reads, []
        nodes: dict[str, list[tuple[str, asyncio.Future[Reading | None]]]] = {}
        for name, future in reads:
            nodes.setdefault(self._unsteady.node_of(name), []).append((name, future))
        await asyncio.gather(*(self._read_from(node, group) for node, group in nodes.items()))

    async def _read_from(self, node: str, reads: list[tuple[str, asyncio.Future[Reading | None]]]) -> None:
        async def carry_out() -> dict[str, Reading | None]:
            return {name: await self._inner.read(name) for name, _ in reads}

        try:
            readings = await self._ask(carry_out, node=node)
        except StoreError as error:
            self._fail(reads, error)
            return
        except BaseException:
            self._fail(reads, StoreUnavailable("the session was closed"))
            raise
        for name, future in reads:
            if not future.done():
                future.set_result(readings[name])

    def forget(self, name: str, *, flight: str) -> None:
        self._to_release.append((name, flight))
        if not self.away_for(name):
            self._begin(self._release_forgotten())

    async def _release_forgotten(self) -> None:
        while there := [(name, flight) for name, flight in self._to_release if not self.away_for(name)]:
            name, flight = there[0]
            with contextlib.suppress(StoreRefused):
                try:
                    await self.release(name, flight=flight)
                except StoreUnavailable:
                    continue
            with contextlib.suppress(ValueError):
                self._to_release.remove((name, flight))

    # --- availability ------------------------------------------------------------------------------

    def _changed(self, ok: bool) -> None:
        for node in self._breakers:
            self._node_answers(node, ok)

    def node_changed(self, node: str, *, back: bool) -> None:
        if not self._closing:
            self._listener.gap()
            if back:
                self._node_answers(node, True)

    def _node_answers(self, node: str, ok: bool) -> None:
        if self._closing:
            return
        known = self._breakers[node]
        self._breakers[node] = known = breaker.succeeded(known) if ok else breaker.failed(known)
        if known.is_open == (node in self._away):
            return
        (self._away.add if known.is_open else self._away.discard)(node)
        self.away = bool(self._away)
        store = self._unsteady
        store.journal.away(store.label, f"{self._inner._inbox} {node}", node, away=known.is_open)
        self._listener.breaker_changed(away=known.is_open, part=node)
        if known.is_open:
            self._begin(self._look_for(node))
        elif self._to_release:
            self._begin(self._release_forgotten())

    async def _look_for(self, node: str) -> None:
        while node in self._away:
            await asyncio.sleep(PROBE_SECONDS)
            if await self._unsteady.is_there(node):
                self._node_answers(node, True)

    # --- what the journal is told ------------------------------------------------------------------

    async def _command(self, what: str, name: str, asked: dict[str, Any], *, writes: bool) -> Any:
        journal, label = self._unsteady.journal, self._unsteady.label

        async def carry_out() -> Any:
            answer = await getattr(self._inner, what)(name, **asked)
            journal.note(f"{label}: {what} {name} {asked.get('flight', '')[-4:]} = {shown(answer)}")
            if (
                what == "publish"
                and answer
                and asked["outcome"] == "value"
                and (made := number_in(asked["body"]))
            ):
                journal.published(name, asked["grant"].token, made)
            if what == "publish" and not answer:
                journal.refusals.add(number_in(asked["body"]))
            grant = answer.grant if isinstance(answer, Uncacheable) else answer
            if isinstance(grant, Granted) and what in ("acquire", "fallback"):
                journal.granted(name, grant.token)
            return answer

        node = self._unsteady.node_of(name)
        answer = await self._ask(carry_out, writes=writes, what=f"{what} {name}", node=node)
        if isinstance(answer, Denied):
            journal.denied(label, name)
        return answer

    async def acquire(self, name: str, **asked: Any) -> Any:
        return await self._command("acquire", name, asked, writes=True)

    async def renew(self, name: str, **asked: Any) -> Any:
        return await self._command("renew", name, asked, writes=True)

    async def publish(self, name: str, **asked: Any) -> Any:
        return await self._command("publish", name, asked, writes=True)

    async def invalidate(self, name: str, **asked: Any) -> Any:
        return await self._command("invalidate", name, asked, writes=False)

    async def fence(self, name: str) -> Any:
        return await self._command("fence", name, {}, writes=False)

    async def release(self, name: str, **asked: Any) -> Any:
        return await self._command("release", name, asked, writes=False)

    async def admits(self, name: str, grant: Granted) -> Any:
        return await self._command("admits", name, {"grant": grant}, writes=False)

    async def stamp(self, name: str, **asked: Any) -> Any:
        return await self._command("stamp", name, asked, writes=True)

    async def fallback(self, name: str, **asked: Any) -> Any:
        return await self._command("fallback", name, asked, writes=True)

    async def ensure_tag(self, name: str, **asked: Any) -> Any:
        return await self._command("ensure_tag", name, asked, writes=True)

    async def drop_tag(self, name: str) -> Any:
        return await self._command("drop_tag", name, {}, writes=False)

    def told_of(self, *, back: bool, gap: bool = True) -> None:
        if gap:
            self._unsteady.journal.note(f"{self._unsteady.label}: gap")
        super().told_of(back=back, gap=gap)


class LateListener:
    """Messages need some time, and keep their order."""

    def __init__(self, store: UnsteadyStore, listener: Listener) -> None:
        self._store = store
        self._listener = listener
        self._last = 0.0

    def _later(self, call: Callable[..., None], name: str, *args: Any) -> None:
        store, node = self._store, self._store.node_of(name)
        if store.deaf or store.mute or store.is_down(node):
            return
        loop = asyncio.get_running_loop()
        self._last = max(self._last, loop.time() + store.weather.way(store.chance("message")))

        def arrive() -> None:
            if not (store.deaf or store.mute or store.is_down(node)):
                store.journal.note(f"{store.label}: hears {shown((name, *args))}")
                call(name, *args)

        loop.call_at(self._last, arrive)

    def heard(self, name: str, message: Message) -> None:
        self._later(self._listener.heard, name, message)

    def changed(self, name: str, fence: int) -> None:
        self._later(self._listener.changed, name, fence)

    def gap(self) -> None:
        self._store.journal.note(f"{self._store.label}: gap")
        self._listener.gap()

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None:
        self._listener.breaker_changed(away=away, part=part, why=why)

    def not_kept(self, name: str, error: StoreRefused) -> None:
        self._listener.not_kept(name, error)


def shown(answer: Any) -> str:
    if isinstance(answer, tuple) and not hasattr(answer, "_fields"):
        return " ".join(map(shown, answer))
    return repr(answer)[:150]
