"""A store that fails on demand: what does an application do while Redis is away?

For the guard it behaves like a session on Redis (see `stores.redis` and `stores.connections.node`). Failing
commands open a breaker, and a probe closes it. Reads of one turn of the event loop travel, and fail, as one
command. A command whose reply is lost has still been carried out.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from stampede_guard.durations import Duration
from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.options import ALL, takes_options
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.protocol import Listener
from stampede_guard.testing import given
from stampede_guard.testing.faults.faultysession import FaultySession

__all__ = ["FaultyStore"]

if TYPE_CHECKING:
    from stampede_guard.stores.protocol import Store

T = TypeVar("T")

DEADLINE = 0.5
"""Seconds within which an answer must arrive, as with Redis."""


class FaultyStore:
    """A memory store with faults on demand. The entries survive the faults, as on a server that was cut off.

    `clock` is the store's (a `FakeClock`, or `time.monotonic` by default). Slow answers, and probes of a store that
    is away, wait with `wait` (default `asyncio.sleep`). With `clock.sleep` they wait for `clock.advance`.
    `deadline`: the seconds after which an answer comes too late (default 0.5, as with Redis).

    All methods may be called at any time and from any thread.
    """

    shared = False

    @takes_options("FaultyStore")
    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
        deadline: float = DEADLINE,
    ) -> None:
        self.memory = MemoryStore(clock=clock)
        self.clock = clock
        self.wait = wait
        self.deadline = deadline
        self._failing = False
        self._delay = 0.0
        self._lost = 0
        self._refuses: Literal["nothing", "writes", "all"] = "nothing"
        self._sessions: weakref.WeakSet[FaultySession] = weakref.WeakSet()

    # --- faults ------------------------------------------------------------------------------------

    @property
    def failing(self) -> bool:
        return self._failing

    def fail(self) -> None:
        """From now on no command is answered, and no wake-up arrives: the server or the network is gone."""
        self._failing = True
        for session in list(self._sessions):
            session.told_of(back=False)

    @takes_options("store.slow", own=ALL)
    def slow(self, seconds: Duration) -> None:
        """Every answer takes this long. From `deadline` on it counts as a time-out, although the command was
        carried out.
        """
        self._delay = given.seconds("slow({})", seconds, meaning="the time that an answer takes")

    @takes_options("store.lose_replies", own=ALL)
    def lose_replies(self, count: int) -> None:
        """The next `count` commands are carried out, and their answers never arrive."""
        given.count("lose_replies({})", count, meaning="how many answers are lost")
        self._lost = count

    def refuse(self) -> None:
        """Every command is refused: a wrong password, a missing right."""
        self._refuses = "all"

    def refuse_writes(self) -> None:
        """Values can be read and invalidated, but not stored: out of memory, or no replicas."""
        self._refuses = "writes"

    def recover(self) -> None:
        """Ends all faults. Redis would be noticed within 0.25 s; this store is noticed at once, so that no test
        waits.
        """
        was_failing = self._failing
        self._failing, self._delay, self._lost, self._refuses = False, 0.0, 0, "nothing"
        for session in list(self._sessions):
            session.told_of(back=True, gap=was_failing)

    # --- for sessions ------------------------------------------------------------------------------

    def open_session(self, listener: Listener, *, namespace: str = "") -> FaultySession:
        session = FaultySession(self, listener)
        self._sessions.add(session)
        return session

    async def answer(self, carry_out: Callable[[], Awaitable[T]], *, writes: bool) -> T:
        """The answer to one command, or its fault. Raises `StoreUnavailable` and `StoreRefused`."""
        self._reached()
        late = self._delay >= self.deadline
        if self._delay and not late:
            await self.wait(self._delay)
            self._reached()
        if self._refuses == "all" or (writes and self._refuses == "writes"):
            raise StoreRefused("the faulty store was set to refuse")
        answer = await carry_out()
        if late:
            await self.wait(self.deadline)
            raise StoreUnavailable(f"no answer from the faulty store within {self.deadline:g} s", late=True)
        if self._lost > 0:
            self._lost -= 1
            raise StoreUnavailable("the faulty store lost its answer")
        return answer

    def _reached(self) -> None:
        if self._failing:
            raise StoreUnavailable("the faulty store was set to fail")

    async def probe(self) -> bool:
        """Whether the store is there. A store that refuses is there."""
        try:
            await self.answer(_nothing, writes=False)
        except StoreUnavailable:
            return False
        except StoreRefused:
            return True
        return True


async def _nothing() -> None:
    return


if TYPE_CHECKING:

    def _whatever_the_guard_needs(store: FaultyStore) -> Store:
        return store
