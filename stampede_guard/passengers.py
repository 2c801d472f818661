"""The passengers of one flight: who is aboard, and what each of them is handed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stampede_guard.core.entry import Reading
from stampede_guard.errors import ComputeFailed, Overloaded, Undecodable
from stampede_guard.passenger import ON_ITS_OWN, Passenger

if TYPE_CHECKING:
    from stampede_guard.plan import Plan, Run, Variables

__all__ = ["Passengers"]


class Passengers:
    """`joined` counts all that ever joined; passengers are numbered by it, and served up to a number.

    `collapsed` counts those that were served by a computation of somebody else's call.
    """

    def __init__(self, plan: Plan, loop: asyncio.AbstractEventLoop) -> None:
        self.joined = 0
        self.collapsed = 0
        self._plan = plan
        self._loop = loop
        self._aboard: list[Passenger] = []

    def __len__(self) -> int:
        return len(self._aboard)

    @property
    def wanted(self) -> bool:
        """Whether somebody waits who has no stale value to go on with, or is patient with one."""
        return any(passenger.stale is None or passenger.patient for passenger in self._aboard)

    @property
    def wanting(self) -> int:
        """How many have nothing to go on with."""
        return sum(passenger.stale is None for passenger in self._aboard)

    @property
    def all_busy(self) -> bool:
        return bool(self._aboard) and all(passenger.busy for passenger in self._aboard)

    def next_idle(self) -> Passenger | None:
        return next((passenger for passenger in self._aboard if not passenger.busy), None)

    def join(
        self,
        run: Run,
        variables: Variables,
        *,
        bound: bool,
        stale: Reading | None,
        patient: bool = False,
    ) -> Passenger:
        """Raises `Overloaded` when `max_passengers` wait already."""
        if len(self._aboard) >= self._plan.policy.max_passengers:
            raise Overloaded(
                f"{self._plan.title}: {len(self._aboard)} callers wait for one value already (max_passengers)"
            )
        self.joined += 1
        future = self._loop.create_future()
        passenger = Passenger(self.joined, future, run, variables, bound=bound, stale=stale, patient=patient)
        self._aboard.append(passenger)
        return passenger

    def remove(self, passenger: Passenger) -> None:
        if passenger in self._aboard:
            self._aboard.remove(passenger)

    def hand_out(self, body: bytes, *, last: int) -> Undecodable | None:
        """A value to everybody up to number `last`. Returns what was wrong with the bytes; then nobody has it."""
        copies = self._plan.copies(body)
        shared: Any = None
        sharing: bool | None = None
        for passenger in self._up_to(last):
            try:
                value = shared if sharing else copies.another()
            except Undecodable as error:
                return error
            if sharing is None:
                # The same bytes for all: what is true of the first value is true of each.
                sharing = self._plan.may_share(value)
                shared = value
            passenger.future.set_result(value)
            self.collapsed += not passenger.led
        self._let_go()
        return None

    def fail(self, error: BaseException, *, last: int) -> None:
        """An error to everybody up to number `last`, but the stale value to those who have one."""
        for passenger in self._up_to(last):
            if passenger.stale is not None:
                self._serve_stale(passenger)
            else:
                passenger.future.set_exception(error)
        self._let_go()

    def numbered(self, number: int) -> Passenger | None:
        return next((passenger for passenger in self._aboard if passenger.number == number), None)

    def send_away(self, *, but: Passenger | None) -> None:
        """All others compute for themselves: what this flight brings may be private to this one."""
        for passenger in self._up_to(self.joined):
            if passenger is not but:
                passenger.future.set_result(ON_ITS_OWN)
        self._let_go()

    def dismiss(self, error: BaseException | None) -> None:
        """The flight has ended: nobody is left waiting. Without an `error`, somebody else refreshes the entry."""
        text = f"{self._plan.title}: the flight ended without a value"
        self.fail(error or ComputeFailed("Abandoned", text), last=self.joined)
        self._aboard = []

    def _up_to(self, last: int) -> list[Passenger]:
        return [
            passenger
            for passenger in self._aboard
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
        self._aboard = [passenger for passenger in self._aboard if not passenger.future.done()]
