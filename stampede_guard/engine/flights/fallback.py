"""The fallback: one bounded computation beside a holder that is too slow, with a token of its own."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from stampede_guard.core.asks import Denied, Found, Granted
from stampede_guard.core.caller import may_be_replaced, seconds_to_wait
from stampede_guard.core.entry import Reading
from stampede_guard.core.tags import Versions, resealed
from stampede_guard.engine.calls import ArgumentsChanged
from stampede_guard.engine.flights.computation import CURRENT, THREAD_SECONDS
from stampede_guard.engine.flights.once import Once
from stampede_guard.engine.tags.versions import ensure, is_valid
from stampede_guard.engine.tasks import contained, ended, error_of, retrieve
from stampede_guard.engine.verdict import Verdict, judge_or_serve
from stampede_guard.errors import StoreError, Undecodable, WaitTimeout
from stampede_guard.events import Computed, Started, TimedOut
from stampede_guard.values.errorcopies import copy_of
from stampede_guard.values.unstorable import Unstorable

if TYPE_CHECKING:
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.flights.passenger import Passenger
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan

__all__ = ["Beside", "FallbackRun", "is_answer"]

Beside = tuple["asyncio.Task[tuple[Any, bool]]", Once]
"""Another caller's fallback for the same key in this process, and its end."""


def is_answer(flight: Flight, passenger: Passenger, found: Reading) -> bool:
    """Whether a value found in the store is an answer for this caller. What a refresh replaces is none to it."""
    return not (passenger.refreshes and may_be_replaced(flight.state, found.token))


