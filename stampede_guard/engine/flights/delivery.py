"""Hand out the outcome of a flight to the passengers that it covers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from stampede_guard.core.entry import Reading
from stampede_guard.core.events import Delivered
from stampede_guard.core.outcome import Audience, FlightOutcome
from stampede_guard.engine.told import age_of
from stampede_guard.errors import ComputeFailed, Undecodable, WaitTimeout
from stampede_guard.values.failures import decode_failure, encode_failure
from stampede_guard.values.ownerrors import OWN_ERRORS

if TYPE_CHECKING:
    from stampede_guard.engine.away.last_seen import Proof
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.loops.runtime import Runtime

__all__ = ["Delivery", "crash_of"]

log = logging.getLogger("stampede_guard")


class Delivery:
    """`error`: the original exception of this process's computation; its own passengers get it.

    `proof`: see `readonly`.
    """

    def __init__(self, runtime: Runtime, flight: Flight) -> None:
        self.error: BaseException | None = None
        self.proof: Proof | None = None
        self._runtime = runtime
        self._flight = flight

    def deliver(self, outcome: FlightOutcome, to: Audience, *, keeps: bool = False) -> Delivered:
        """`keeps`: this process may serve the value while the store is away."""
        passengers = self._flight.passengers
        last = passengers.up_to(to)
        if to == "leader":
            passengers.send_away(but=passengers.numbered(self._flight.computation.leader))
        if outcome.kind == "failure":
            passengers.fail(self._failure(outcome), last=last)
        else:
            self._hand_out(outcome, last, keeps=keeps)
        return Delivered(passengers.aboard())

    def _failure(self, outcome: FlightOutcome) -> BaseException:
        if outcome.own and self.error is not None:
            return self.error
        return decode_failure(outcome.body, entry=self._flight.name)

    def recorded(self, error: BaseException) -> bytes | None:
        """The record of an error for other processes, or None. Callers of this process find the error itself by it."""
        flight, runtime, id = self._flight, self._runtime, OWN_ERRORS.new_id()
        record = encode_failure(error, id=id)
        if record is not None:
            seconds = flight.plan.policy.error_ttl
            OWN_ERRORS.keep(flight.name, id, error, seconds, clock=runtime.now, loop=runtime.loop)
        return record

    def _hand_out(self, outcome: FlightOutcome, last: int, *, keeps: bool) -> None:
        age = 0.0
        if outcome.reading is not None:
            self._runtime.learn(self._flight.name, outcome.reading)
            age = age_of(outcome.reading)
        elif keeps:
            self._keep(outcome)
        problem = self._flight.passengers.hand_out(outcome.body, last=last, age=age)
        if problem is None:
            return
        if outcome.reading is None:
            self._flight.passengers.fail(problem, last=last)
        else:
            self.reject(outcome.reading, problem)

    def _keep(self, outcome: FlightOutcome) -> None:
        """Computed without the store. Token 0 means that the value stays in this process and is never stored."""
        policy = self._flight.lifetimes or self._flight.plan.policy
        reading = Reading(outcome.body, 0, policy.total_ms, policy.stale_ms, policy.total_ms)
        self._runtime.remember(self._flight.name, reading, proof=self.proof)

    def reject(self, reading: Reading, error: Undecodable) -> None:
        """The stored bytes are not a value of this type. From now on the flight accepts only a newer value."""
        self._flight.require_newer(reading.token)
        self._runtime.warn_undecodable(self._flight.plan, error, reading.body)


def crash_of(flight: Flight, error: BaseException) -> BaseException:
    """The error for passengers of a flight whose driver raised `error`. It is always an ordinary exception."""
    if isinstance(error, asyncio.CancelledError) and flight.task.cancelling():
        return WaitTimeout(f"{flight.plan.title}: this process is shutting down")
    if flight.task.get_loop().is_closed():
        # Its event loop was closed without a wait for its tasks, and Python now ends their coroutines.
        return WaitTimeout(f"{flight.plan.title}: its event loop was closed")
    log.error("a flight of %s ended with an error in its own code", flight.plan.title, exc_info=error)
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    failed = ComputeFailed(type(error).__name__, str(error))
    failed.__cause__ = error
    return failed
