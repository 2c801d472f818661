"""The keeper renews a lease in the background and signals the end of belief to the protected work.

The keeper has no loop. Timers and answers are events for `core.holding`, and each command starts one action. A separate
timer signals the end of belief, so the signal comes in time even while a renewal hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from stampede_guard.errors import StoreError
from stampede_guard.leases.core import holding
from stampede_guard.leases.core.holding import Event, Holding, Lost, Released, State, Stopping
from stampede_guard.leases.keeping.acquire import Acquisition
from stampede_guard.leases.keeping.loop_state import log
from stampede_guard.leases.keeping.signal import Signal
from stampede_guard.leases.keeping.world import generation

__all__ = ["Keeper"]


class Keeper:
    """`stopping` is raised when the body must end, `lost` when the lease no longer protects the body."""

    def __init__(self, won: Acquisition, state: Holding | Stopping) -> None:
        self.name = won.name
        self.title = won.title
        self.holder = won.holder
        self.owner = won.owner
        self.timing = won.timing
        self.part = won.part
        self.token = state.token
        self.succeeds = won.succeeds
        self.stopping = Signal()
        self.lost = Signal()
        self.given_back = Signal()
        self.left_behind = False
        """Whether the release failed, so that the lease ends only at its deadline."""
        self._state: State = state
        self._cancel_timer: Callable[[], object] | None = None
        self._generation = generation()
        self.won_at = self.part.world.now()
        if isinstance(state, Stopping):
            self.stopping.raise_it(state.why)
        self.part.keepers.add(self)
        self._stop_listening = self.part.listen(self.name, self._hinted)
        self._feed(holding.Looked(self.part.world.now()))

    def remaining(self) -> float:
        """Seconds of belief that are left, from the clock. Works in any thread. 0 in a forked child."""
        if self._generation != generation():
            return 0.0
        return max(0.0, holding.deadline_of(self._state) - self.part.world.now())

    @property
    def settled(self) -> bool:
        """Whether new work may start under the lease: it is held and not stopping."""
        return isinstance(self._state, Holding) and self.remaining() > 0

    def look(self) -> None:
        """Update the flags from the clock."""
        self._feed(holding.Looked(self.part.world.now()))

    def _hinted(self) -> None:
        self._feed(holding.Freed(self.part.world.now()))

    def disown(self, why: str) -> None:
        """Treat the lease as lost, as after a refused renewal: the back end said that it is not ours."""
        if isinstance(self._state, Holding | Stopping):
            self._state = Lost(self.token, why)
            self._lose(why)

    async def release(self, *, at_least_for: float = 0.0, to: str = "") -> Released | Lost:
        """Release the lease and return the outcome."""
        if self._generation != generation():
            # The lease belongs to the parent, which continues to use it.
            return Lost(self.token, "the parent of this forked process holds it")
        self._feed(holding.Ended(self.part.world.now()))
        self._stop_waiting()
        if isinstance(self._state, holding.Releasing):
            held = await self._give_back(at_least_for, to)
            self._feed(holding.Returned(held, self.part.world.now()))
        elif isinstance(self._state, Lost):
            # We no longer believe, but the back end may still have the lease. Release it, so that waiters need not
            # wait for its deadline.
            await self._give_back(at_least_for, to)
        if not isinstance(self._state, Released | Lost):
            raise AssertionError(self._state)
        return self._state

    async def _give_back(self, at_least_for: float, to: str) -> bool | None:
        try:
            return await self.part.backend.release(
                self.name,
                holder=self.holder,
                token=self.token,
                at_least_for=at_least_for,
                to=to,
                timeout=self.timing.request_timeout,
            )
        except Exception as error:
            # Also after a programming error: the lease ends at its deadline, and the caller of release() continues.
            mistake = None if isinstance(error, StoreError) else error
            log.warning(
                "the lease %s (token %d) could not be released, it ends at its deadline: %s",
                self.name,
                self.token,
                error,
                exc_info=mistake,
            )
            self.left_behind = True
            return None

    def _feed(self, event: Event) -> None:
        self._state, command = holding.decide(self._state, event, self.timing)
        match command:
            case holding.Nothing() | holding.ReleaseLease():
                pass
            case holding.Sleep(until):
                self._set_timer(until)
            case holding.Renew():
                self.part.leave(self._renew(), name=f"renews {self.name}")
                self.look()
            case holding.Stop(why):
                self.stopping.raise_it(why)
                self.look()
            case holding.Lose(why):
                self._lose(why)
            case holding.AskFor() | holding.GiveUp():
                raise AssertionError(f"a keeper does not acquire: {self._state}")
            case _:
                assert_never(command)

    async def _renew(self) -> None:
        world = self.part.world
        try:
            answer = await self.part.backend.renew(
                self.name,
                holder=self.holder,
                token=self.token,
                lease_ttl=self.timing.lease_ttl,
                timeout=self.timing.request_timeout,
            )
        except Exception as error:
            # Also after a programming error: it may be temporary, and the next renewal may succeed.
            mistake = None if isinstance(error, StoreError) else error
            log.warning(
                "the lease %s (token %d) could not be renewed: %s",
                self.name,
                self.token,
                error,
                exc_info=mistake,
            )
            self._feed(holding.NoAnswer(world.now()))
        else:
            self._feed(holding.BackendAnswered(answer, world.now()))

    def _lose(self, why: str) -> None:
        self._stop_waiting()
        self.stopping.raise_it(why)
        self.lost.raise_it(why)

    def _set_timer(self, until: float) -> None:
        self._stop_timer()
        world = self.part.world
        self._cancel_timer = world.later(until - world.now(), self.look)

    def _stop_waiting(self) -> None:
        self.part.keepers.discard(self)
        self._stop_listening()
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