class FallbackRun:
    """At most one at a time per key and process, and at most `fallback_limit` per key in all processes together."""

    def __init__(self, runtime: Runtime, plan: Plan, flight: Flight, passenger: Passenger) -> None:
        self.denied = False
        self.computed = False
        """Whether its own computation has made a value."""
        self.beside: Beside | None = None
        self._flight = flight
        self._runtime = runtime
        self._plan = plan
        self._name = flight.name
        self._passenger = passenger
        self._ask: asyncio.Task[Found | Granted | Denied] | None = None

    async def attempt(self, meanwhile: asyncio.Future[Any]) -> tuple[Any, bool]:
        """The value and True. Or None and False, if it was denied or failed. `meanwhile` is the caller's own future.

        Raises `WaitTimeout`, with the cause, if the fallback's own computation failed or took too long.
        """
        running = self._runtime.fallbacks.get(self._name)
        if running is not None:
            self.denied, self.beside = True, (running, self._runtime.fallback_ends[self._name])
            return None, False
        if self._runtime.away_for(self._name, self._flight.tags):
            self.denied = True
            return None, False
        task = self._runtime.loop.create_task(
            self._attempt(), name="stampede_guard fallback", context=Context()
        )
        self._runtime.fallbacks[self._name] = task
        over = self._runtime.fallback_ends[self._name] = Once(self._runtime.loop)
        task.add_done_callback(retrieve)
        # The flight may be granted the lease now. Its computation must not use the request that the fallback uses.
        self._passenger.busy = self._passenger.bound
        task.add_done_callback(lambda _: self._over(over))
        try:
            await asyncio.wait({task, meanwhile}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done() and self._plan.request_bound:
                # The fallback uses resources of this caller's request.
                task.cancel()
                await ended(task)
            self._passenger.busy = False
            self._flight.computation.passengers_changed()
        if task.done() and not task.cancelled():
            return task.result()
        # The task was cancelled above or with the guard. In the first case its own publication may have ended the wait
        # before the answer to it arrived: then the caller's future has the value.
        if meanwhile.done():
            return meanwhile.result(), True
        return None, False

    def _over(self, once: Once) -> None:
        self._runtime.fallbacks.pop(self._name, None)
        self._runtime.fallback_ends.pop(self._name, None)
        once.happen()

    async def _attempt(self) -> tuple[Any, bool]:
        flight_id = self._runtime.new_id()
        try:
            return await self._asked(flight_id)
        except asyncio.CancelledError:
            # Its caller has left, or the guard closes. A fallback that failed keeps its place, so that no other
            # follows. This one has not failed, so it must not block a fallback of another caller.
            if self._ask is None or self._ask.done():
                self._give_back(flight_id)
            else:
                # Not before the answer: 1. The place is given back. 2. The question for it arrives, and takes it.
                self._ask.add_done_callback(retrieve)
                self._ask.add_done_callback(lambda _: self._give_back(flight_id))
            raise

    def _give_back(self, flight_id: str) -> None:
        if not self._runtime.closing:
            self._runtime.session.forget(self._name, flight=flight_id)

    async def _asked(self, flight_id: str) -> tuple[Any, bool]:
        """Ask the store until it grants a slot, denies one, or offers a value of use.

        1. A caller's time ends before the store has answered its flight. 2. So the flight does not know that the stored
        value is outdated or cannot be decoded, and the store offers this value to the fallback. 3. That is not a
        refusal: the caller cannot wait for another fallback, because none runs. So the fallback asks for a newer value.
        """
        runtime, plan, newer_than = self._runtime, self._plan, 0
        while True:
            newer_than = max(newer_than, self._flight.state.newer_than)
            try:
                command = runtime.session.fallback(
                    self._name, flight=flight_id, policy=plan.policy, newer_than=newer_than
                )
                self._ask = runtime.loop.create_task(command, name="stampede_guard question for a fallback")
                answer = await asyncio.shield(self._ask)
                if isinstance(answer, Found) and not await self._is_of_use(answer.reading):
                    newer_than = answer.reading.token
                    continue
            except StoreError:
                self.denied = True
                return None, False
            match answer:
                case Denied():
                    self.denied = True
                    return None, False
                case Found(reading):
                    try:
                        return plan.codec.decode(reading.body), True
                    except Undecodable as error:
                        runtime.warn_undecodable(plan, error, reading.body)
                        newer_than = reading.token
                case Granted():
                    return await self._compute(answer, flight_id), True
                case _:
                    assert_never(answer)

    async def _is_of_use(self, reading: Reading) -> bool:
        """Whether a value found is an answer for this caller, and its tags still hold. Raises `StoreError`."""
        # The flight may have been answered since this was asked.
        if not is_answer(self._flight, self._passenger, reading):
            return False
        return await is_valid(self._runtime, self._flight.tags, reading)

    async def _compute(self, grant: Granted, flight_id: str) -> Any:
        plan, policy, tags = self._plan, self._plan.policy, self._flight.tags
        versions: Versions = ()
        with contextlib.suppress(StoreError):
            # Before the computation begins: see `core.tags`.
            versions = await ensure(self._runtime, tags, policy)
        context = plan.clean_context(self._passenger.variables)
        # Mark that it computes for this flight: if it calls the same entry, that call would wait for itself.
        context.run(CURRENT.set, self._flight)
        hooks, began = self._runtime.hooks, self._runtime.loop.time()
        if hooks:
            context.run(hooks.tell, Started(plan.title, self._name, flight_id, fallback=True))
        task = self._runtime.loop.create_task(contained(self._passenger.run), context=context)
        try:
            await asyncio.wait({task}, timeout=seconds_to_wait("fallback", policy))
        finally:
            if hooks:
                self._tell(task, self._runtime.loop.time() - began, flight_id)
            if not task.done():
                await self._runtime.unwind(
                    task, THREAD_SECONDS if plan.in_thread else policy.fallback_timeout
                )
        if task.cancelled() or not task.done():
            raise WaitTimeout(
                f"{plan.title}: the holder is slow, and the fallback took longer than fallback_timeout "
                f"({policy.fallback_timeout:g} s)"
            )
        error = error_of(task)
        if isinstance(error, ArgumentsChanged):
            raise error
        if error is not None:
            cause = copy_of(error) or error
            raise WaitTimeout(f"{plan.title}: the holder is slow, and the fallback failed") from cause
        try:
            refused = partial(self._runtime.cannot_be_stored, plan, self._name)
            verdict = judge_or_serve(plan, task.result(), None, refused)
        except BaseException as problem:
            raise WaitTimeout(f"{plan.title}: the holder is slow, and the fallback failed") from problem
        self._runtime.warn_if_too_large(plan, verdict.body)
        unstorable = verdict.body if isinstance(verdict.body, Unstorable) else None
        if tags and unstorable is None:
            verdict = verdict._replace(body=resealed(verdict.body, versions))
        took_ms = round(1000 * (self._runtime.loop.time() - began))
        self.computed = True
        await self._publish(grant, flight_id, verdict, took_ms)
        return plan.codec.decode(verdict.body) if unstorable is None else unstorable.value

    def _tell(self, task: asyncio.Task[Any], seconds: float, flight_id: str) -> None:
        hooks, title = self._runtime.hooks, self._plan.title
        error = "CancelledError"
        if not task.done():
            hooks.tell(TimedOut(title, self._name, "fallback_timeout"))
        elif not task.cancelled():
            raised = error_of(task)
            error = "" if raised is None else type(raised).__name__
        hooks.tell(Computed(title, self._name, seconds, flight_id, error, fallback=True))

    async def _publish(self, grant: Granted, flight_id: str, verdict: Verdict, took_ms: int) -> None:
        policy = verdict.policy or self._plan.policy
        try:
            stored = await self._runtime.session.publish(
                self._name,
                flight=flight_id,
                grant=grant,
                outcome="value" if verdict.policy is not None else "pass",
                body=verdict.body,
                policy=policy,
                took_ms=took_ms,
                trace=self._runtime.hooks.traceparent_of(flight_id),
            )
        except StoreError:
            # The caller has the value. It was not stored, so a later call computes it again.
            return
        is_value, size = stored and verdict.policy is not None, len(verdict.body)
        self._runtime.published(self._name, value=is_value, plan=self._plan, size=size)
        if is_value:
            # Also for the time while the store is away: this process has seen an older one, perhaps.
            total_ms = policy.total_ms
            reading = Reading(verdict.body, grant.token, total_ms, policy.stale_ms, total_ms, took_ms)
            self._runtime.learn(self._name, reading)
