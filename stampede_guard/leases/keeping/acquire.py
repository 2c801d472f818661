"""Acquiring a lease: ask, wait in the queue, ask again. A failed attempt leaves nothing in the back end."""

from __future__ import annotations

import asyncio

from stampede_guard.errors import LeaseTaken, StoreError, StoreRefused, StoreUnavailable
from stampede_guard.leases.core import holding
from stampede_guard.leases.core.holding import AskFor, Event, GiveUp, Holding, Nothing, Sleep, State, Stopping
from stampede_guard.leases.core.timing import Timing
from stampede_guard.leases.keeping.loop_state import LoopState, log
from stampede_guard.leases.messages import Answer, LeaseGranted, LeaseHeld, LeaseRequest, Owner, Withheld
from stampede_guard.leases.owner import called

__all__ = ["Acquisition"]


class Acquisition:
    """One attempt, with its own holder id. `handed_over`: see `LeaseRequest`. `title`: its name in events."""

    def __init__(
        self,
        part: LoopState,
        name: str,
        owner: Owner,
        timing: Timing,
        *,
        title: str,
        handed_over: bool = False,
    ) -> None:
        self.part = part
        self.handed_over = handed_over
        self.title = title
        self.name = name
        self.owner = owner
        self.timing = timing
        self.holder = part.world.fresh()
        self.answer: Answer | None = None
        self.succeeds = False
        """Whether this attempt saw another holder."""
        self._state: State = holding.Idle()
        self._error: StoreError | None = None
        self._woken: asyncio.Future[None] | None = None
        self._asking: asyncio.Task[Answer] | None = None

    async def granted(self, *, wait: float) -> Holding | Stopping:
        """The granted state. Raises `LeaseTaken` or `StoreError` without a grant within `wait` seconds.

        If the attempt fails or is cancelled, a background task removes it from the back end.
        """
        stop_listening = self.part.listen_for_call(self.name, self.holder, self._called)
        try:
            state = await self._run(holding.Want(self.part.world.now(), wait))
        except BaseException:
            self.part.leave(self._leave(), name=f"gives up {self.name}")
            raise
        finally:
            stop_listening()
        if state is not None:
            return state
        if self._may_have_left_something(wait):
            self.part.leave(self._leave(), name=f"gives up {self.name}")
        raise self._why_not()

    async def _run(self, event: Event) -> Holding | Stopping | None:
        while True:
            self._state, command = holding.decide(self._state, event, self.timing)
            if isinstance(self._state, Holding | Stopping):
                return self._state
            match command:
                case AskFor(place, turn):
                    event = await self._ask(place, turn)
                case Sleep(until):
                    event = await self._sleep(until)
                case GiveUp():
                    return None
                case _:
                    raise AssertionError(f"{self._state} {command}")

    async def _ask(self, place: float, turn: float) -> Event:
        world = self.part.world
        question = LeaseRequest(
            name=self.name,
            holder=self.holder,
            owner=self.owner,
            lease_ttl=self.timing.lease_ttl,
            place=place,
            turn=turn,
            handed_over=self.handed_over,
        )
        try:
            self._asking = self.part.begin(
                self.part.backend.acquire(question, timeout=self.timing.request_timeout),
                name=f"asks for {self.name}",
            )
            await asyncio.wait({self._asking})
            answer = self._asking.result()
        except StoreError as error:
            if isinstance(error, StoreRefused) and not error.may_pass:
                raise
            if self._error is None and place:
                log.warning("lease %s: %s cannot ask for it: %s", self.name, called(self.owner), error)
            self._error = error
            return holding.NoAnswer(world.now(), world.draw())
        self._error, self.answer = None, answer
        self.part.tell_withheld(answer)
        self.succeeds = self.succeeds or isinstance(answer, LeaseHeld)
        return holding.BackendAnswered(answer, world.now(), world.draw(), hears=self.part.hears)

    async def _sleep(self, until: float) -> Event:
        """Sleep until then, or until a hint makes the next request earlier."""
        world = self.part.world
        self._woken = woken = asyncio.get_running_loop().create_future()
        while True:
            cancel = world.later(until - world.now(), self._wake)
            try:
                await woken
            finally:
                cancel()
            if not isinstance(self._state, holding.AwaitingLease) or world.now() >= self._state.ask_at:
                self._woken = None
                return holding.Looked(world.now())
            until = self._state.ask_at
            self._woken = woken = asyncio.get_running_loop().create_future()

    def _called(self, ahead: int) -> None:
        """It may be our turn: `ahead` other waiters were called before us."""
        world = self.part.world
        self._state, command = holding.decide(
            self._state, holding.Freed(world.now(), world.draw(), ahead), self.timing
        )
        if not isinstance(command, Nothing):
            self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _may_have_left_something(self, wait: float) -> bool:
        """Whether the back end may have a place of ours, or a grant whose answer was late."""
        return wait > 0 or self._error is not None or isinstance(self.answer, LeaseGranted)

    async def _leave(self) -> None:
        if self._asking is not None:
            if self.part.unsent(self._asking) and self.answer is None and self._error is None:
                # The first request was never sent, so there is nothing to undo. A burst of cancellations thus sends
                # no burst of requests.
                self._asking.cancel()
                return
            # Let the request end first. If the back end executed it after the leave, the grant would stay unused.
            await asyncio.wait({self._asking})
            if not self._asking.cancelled():
                self._asking.exception()
        await self.part.backend.leave(self.name, holder=self.holder, timeout=self.timing.request_timeout)

    def _why_not(self) -> Exception:
        if self._error is not None:
            return self._error
        match self.answer:
            case LeaseHeld(owner, token, remaining):
                return LeaseTaken(self.name, holder=called(owner), token=token, remaining=remaining)
            case Withheld(why, remaining):
                return StoreUnavailable(
                    f"the lease {self.name!r} is not granted for another {remaining:.0f} s: {why}"
                )
            case _:
                return StoreUnavailable(f"the answer about the lease {self.name!r} came too late to be used")
