"""What is between a guard and the store in a fuzzed fleet: each command and message takes its time, or gets lost.

A store of one guard; all share one memory. A command takes effect some time after it was sent, and its answer needs
some time more. It may be lost, or its answer; it may be refused. From `DEADLINE` on the answer comes too late.
Messages keep their order. While a guard is deaf, they are lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from stampede_guard.core.scripts import Denied, Granted, Message, Uncacheable
from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.protocol import Listener
from stampede_guard.testing.faults.faulty import FaultyStore
from stampede_guard.testing.faults.faultysession import FaultySession
from tests.engine.fuzz.journal import Journal, number_in

__all__ = ["DEADLINE", "UnsteadyStore", "Weather"]

T = TypeVar("T")
DEADLINE = 0.5


@dataclass(frozen=True)
class Weather:
    """`usual` and `slow`: the longest times of one way, in seconds; `slowness`: the share of slow ways.

    `grid`: times are its multiples, so that much happens at once; 0 = none. The others are shares of the commands.
    `windows`: (from, to, guard, what) with what of "fail", "refuse", "refuse writes", "deaf".
    """

    usual: float = 0.0
    slow: float = 0.0
    slowness: float = 0.0
    grid: float = 0.0
    lost: float = 0.0
    unanswered: float = 0.0
    refused: float = 0.0
    late: float = 0.0
    windows: list[tuple[float, float, str, str]] = field(default_factory=list)

    @property
    def is_kind(self) -> bool:
        """Whether every command is answered in time."""
        return not (self.lost or self.unanswered or self.refused or self.late or self.windows)

    def way(self, chance: Random) -> float:
        most = self.slow if chance.random() < self.slowness else self.usual
        return self.rounded(chance.uniform(0.0, most), chance)

    def rounded(self, seconds: float, chance: Random) -> float:
        if not self.grid:
            return seconds
        return round(seconds / self.grid) * self.grid + chance.choice((0.0, 0.0, 1e-7))


class UnsteadyStore(FaultyStore):
    def __init__(
        self, label: str, memory: MemoryStore, weather: Weather, seed: int, journal: Journal
    ) -> None:
        super().__init__(clock=memory.clock)
        self.memory = memory
        self.label = label
        self.weather = weather
        self.journal = journal
        self.travelling: set[asyncio.Task[None]] = set()
        self._seed = seed
        self._sent: dict[str, int] = {}
        self.deaf = False
        self.refusing = ""

    def open_session(self, listener: Listener, *, namespace: str = "") -> FaultySession:
        session = UnsteadySession(self, LateListener(self, listener))
        self._sessions.add(session)
        return session

    def chance(self, what: str) -> Random:
        """One sequence for each command: a fleet that does less of one thing does not do others at other times."""
        self._sent[what] = number = self._sent.get(what, 0) + 1
        return Random(f"{self._seed} {self.label} {what} {number}")

    async def answer(
        self, carry_out: Callable[[], Awaitable[T]], *, writes: bool = False, what: str = "probe"
    ) -> T:
        chance, weather = self.chance(what), self.weather
        there, back = weather.way(chance), weather.way(chance)
        if self._failing:
            there = DEADLINE if chance.random() < 0.5 else there
            await asyncio.sleep(there)
            raise self.failed("the store is gone", late=there >= DEADLINE)
        fate = chance.random()
        if fate < weather.late:
            there, back = weather.rounded(chance.uniform(0.0, 3.0), chance), back + DEADLINE
        may_pass = self.refusing != "all"
        lost = weather.late <= fate < weather.late + weather.lost
        unanswered = chance.random() < weather.unanswered
        refused = self.refusing == "all" or (
            writes and (self.refusing == "writes" or chance.random() < weather.refused)
        )
        arrived: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def travel() -> None:
            await asyncio.sleep(there)
            answer: Any = None
            if not lost and not refused:
                answer = await carry_out()
            await asyncio.sleep(back)
            if arrived.done():
                return
            if refused:
                error = StoreRefused("refused", may_pass=may_pass)
                self.journal.store_error(self.label, error)
                arrived.set_exception(error)
            elif lost or unanswered:
                arrived.set_exception(self.failed("the connection was reset", late=False))
            else:
                arrived.set_result(answer)

        task = asyncio.get_running_loop().create_task(travel(), name=f"wire {what}")
        self.travelling.add(task)
        task.add_done_callback(self.travelling.discard)
        try:
            async with asyncio.timeout(DEADLINE):
                return await arrived
        except TimeoutError:
            raise self.failed("no answer in time", late=True) from None

    def failed(self, text: str, *, late: bool) -> StoreUnavailable:
        error = StoreUnavailable(text, late=late)
        self.journal.store_error(self.label, error)
        return error

    # --- weather that lasts ------------------------------------------------------------------------

    async def endure(self) -> None:
        """Let the windows of this guard begin and end. They do not overlap."""
        loop = asyncio.get_running_loop()
        for begins, ends, label, what in sorted(self.weather.windows):
            if label != self.label:
                continue
            await asyncio.sleep(max(0.0, begins - loop.time()))
            self.journal.note(f"{label}: {what} begins")
            self._begin(what)
            await asyncio.sleep(max(0.0, ends - loop.time()))
            self.journal.note(f"{label}: {what} ends")
            self._end(what)

    def _begin(self, what: str) -> None:
        match what:
            case "fail":
                self.fail()
            case "refuse":
                self.refusing = "all"
            case "refuse writes":
                self.refusing = "writes"
            case "deaf":
                self.deaf = True
                for session in list(self._sessions):
                    self.memory.unsubscribe(session._inner._inbox)

    def _end(self, what: str) -> None:
        self.refusing = ""
        if what == "fail":
            self.recover()
        if what == "deaf":
            self.deaf = False
            for session in list(self._sessions):
                if not session._closing:
                    self.memory.subscribe(session._inner._inbox, session._hears)
                    session._listener.gap()


class UnsteadySession(FaultySession):
    def __init__(self, store: UnsteadyStore, listener: Listener) -> None:
        super().__init__(store, listener)
        self._unsteady = store
        self._hears = store.memory._subscribers[self._inner._inbox].listener

    def hears_changes(self, name: str) -> bool:
        return not self._unsteady.deaf and super().hears_changes(name)

    async def _ask(
        self, carry_out: Callable[[], Awaitable[T]], *, writes: bool = False, what: str = "read"
    ) -> T:
        try:
            answer = await self._unsteady.answer(carry_out, writes=writes, what=what)
        except StoreError as error:
            self._changed(isinstance(error, StoreRefused))
            raise
        self._changed(True)
        return answer

    def _changed(self, ok: bool) -> None:
        before = self.away
        super()._changed(ok)
        if before != self.away:
            self._unsteady.journal.away(self._unsteady.label, self.away)

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
            grant = answer.grant if isinstance(answer, Uncacheable) else answer
            if isinstance(grant, Granted) and what in ("acquire", "fallback"):
                journal.granted(name, grant.token)
            return answer

        answer = await self._ask(carry_out, writes=writes, what=f"{what} {name}")
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

    def _later(self, call: Callable[..., None], *args: Any) -> None:
        if self._store.deaf or self._store.failing:
            return
        loop = asyncio.get_running_loop()
        self._last = max(self._last, loop.time() + self._store.weather.way(self._store.chance("message")))

        def arrive() -> None:
            if not self._store.deaf and not self._store.failing:
                self._store.journal.note(f"{self._store.label}: hears {shown(args)}")
                call(*args)

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
