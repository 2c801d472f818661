"""The passengers of one flight, and the outcome that each of them receives."""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, assert_never

from stampede_guard.core.aboard import Aboard
from stampede_guard.core.entry import Reading
from stampede_guard.core.outcome import Audience
from stampede_guard.engine.flights.passenger import ON_ITS_OWN, Passenger
from stampede_guard.errors import ComputeFailed, Overloaded, Undecodable
from stampede_guard.values.codec.copies import Copies
from stampede_guard.values.errorcopies import copy_of
from stampede_guard.values.failures import stand_in
from stampede_guard.values.unstorable import NoCopy, Unstorable

if TYPE_CHECKING:
    from stampede_guard.engine.plan import Plan, Run, Variables

__all__ = ["Passengers"]

NOBODYS: Any = object()
"""No value yet."""

FEW_DEADLINES = 64
"""From this number on, deadlines of passengers that have left are swept out when they are the most."""


class Passengers:
    """`joined` counts all that ever joined. It numbers the passengers. A flight serves them up to a number.

    `_covered` have joined when the store was asked last, `_before_compute` when the user's function was called,
    `_before_grant` when the store was asked for the permission to call it.

    `collapsed` counts those that were served by the computation of another call.

    One timer serves them all. With a timer of its own, each caller of a herd would cost a tenth more.
    """

    def __init__(self, plan: Plan, loop: asyncio.AbstractEventLoop) -> None:
        self.joined = 0
        self.collapsed = 0
        self._some_have_stale = False
        self._covered = 0
        self._before_compute = 0
        self._before_grant = 0
        self._plan = plan
        self._loop = loop
        self._aboard: dict[int, Passenger] = {}
        """By number. Each may leave by itself, and thousands may leave at once."""
        self._deadlines: list[tuple[float, int]] = []
        """A heap: when the patience of a passenger ends, and its number. Those that left stay in it for a while."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._aboard)

    def aboard(self) -> Aboard:
        """What the flight's decisions need to know of them."""
        count = len(self._aboard)
        if not self._some_have_stale:
            return Aboard(count, count, count > 0)
        wanting = sum(passenger.stale is None for passenger in self._aboard.values())
        waits = wanting > 0 or any(passenger.patient for passenger in self._aboard.values())
        return Aboard(count, wanting, waits)

    def cover(self) -> None:
        """The store is asked now: its answer covers these passengers."""
        self._covered = self.joined

    def computation_begins(self) -> None:
        self._before_compute = self.joined
        self._before_grant = self._covered

    def saw_old_value(self) -> None:
        """The computation may have kept the value that was in the store when the lease was granted, or a part of it.

        1. The lease is granted. 2. Another process invalidates. 3. A caller joins, before the grant has arrived. 4. The
        computation keeps the old value, and the store refuses it. That caller came after the invalidation.
        """
        self._before_compute = min(self._before_compute, self._before_grant)

    def up_to(self, to: Audience) -> int:
        """The number of the last passenger that an outcome may serve."""
        match to:
            case "covered":
                return self._covered
            case "before_compute":
                return self._before_compute
            case "everyone" | "leader":
                return self.joined
            case _:
                assert_never(to)

    @property
    def all_busy(self) -> bool:
        return bool(self._aboard) and all(passenger.busy for passenger in self._aboard.values())

    def next_idle(self) -> Passenger | None:
        return next((passenger for passenger in self._aboard.values() if not passenger.busy), None)

    def join(
        self,
        run: Run,
        variables: Variables,
        *,
        until: float,
        bound: bool,
        stale: Reading | None,
        patient: bool = False,
        share: bool = False,
    ) -> Passenger:
        """Raises `Overloaded` when `max_passengers` wait already. `until`: when it loses patience, in loop time."""
        if len(self._aboard) >= self._plan.policy.max_passengers:
            raise Overloaded(
                f"{self._plan.title}: {len(self._aboard)} callers already wait for one value (max_passengers)"
            )
        self.joined += 1
        self._some_have_stale = self._some_have_stale or stale is not None
        future = self._loop.create_future()
        passenger = Passenger(
            self.joined, future, run, variables, bound=bound, stale=stale, patient=patient, share=share
        )
        self._aboard[passenger.number] = passenger
        heappush(self._deadlines, (until, passenger.number))
        if self._timer is None or until < self._timer.when():
            self._set_timer(until)
        return passenger

    def _set_timer(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(until, self._wake_impatient, until)

    def _wake_impatient(self, due: float) -> None:
        self._timer = None
        now, deadlines = max(due, self._loop.time()), self._deadlines
        while deadlines and (deadlines[0][0] <= now or deadlines[0][1] not in self._aboard):
            passenger = self._aboard.get(heappop(deadlines)[1])
            if passenger is not None:
                passenger.lose_patience()
        if deadlines:
            self._set_timer(deadlines[0][0])

    def remove(self, passenger: Passenger) -> None:
        self._aboard.pop(passenger.number, None)
        if len(self._deadlines) > 2 * len(self._aboard) + FEW_DEADLINES:
            self._deadlines = [each for each in self._deadlines if each[1] in self._aboard]
            heapify(self._deadlines)

    def hand_out(
        self, body: bytes, *, last: int, age: float = 0.0, but: Passenger | None = None
    ) -> Undecodable | None:
        """Give a value to all up to number `last`, except one. For undecodable bytes, returns the error.

        `age`: seconds since the value was stored.
        """
        copies: Copies | Unstorable = body if isinstance(body, Unstorable) else self._plan.copies(body)
        shared: Copies | None = None
        for_all: Any = NOBODYS
        immutable: bool | None = None
        for passenger in self._up_to(last):
            if passenger is but:
                continue
            if immutable is None and for_all is not NOBODYS:
                # The bytes are the same for all, so immutability of the first value holds for each value.
                immutable = self._plan.is_immutable(for_all)
            try:
                if immutable:
                    value = for_all
                elif passenger.share:
                    shared = shared or self._shared(body)
                    value = shared.another()
                else:
                    # It gets a value of its own, even if the leader shares.
                    value = copies.another()
            except Undecodable as error:
                return error
            except NoCopy:
                passenger.future.set_result(ON_ITS_OWN)
                continue
            for_all = value
            passenger.age = age
            passenger.future.set_result(value)
            self.collapsed += not passenger.led
        self._let_go()
        return None

    def _shared(self, body: bytes) -> Copies:
        """One object for all callers that share: the others must not change it."""
        if isinstance(body, Unstorable):
            return Copies(lambda _: body.another(), body, trees=False, shared=True)
        return self._plan.copies(body, shared=True)

    def fail(self, error: BaseException, *, last: int) -> None:
        """Give a copy of an error to all up to number `last`. Those with a stale value get that instead."""
        original: BaseException | None = error
        for passenger in self._up_to(last):
            if passenger.stale is not None:
                self._serve_stale(passenger)
                continue
            copied = copy_of(error)
            if copied is None and passenger.led:
                # It cannot be copied. Only the caller whose call was computed gets the original.
                copied, original = original, None
            if copied is None:
                copied = stand_in(error)
            passenger.future.set_exception(copied)
        self._let_go()

    def refuse(self, passenger: Passenger, error: BaseException) -> None:
        """Give the error only to the caller whose call was computed. All others wait for the next outcome."""
        if passenger.gone or passenger.future.done():
            return
        if passenger.stale is not None:
            self._serve_stale(passenger)
        else:
            passenger.future.set_exception(copy_of(error) or error)
        self.remove(passenger)

    def numbered(self, number: int) -> Passenger | None:
        return self._aboard.get(number)

    def send_away(self, *, but: Passenger | None) -> None:
        """Let all others compute for themselves: this flight's value may be private to this passenger."""
        for passenger in self._up_to(self.joined):
            if passenger is not but:
                passenger.future.set_result(ON_ITS_OWN)
        self._let_go()

    def dismiss(self, error: BaseException | None) -> None:
        """End all waiting, because the flight has ended. Without an `error`, another flight refreshes the entry."""
        if self._aboard:
            text = f"{self._plan.title}: the flight ended without a value"
            self.fail(error or ComputeFailed("Abandoned", text), last=self.joined)
            self._aboard = {}
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _up_to(self, last: int) -> list[Passenger]:
        return [
            passenger
            for passenger in self._aboard.values()
            if passenger.number <= last and not passenger.future.done()
        ]

    def _serve_stale(self, passenger: Passenger) -> None:
        assert passenger.stale is not None
        passenger.instead = "stale"
        try:
            passenger.future.set_result(self._plan.codec.decode(passenger.stale.body))
        except Undecodable as error:
            passenger.future.set_exception(error)

    def _let_go(self) -> None:
        self._aboard = {
            number: passenger for number, passenger in self._aboard.items() if not passenger.future.done()
        }
