"""Getting a lease: ask, wait in the queue, ask again; and leaving nothing behind when that ends otherwise."""

from __future__ import annotations

import asyncio

from stampede_guard.errors import LeaseTaken, StoreError, StoreRefused, StoreUnavailable
from stampede_guard.leases.core import holding
from stampede_guard.leases.core.holding import AskFor, Event, GiveUp, Holding, Nothing, Sleep, State, Stopping
from stampede_guard.leases.core.timing import Timing
from stampede_guard.leases.owner import called
from stampede_guard.leases.part import Part, log
from stampede_guard.leases.words import Answer, Ask, Granted, Held, Owner, Withheld

__all__ = ["Acquisition"]


class Acquisition:
    """One attempt, under a holder's name of its own. `handed_over`: see `Ask`. `title`: what events call it."""

    def __init__(
        self,
        part: Part,
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
        """Whether somebody else was seen to have it while this attempt went on."""
        self._state: State = holding.Idle()
        self._error: StoreError | None = None
        self._woken: asyncio.Future[None] | None = None
        self._asking: asyncio.Task[Answer] | None = None

    async def granted(self, *, wait: float) -> Holding | Stopping:
        """What to believe. Raises `LeaseTaken` or `StoreError` when `wait` seconds have not sufficed.

        Whatever else ends it, a cancellation too, the back end is told to forget the attempt, in the background.
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
        question = Ask(
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
            return holding.Failed(world.now(), world.draw())
        self._error, self.answer = None, answer
        self.part.tell_withheld(answer)
        self.succeeds = self.succeeds or isinstance(answer, Held)
        return holding.Answered(answer, world.now(), world.draw(), hears=self.part.hears)

    async def _sleep(self, until: float) -> Event:
        """Until then, or until a hint brings the next question forward."""
        world = self.part.world
        self._woken = woken = asyncio.get_running_loop().create_future()
        while True:
            cancel = world.later(until - world.now(), self._wake)
            try:
                await woken
            finally:
                cancel()
            if not isinstance(self._state, holding.Waiting) or world.now() >= self._state.ask_at:
                self._woken = None
                return holding.Looked(world.now())
            until = self._state.ask_at
            self._woken = woken = asyncio.get_running_loop().create_future()

    def _called(self, ahead: int) -> None:
        """Our turn may have come: `ahead` others were called before us."""
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
        """Whether the back end may have something of ours: a place, or a grant that we were not told in time."""
        return wait > 0 or self._error is not None or isinstance(self.answer, Granted)

    async def _leave(self) -> None:
        if self._asking is not None:
            if self.part.unsent(self._asking) and self.answer is None and self._error is None:
                # It was the first question, and it never left: a storm of cancellations is no storm of questions.
                self._asking.cancel()
                return
            # First let the question end: carried out after this it would be granted to nobody.
            await asyncio.wait({self._asking})
            if not self._asking.cancelled():
                self._asking.exception()
        await self.part.backend.leave(self.name, holder=self.holder, timeout=self.timing.request_timeout)

    def _why_not(self) -> Exception:
        if self._error is not None:
            return self._error
        match self.answer:
            case Held(owner, token, remaining):
                return LeaseTaken(self.name, holder=called(owner), token=token, remaining=remaining)
            case Withheld(why, remaining):
                return StoreUnavailable(f"no lease {self.name!r} for another {remaining:.0f} s: {why}")
            case _:
                return StoreUnavailable(
                    f"the answer about the lease {self.name!r} came too late to be believed"
                )
