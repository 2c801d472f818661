"""The computation of a flight: the user's function in a clean context, under its deadline, with its lease renewed."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stampede_guard.calls import ArgumentsChanged
from stampede_guard.core import flight as core
from stampede_guard.core.scripts import Granted
from stampede_guard.ending import Stopped, contained, error_of
from stampede_guard.errors import ComputeFailed, ComputeTimeout, Overloaded, StoreError
from stampede_guard.events import Computed, LeaseLost, Started, TimedOut
from stampede_guard.oldvalue import KNOWN, OF_MANY, Previous
from stampede_guard.personal import is_personal
from stampede_guard.threads import look_again
from stampede_guard.verdict import judge

if TYPE_CHECKING:
    from stampede_guard.flight import Flight
    from stampede_guard.plan import Run, Variables
    from stampede_guard.policy import Policy
    from stampede_guard.runtime import Runtime

__all__ = ["CURRENT", "LONG_ON_THE_WIRE", "THREAD_SECONDS", "Computation", "Result"]

CURRENT: ContextVar[Flight | None] = ContextVar("stampede_guard_current_flight", default=None)
"""The flight whose computation is running, seen from within it."""

UNWIND_SECONDS = 1.0
"""How long a cancelled computation may take to end before it is left to itself."""
THREAD_SECONDS = 0.05
"""The same for one in a thread: long enough for one that has not begun."""

LONG_ON_THE_WIRE = 64 * 1024
"""Bytes from which on a value may take longer to be stored than the lease has time left."""


class Result(NamedTuple):
    """`private`: an error that is about the callers of this process, and nothing that others should hear.

    `policy` has the lifetimes of the value; None = it may not be stored.
    """

    body: bytes = b""
    policy: Policy | None = None
    error: BaseException | None = None
    private: bool = False


class Computation:
    """`joined_before`: how many had joined when the user's function was called. `took_ms`: how long that took."""

    def __init__(self, runtime: Runtime, flight: Flight, run: Run, variables: Variables) -> None:
        self.joined_before = 0
        self.took_ms = 0
        self.leader = 0
        """The number of the passenger whose call was computed last; 0 = nobody's."""
        self.refused = False
        """Whether a caller was told by the last run that this is not for it."""
        self.lapsed = False
        self._slow_at = math.inf
        self._runtime = runtime
        self._flight = flight
        self._run = run
        self._variables = variables
        self._renew_at_once = asyncio.Event()
        self._passengers_changed: asyncio.Future[None] | None = None
        self._within_slot = False
        self._grant: Granted | None = None

    @property
    def is_slow(self) -> bool:
        """Whether a fallback may have ended the wait for everybody else by now."""
        return self._runtime.loop.time() > self._slow_at

    @property
    def has_begun(self) -> bool:
        """Whether the user's function was ever called."""
        return self._slow_at < math.inf

    @property
    def is_alone(self) -> bool:
        """Whether it runs without a grant of the store."""
        return self._grant is None

    def renew_now(self) -> None:
        """The inbox's state changed; the lease says so before a waiter can draw a conclusion from it."""
        self._renew_at_once.set()

    def passengers_changed(self) -> None:
        if self._passengers_changed is not None and not self._passengers_changed.done():
            self._passengers_changed.set_result(None)

    async def _wait_for_somebody_free(self) -> None:
        while self._flight.plan.request_bound and self._flight.passengers.all_busy:
            self._passengers_changed = self._runtime.loop.create_future()
            await self._passengers_changed

    def awaited_by(self, other: Computation) -> None:
        """The other one waits for this. If it has one of the slots, or of the threads, this may use it."""
        look_again()
        if other._within_slot and not self._within_slot:
            self._within_slot = True
            self._runtime.slots.let_pass(self)
            for flight in self._flight.awaits:
                flight.computation.awaited_by(self)

    async def run(self, grant: Granted | None) -> Result | core.Abandoned | Literal["back"]:
        """`back`: the store came back while this waited for its turn to compute without it."""
        self.lapsed = self.refused = False
        self._grant = grant
        if grant is None:
            return await self._run_alone()
        async with self.renewing(grant):
            return await self._run_bounded()

    def while_sending(self, grant: Granted, body: bytes) -> contextlib.AbstractAsyncContextManager[None]:
        """The lease stays this flight's also while a large value is on the wire."""
        return self.renewing(grant) if len(body) >= LONG_ON_THE_WIRE else contextlib.nullcontext()

    @contextlib.asynccontextmanager
    async def renewing(self, grant: Granted) -> AsyncIterator[None]:
        """The lease stays this flight's as long as the process and the store are there."""
        renewal = asyncio.create_task(self._renew(grant), name="stampede_guard renewal")
        try:
            yield
        finally:
            renewal.cancel()
            # Not awaited itself: its cancellation could not be told from the flight's own.
            await asyncio.wait({renewal})
            if not renewal.cancelled():
                renewal.result()

    async def _run_alone(self) -> Result | core.Abandoned | Literal["back"]:
        if self._flight.bypassed or self._flight.plan.batched:
            return await self._run_bounded()
        was_away = self._runtime.away_for(self._flight.name, self._flight.tags)
        try:
            async with self.turn_without_store():
                if was_away and not self._runtime.away_for(self._flight.name, self._flight.tags):
                    return "back"
                self.has_its_turn()
                return await self._run_bounded()
        except Overloaded as error:
            return Result(error=error)

    def has_its_turn(self) -> None:
        """What it waits for from now on takes no turn of its own."""
        self._within_slot = True

    @contextlib.asynccontextmanager
    async def turn_without_store(self) -> AsyncIterator[None]:
        """One of the few computations of this process while the store is away. Raises `Overloaded`."""
        policy, slots = self._flight.plan.policy, self._runtime.slots
        try:
            async with asyncio.timeout(policy.wait_timeout):
                has_slot = not self._within_slot and await slots.take(self, policy.max_local_computations)
        except TimeoutError:
            text = f"{self._flight.plan.title}: the store is away and {policy.max_local_computations} computations run"
            raise Overloaded(f"{text} in this process already (max_local_computations)") from None
        try:
            yield
        finally:
            if has_slot:
                slots.give_back()

    async def _run_bounded(self) -> Result | core.Abandoned:
        policy, passengers = self._flight.plan.policy, self._flight.passengers
        await self._wait_for_somebody_free()
        deadline = self._runtime.loop.time() + policy.compute_timeout
        left = refused = 0
        while left <= policy.max_handovers:
            await self._wait_for_somebody_free()
            result = await self._run_once(deadline)
            if result is None:
                left += 1
                continue
            if not isinstance(result, Result) or not self._is_its_callers(result.error):
                return result
            # 401 and 403: the next passenger may be allowed what this one is not.
            self._refuse(result.error)
            refused += 1
            # Now and then other processes have their turn. Without a lease nobody waits elsewhere.
            if not passengers.wanted or (self._grant is not None and refused > policy.max_handovers):
                return core.Abandoned()
            deadline = self._runtime.loop.time() + policy.compute_timeout
        title = self._flight.plan.title
        error = ComputeFailed("Abandoned", f"{title}: {policy.max_handovers + 1} callers left in turn")
        return Result(error=error, private=True)

    def _is_its_callers(self, error: BaseException | None) -> bool:
        """Whether an error is for nobody but the caller whose call was computed."""
        if error is None:
            return False
        return not isinstance(error, Exception) or (self._flight.plan.personal and is_personal(error))

    def _refuse(self, error: BaseException | None) -> None:
        self.refused = True
        leader = self._flight.passengers.numbered(self.leader)
        if leader is not None and error is not None:
            self._flight.passengers.refuse(leader, error)

    async def _run_once(self, deadline: float) -> Result | core.Abandoned | None:
        """None when the request that it ran in has gone, and another passenger may take over."""
        flight = self._flight
        leader = flight.passengers.next_idle()
        # The passenger's own: one flight may serve calls that are bound to their request and calls that are not.
        bound = leader.bound if leader is not None else flight.plan.request_bound
        if bound and leader is None:
            return core.Abandoned()
        run, variables = (
            (leader.run, leader.variables) if leader is not None else (self._run, self._variables)
        )
        context = flight.plan.clean_context(variables)
        context.run(CURRENT.set, flight)
        old = self._old()
        context.run(KNOWN.set, OF_MANY if flight.plan.batched else old)
        self.joined_before = flight.joined
        policy = flight.plan.policy
        self._slow_at = self._runtime.loop.time() + min(policy.lease_ttl, policy.wait_timeout)
        hooks, began = self._runtime.hooks, self._runtime.loop.time()
        if hooks:
            context.run(hooks.tell, Started(flight.plan.title, flight.name, flight.id))
        # In the background nobody is there to whom Ctrl-C could be passed on.
        call = _in_background if leader is None else contained
        task = self._runtime.loop.create_task(call(run), name="stampede_guard computation", context=context)
        self.leader = leader.number if leader is not None else 0
        if leader is not None:
            flight.leader = leader
            leader.led = True
            if bound:
                leader.computing = task
        try:
            await asyncio.wait({task}, timeout=max(0.0, deadline - self._runtime.loop.time()))
            if not task.done():
                return await self._overdue(task)
        except asyncio.CancelledError:
            await self._unwind(task)
            raise
        finally:
            self.took_ms = round(1000 * (self._runtime.loop.time() - began))
            flight.leader = None
            if hooks:
                hooks.tell(self._computed(task, self._runtime.loop.time() - began))
        if bound and leader is not None and leader.gone and (task.cancelled() or error_of(task) is not None):
            # An error, too: what a driver raises when it is cancelled says nothing about the value.
            return None
        if task.cancelled():
            return Result(error=ComputeFailed("CancelledError", "the computation was cancelled from within"))
        return self._judged(task, old)

    def _old(self) -> Previous | None:
        """What the computation may say is unchanged."""
        old = self._flight.old
        # 1. This process reads a value. 2. Another one invalidates it. 3. This flight is granted a token above the
        # fence: "unchanged" would bring back what was invalidated. So it must have been there when the grant was given;
        # and without a grant nobody knows.
        if old is None or self._grant is None or old.token != self._grant.replaces:
            return None
        return old

    def _computed(self, task: asyncio.Task[Any], seconds: float) -> Computed:
        if not task.done() or task.cancelled():
            error = "CancelledError"
        else:
            raised = error_of(task)
            error = "" if raised is None else type(raised).__name__
        flight = self._flight
        return Computed(flight.plan.title, flight.name, seconds, flight.id, error)

    async def _overdue(self, task: asyncio.Task[Any]) -> Result:
        await self._unwind(task)
        plan, hooks = self._flight.plan, self._runtime.hooks
        if hooks:
            hooks.tell(TimedOut(plan.title, self._flight.name, "compute_timeout"))
        text = f"{plan.title}: no result within compute_timeout ({plan.policy.compute_timeout:g} s)"
        return Result(error=ComputeTimeout(text))

    async def _unwind(self, task: asyncio.Task[Any]) -> None:
        await self._runtime.unwind(task, THREAD_SECONDS if self._flight.plan.in_thread else UNWIND_SECONDS)

    def _judged(self, task: asyncio.Task[Any], old: Previous | None) -> Result:
        error = error_of(task)
        if isinstance(error, GeneratorExit):
            # Thrown into a coroutine that waits, it would close that one.
            return Result(error=ComputeFailed("GeneratorExit", "the computation was closed from within"))
        if error is not None:
            # About this caller's arguments, and so nothing for others: they ask again with theirs.
            return Result(error=error, private=isinstance(error, ArgumentsChanged))
        try:
            body, policy = judge(self._flight.plan, task.result(), old)
        except (
            BaseException
        ) as problem:  # what ends a process, too: it is for the caller and not for this flight
            return Result(error=problem)
        return Result(body, policy)

    async def _renew(self, grant: Granted) -> None:
        flight, policy = self._flight, self._flight.plan.policy
        while grant.leased:
            try:
                async with asyncio.timeout(policy.lease_ttl / 3):
                    await self._renew_at_once.wait()
            except TimeoutError:
                pass
            self._renew_at_once.clear()
            try:
                held = await self._runtime.session.renew(
                    flight.name, flight=flight.id, token=grant.token, policy=policy
                )
            except StoreError:
                continue
            if not held:
                self.lapsed = True
                if self._runtime.hooks:
                    self._runtime.hooks.tell(LeaseLost(flight.plan.title, flight.name))
                return


async def _in_background(run: Run) -> Any:
    """As `contained`, but for Ctrl-C: nobody is there to whom it could be passed on. `sys.exit()` is the run's own."""
    try:
        return await run()
    except SystemExit as error:
        return Stopped(error)
