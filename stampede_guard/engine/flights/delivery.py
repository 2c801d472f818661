"""Hand out the outcome of a flight to the passengers that it covers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, assert_never

from stampede_guard.core import flight as core
from stampede_guard.core.entry import Reading
from stampede_guard.errors import ComputeFailed, Undecodable, WaitTimeout
from stampede_guard.values.failures import decode_failure

if TYPE_CHECKING:
    from stampede_guard.engine.away.last_seen import Proof
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.loops.runtime import Runtime

__all__ = ["Delivery", "crash_of"]

log = logging.getLogger("stampede_guard")


class Delivery:
    """`covered`: how many callers had joined when the store was asked last. `has_delivered`: a caller was served.

    `alone`: the computation ran without the store. `outdated`: `invalidate()` was called here during the computation.
    `error`: the original exception of this process's computation; its own passengers get it. `proof`: see `readonly`.
    """

    def __init__(self, runtime: Runtime, flight: Flight) -> None:
        self.covered = 0
        self.has_delivered = False
        self.alone = False
        self.outdated = False
        self.error: BaseException | None = None
        self.proof: Proof | None = None
        self._runtime = runtime
        self._flight = flight

    def deliver(self, outcome: core.Outcome, to: core.Audience) -> core.Event:
        passengers = self._flight.passengers
        match to:
            case "covered":
                last = self.covered
            case "before_compute":
                last = self._flight.computation.joined_before
            case "everyone" | "leader":
                last = passengers.joined
            case _:
                assert_never(to)
        if to == "leader":
            passengers.send_away(but=passengers.numbered(self._flight.computation.leader))
        if outcome.kind == "failure":
            passengers.fail(self._failure(outcome), last=last)
        else:
            self._hand_out(outcome, to, last)
        self.has_delivered = True
        return core.Delivered(len(passengers))

    def _failure(self, outcome: core.Outcome) -> BaseException:
        if outcome.own and self.error is not None:
            return self.error
        return decode_failure(outcome.body)

    def _hand_out(self, outcome: core.Outcome, to: core.Audience, last: int) -> None:
        self._remember(outcome, to)
        problem = self._flight.passengers.hand_out(outcome.body, last=last)
        if problem is None:
            return
        if outcome.reading is None:
            self._flight.passengers.fail(problem, last=last)
        else:
            self.reject(outcome.reading, problem)

    def _remember(self, outcome: core.Outcome, to: core.Audience) -> None:
        flight = self._flight
        if outcome.kind == "pass":
            return
        if outcome.reading is not None:
            self._runtime.learn(flight.name, outcome.reading)
        elif (self.alone and not self.outdated) or (to == "everyone" and not flight.bypassed):
            # Computed without the store. Token 0 means that the value stays in this process and is never stored.
            policy = flight.lifetimes or flight.plan.policy
            reading = Reading(outcome.body, 0, policy.total_ms, policy.stale_ms, policy.total_ms)
            self._runtime.remember(flight.name, reading, proof=self.proof)

    def reject(self, reading: Reading, error: Undecodable) -> None:
        """The stored bytes are not a value of this type. From now on the flight accepts only a newer value."""
        flight = self._flight
        flight.newer_than = max(flight.newer_than, reading.token)
        self._runtime.warn_undecodable(flight.plan, error)


def crash_of(flight: Flight, error: BaseException) -> BaseException:
    """The error for passengers of a flight whose driver raised `error`. It is always an ordinary exception."""
    if isinstance(error, asyncio.CancelledError) and flight.task.cancelling():
        return WaitTimeout(f"{flight.plan.title}: this process is shutting down")
    log.error("a flight of %s ended with an error in its own code", flight.plan.title, exc_info=error)
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    failed = ComputeFailed(type(error).__name__, str(error))
    failed.__cause__ = error
    return failed
