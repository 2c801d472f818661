"""What is between a guard and the store in a fuzzed fleet: each command and message takes its time, or gets lost.

A store of one guard; all share one memory. A command takes effect some time after it was sent, and its answer needs
some time more. It may be lost, or its answer; it may be refused. From `DEADLINE` on the answer comes too late.
Messages keep their order. While a guard is deaf, they are lost. While it is `mute`, they are lost and it does not know.
A store may have several nodes, as a cluster: each entry and each tag is on one of them, and each may be away alone.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.protocol import Listener
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.engine.fuzz.journal import Journal
from tests.engine.fuzz.session import LateListener, UnsteadySession

__all__ = ["DEADLINE", "UnsteadyStore", "Weather", "node_of"]

T = TypeVar("T")
DEADLINE = 0.5
LASTING = ("fail", "refuse", "refuse writes", "deaf", "mute")
"""What a window may be. The name of a node may follow, except for the last two."""


def node_of(name: str, nodes: int) -> str:
    return f"n{zlib.crc32(name.encode()) % nodes}" if nodes > 1 else ""


@dataclass(frozen=True)
class Weather:
    """`usual` and `slow`: the longest times of one way, in seconds; `slowness`: the share of slow ways.

    `grid`: times are its multiples, so that much happens at once; 0 = none. The others are shares of the commands.
    `windows`: (from, to, guard, what) with what of `LASTING`, and perhaps a node behind it.
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

    def is_kind(self, nodes: set[str]) -> bool:
        """Whether every command to these nodes is answered in time."""
        windows = [
            what
            for _, _, _, what in self.windows
            if what != "mute" and (not (node := _split(what)[1]) or node in nodes)
        ]
        return not (self.lost or self.unanswered or self.refused or self.late or windows)

    def way(self, chance: Random) -> float:
        most = self.slow if chance.random() < self.slowness else self.usual
        return self.rounded(chance.uniform(0.0, most), chance)

    def rounded(self, seconds: float, chance: Random) -> float:
        if not self.grid:
            return seconds
        return round(seconds / self.grid) * self.grid + chance.choice((0.0, 0.0, 1e-7))


class UnsteadyStore(FaultyStore):
    def __init__(
        self,
        label: str,
        memory: MemoryStore,
        weather: Weather,
        seed: int,
        journal: Journal,
        *,
        nodes: int = 1,
    ) -> None:
        super().__init__(clock=memory.clock)
        self.memory = memory
        self.label = label
        self.weather = weather
        self.journal = journal
        self.travelling: set[asyncio.Task[None]] = set()
        self._seed = seed
        self._sent: dict[str, int] = {}
        self._sessions: Any = _InOrder()
        self.nodes = nodes
        self.deaf = False
        self.mute = False
        self.refusing: dict[str, str] = {}
        """By node: "all" or "writes"."""
        self.down: set[str] = set()
        """The nodes that are away."""

    def node_of(self, name: str) -> str:
        return node_of(name, self.nodes)

    @property
    def all_nodes(self) -> list[str]:
        return [f"n{number}" for number in range(self.nodes)] if self.nodes > 1 else [""]

    def is_down(self, node: str) -> bool:
        return self.failing or node in self.down

    def open_session(self, listener: Listener, *, namespace: str = "") -> UnsteadySession:
        session = UnsteadySession(self, LateListener(self, listener))
        self._sessions.add(session)
        return session

    def chance(self, what: str) -> Random:
        """One sequence for each command: a fleet that does less of one thing does not do others at other times."""
        self._sent[what] = number = self._sent.get(what, 0) + 1
        return Random(f"{self._seed} {self.label} {what} {number}")

    async def answer(
        self,
        carry_out: Callable[[], Awaitable[T]],
        *,
        writes: bool = False,
        what: str = "probe",
        node: str = "",
    ) -> T:
        chance, weather = self.chance(what), self.weather
        there, back = weather.way(chance), weather.way(chance)
        if self.is_down(node):
            there = DEADLINE if chance.random() < 0.5 else there
            await asyncio.sleep(there)
            raise self.failed("the store is gone", node, late=there >= DEADLINE)
        fate = chance.random()
        if fate < weather.late:
            there, back = weather.rounded(chance.uniform(0.0, 3.0), chance), back + DEADLINE
        refusing = self.refusing.get(node, "")
        may_pass = refusing != "all"
        lost = weather.late <= fate < weather.late + weather.lost
        unanswered = chance.random() < weather.unanswered
        refused = refusing == "all" or (
            writes and (refusing == "writes" or chance.random() < weather.refused)
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
                self.journal.store_error(self.label, node, error)
                arrived.set_exception(error)
            elif lost or unanswered:
                arrived.set_exception(self.failed("the connection was reset", node, late=False))
            else:
                arrived.set_result(answer)

        task = asyncio.get_running_loop().create_task(travel(), name=f"wire {what}")
        self.travelling.add(task)
        task.add_done_callback(self.travelling.discard)
        try:
            async with asyncio.timeout(DEADLINE):
                return await arrived
        except TimeoutError:
            raise self.failed("no answer in time", node, late=True) from None

    def failed(self, text: str, node: str, *, late: bool) -> StoreUnavailable:
        error = StoreUnavailable(text, late=late)
        self.journal.store_error(self.label, node, error)
        return error

    async def is_there(self, node: str) -> bool:
        """What a probe finds out. A store that refuses is there."""
        try:
            await self.answer(_nothing, node=node)
        except StoreUnavailable:
            return False
        except StoreRefused:
            return True
        return True

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

    def _begin(self, window: str) -> None:
        what, node = _split(window)
        nodes = [node] if node else self.all_nodes
        match what:
            case "fail" if node:
                self.down.add(node)
                self._tell_all(lambda session: session.node_changed(node, back=False))
            case "fail":
                self.fail()
            case "refuse":
                self.refusing |= dict.fromkeys(nodes, "all")
            case "refuse writes":
                self.refusing |= dict.fromkeys(nodes, "writes")
            case "mute":
                self.mute = True
            case "deaf":
                self.deaf = True
                self._tell_all(lambda session: self.memory.unsubscribe(session._inner._inbox))

    def _end(self, window: str) -> None:
        what, node = _split(window)
        self.refusing, self.mute = {}, False
        if what == "fail" and not node:
            self.recover()
        for each in sorted(self.down):
            self.down.discard(each)
            self._tell_all(lambda session, each=each: session.node_changed(each, back=True))  # type: ignore[misc]
        if what == "deaf":
            self.deaf = False
            self._tell_all(lambda session: session.hear_again())

    def _tell_all(self, call: Callable[[UnsteadySession], object]) -> None:
        """Each session in its own event loop."""
        for session in list(self._sessions):
            if session._loop is asyncio.get_running_loop():
                call(session)
            elif not session._loop.is_closed():
                session._loop.call_soon_threadsafe(call, session)


async def _nothing() -> None:
    return


def _split(window: str) -> tuple[str, str]:
    what, _, node = window.rpartition(" ")
    return (what, node) if what and node not in ("writes",) else (window, "")


class _InOrder(list[Any]):
    """A set would tell its sessions in another order in each process."""

    add = list.append
