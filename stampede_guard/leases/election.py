"""Elections: one of the candidates leads. `is_leader` is true only while no other candidate can lead.

A candidate waits in the lease's queue, in its own task, so start-up is not delayed. When it is elected, it runs
`on_elected(lease)`. Leadership ends in this order:
1. `on_elected` is cancelled and awaited, 2. `on_lost(lease)` is called, 3. the lease is released.
So the next leader starts after the previous one has stopped: at once after a clean shutdown, and within `lease_ttl`
plus a second after a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Self

from stampede_guard.durations import Duration
from stampede_guard.errors import LeaseTaken, Misuse, StoreError
from stampede_guard.leases import checks
from stampede_guard.leases.core.timing import Timing
from stampede_guard.leases.hold import given_back
from stampede_guard.leases.keeping import reporting
from stampede_guard.leases.keeping.acquire import Acquisition
from stampede_guard.leases.keeping.keeper import Keeper
from stampede_guard.leases.keeping.loop_state import LoopState, log
from stampede_guard.leases.lease import Lease
from stampede_guard.leases.messages import LeaseHeld
from stampede_guard.leases.owner import called
from stampede_guard.options import ALL, takes_options

if TYPE_CHECKING:
    from stampede_guard.leases.client import Leases

__all__ = ["Election", "OnLeader"]

OnLeader = Callable[[Lease], Any]
"""A function or coroutine function that takes the lease of the leadership."""

FOR_EVER = float("inf")


class Election:
    """Made by `Leases.election`. `async with election:` or `election.start()` makes this event loop a candidate.

    `is_leader` works in any thread at any time. It sends no request; it is computed from the clock.
    """

    def __init__(
        self,
        client: Leases,
        name: str,
        timing: Timing,
        *,
        on_elected: OnLeader | None = None,
        on_lost: OnLeader | None = None,
    ) -> None:
        self.name = name
        self._client = client
        self._timing = timing
        self._on_elected = on_elected
        self._on_lost = on_lost
        self._keeper: Keeper | None = None
        self._attempt: Acquisition | None = None
        self._task: asyncio.Task[None] | None = None
        self._part: LoopState | None = None
        self._leave: asyncio.Future[str] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._stopping = False
        self._leading = False

    # --- reading

    @property
    def is_leader(self) -> bool:
        """True only while no other candidate can lead. It ends before the back end's deadline, whatever fails."""
        return self._keeper is not None and self._keeper.settled

    @property
    def token(self) -> int:
        """The token of the current leadership, 0 if there is none. It is greater than all earlier leaders' tokens."""
        keeper = self._keeper
        return keeper.token if keeper is not None and keeper.settled else 0

    @property
    def lease(self) -> Lease | None:
        """The lease of the current leadership, or None."""
        keeper = self._keeper
        return Lease(keeper) if keeper is not None and keeper.settled else None

    @property
    def part(self) -> LoopState | None:
        """The `Part` of the event loop in which it is a candidate."""
        return self._part

    def health(self) -> dict[str, Any]:
        """For a health endpoint: what this process believes, and the leader that its last request saw."""
        keeper, attempt = self._keeper, self._attempt
        leader = ""
        if keeper is not None and keeper.settled:
            leader = called(keeper.owner)
        elif attempt is not None and isinstance(attempt.answer, LeaseHeld):
            leader = called(attempt.answer.owner)
        return {
            "name": self.name,
            "standing": self._task is not None and not self._task.done(),
            "is_leader": self.is_leader,
            "token": self.token,
            "remaining": keeper.remaining() if keeper is not None else 0.0,
            "leader": leader,
        }

    @takes_options("election.wait_elected", own=ALL)
    async def wait_elected(self, timeout: Duration | None = None) -> Lease:
        """The lease, once elected. Raises `TimeoutError` after `timeout` seconds; `Misuse` if it is not a candidate."""
        if self._task is None or self._part is None:
            raise Misuse(f"the election {self.name!r} was not started: call election.start() first")
        longest = FOR_EVER if timeout is None else checks.seconds("timeout", timeout, endless=True)
        deadline = self._part.world.now() + longest
        while (lease := self.lease) is None:
            if self._stopping:
                raise Misuse(f"the election {self.name!r} was stopped: this process will not be elected")
            if self._part.world.now() >= deadline:
                raise TimeoutError(f"not elected leader of {self.name!r} within {longest:g} s")
            await self._news(deadline)
        return lease

    async def _news(self, deadline: float) -> None:
        """Wait until this process is elected, stops being a candidate, or `deadline`."""
        assert self._part is not None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        world, cancel = self._part.world, None
        if deadline < FOR_EVER:
            cancel = world.later(deadline - world.now(), lambda: _settle(future, None))
        try:
            await future
        finally:
            self._waiting.remove(future)
            if cancel is not None:
                cancel()

    def _tell_news(self) -> None:
        for future in tuple(self._waiting):
            _settle(future, None)

    # --- being a candidate

    def start(self) -> None:
        """Become a candidate. Returns at once."""
        if self._task is not None and not self._task.done():
            raise Misuse(f"the election {self.name!r} was already started")
        self._part = self._client.part()
        self._stopping = False
        self._task = self._part.begin(self._stand(self._part), name=f"stands for {self.name}")

    async def stop(self) -> None:
        """Stop being a candidate. A leader steps down first and releases the lease at once.

        If the caller is cancelled, this continues in the background.
        """
        self._stopping = True
        task = self._task
        if task is None:
            return
        # A leader steps down in order. A waiting candidate is only cancelled.
        if not self._end_leadership("") and not self._leading:
            task.cancel()
        await asyncio.wait({task})

    @takes_options("election.resign", own=ALL)
    async def resign(self, to: str | None = None) -> bool:
        """Step down, and queue again behind all other candidates. Returns whether this process led.

        `to` is the process, pod, host or label of the next leader, as in a blue/green deploy. If it is not a candidate,
        the first in the queue is next. Returns after the lease was released.
        """
        keeper = self._keeper
        if not self._end_leadership(to or ""):
            return False
        assert keeper is not None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        keeper.given_back.then(lambda: _settle(future, None))
        await future
        return True

    def leave_the_parents(self) -> None:
        """Called in a forked child: forget the parent's candidacy. The child may start its own."""
        self._task = self._keeper = self._attempt = self._part = self._leave = None
        self._waiting, self._stopping, self._leading = [], False, False

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncIterator[None]:
        """`FastAPI(lifespan=election.lifespan)`."""
        async with self:
            yield

    def _end_leadership(self, to: str) -> bool:
        if self._leave is None or self._leave.done():
            return False
        self._leave.set_result(to)
        return True

    async def _stand(self, part: LoopState) -> None:
        try:
            while not self._stopping:
                await self._stand_once(part)
        finally:
            self._stopping = True
            self._tell_news()

    async def _stand_once(self, part: LoopState) -> None:
        asked_at = part.world.now()
        self._attempt = Acquisition(
            part, self.name, part.owner, self._timing, title=reporting.title_of(self.name, part.prefix)
        )
        try:
            state = await self._attempt.granted(wait=FOR_EVER)
        except Exception as error:
            # The back end refused, so an operator has to act. Ask again later. Also after a programming error, because
            # the process must stay a candidate.
            mistake = None if isinstance(error, LeaseTaken | StoreError) else error
            log.error(
                "the election %s failed, the next attempt follows: %s", self.name, error, exc_info=mistake
            )
            await part.pause(self._timing.lease_ttl)
            return
        keeper = Keeper(self._attempt, state)
        reporting.won(keeper, part.world.now() - asked_at)
        self._leading = True
        try:
            await self._lead(part, keeper)
        finally:
            self._leading = False
        if not self._stopping:
            # Queue behind the waiting candidates, and give them time to take their turn first.
            await part.pause(2 * self._timing.poll_every)

    async def _lead(self, part: LoopState, keeper: Keeper) -> None:
        self._keeper = keeper
        self._leave = leave = asyncio.get_running_loop().create_future()
        keeper.stopping.then(lambda: _settle(leave, ""))
        if self._stopping:
            _settle(leave, "")
        work = self._begin_work(part, Lease(keeper), leave)
        self._tell_news()
        try:
            to = await leave
        except asyncio.CancelledError:
            self._stopping, to = True, ""
        await self._step_down(keeper, work, to)

    def _begin_work(
        self, part: LoopState, lease: Lease, leave: asyncio.Future[str]
    ) -> asyncio.Task[None] | None:
        if self._on_elected is None or leave.done():
            return None
        work = part.begin(_called(self._on_elected, lease), name=f"leads {self.name}")

        def ended(work: asyncio.Task[None]) -> None:
            # If `on_elected` returned, this process continues to lead. If it failed, it resigns.
            if work.cancelled():
                if not leave.done():
                    log.error("on_elected of the election %s was cancelled, so it resigns", self.name)
                    _settle(leave, "")
            elif (error := work.exception()) is not None:
                log.error("on_elected of the election %s failed, so it resigns", self.name, exc_info=error)
                _settle(leave, "")

        work.add_done_callback(ended)
        return work

    async def _step_down(self, keeper: Keeper, work: asyncio.Task[None] | None, to: str) -> None:
        """End the work first, then the lease: the work must not overlap with the next leader's."""
        self._keeper = None
        if work is not None:
            work.cancel()
            await _done_or_lost(work, keeper)
        if self._on_lost is not None:
            await _done_or_lost(keeper.part.begin(self._tell_lost(Lease(keeper)), name="on_lost"), keeper)
        await given_back(keeper, to=to)
        keeper.given_back.raise_it("resigned")
        if work is not None and not work.done():
            log.error("on_elected of %s still runs after its cancellation, without a lease", self.name)
            await asyncio.wait({work})

    async def _tell_lost(self, lease: Lease) -> None:
        assert self._on_lost is not None
        try:
            await _called(self._on_lost, lease)
        except Exception:
            log.exception("on_lost of the election %s failed", self.name)


async def _called(call: OnLeader, lease: Lease) -> None:
    result = call(lease)
    if inspect.isawaitable(result):
        await result


async def _done_or_lost(task: asyncio.Task[None], keeper: Keeper) -> None:
    """Wait until the task has ended or the lease is lost."""
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    keeper.lost.then(lambda: _settle(lost, None))
    await asyncio.wait({task, lost}, return_when=asyncio.FIRST_COMPLETED)


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
