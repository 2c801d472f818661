"""The computation of a flight: the user's function in a clean context, under its deadline, with its lease renewed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextvars import ContextVar, copy_context
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from stampede_guard.core import events as on
from stampede_guard.core.asks import Granted
from stampede_guard.core.caller import seconds_to_wait
from stampede_guard.engine.away.slots import StoreIsBack
from stampede_guard.engine.calls import ArgumentsChanged
from stampede_guard.engine.previous import KNOWN, OF_MANY, Previous
from stampede_guard.engine.tasks import AT_ITS_PACE, Stopped, contained, done_within, error_of
from stampede_guard.engine.threads.threads import look_again
from stampede_guard.engine.verdict import judge_or_serve
from stampede_guard.errors import ComputeFailed, ComputeTimeout, Overloaded, StoreError
from stampede_guard.events import Computed, LeaseLapsed, Started, TimedOut
from stampede_guard.values.personal import is_personal

if TYPE_CHECKING:
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.flights.passenger import Passenger
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Run, Variables
    from stampede_guard.policy import Policy

__all__ = ["CURRENT", "LONG_ON_THE_WIRE", "THREAD_SECONDS", "Computation", "Result"]

CURRENT: ContextVar[Flight | None] = ContextVar("stampede_guard_current_flight", default=None)
"""The flight whose computation runs the current code."""

UNWIND_SECONDS = 1.0
"""How long a flight waits for a cancelled computation to end. After that it no longer waits."""
THREAD_SECONDS = 0.05
"""The same for a computation in a thread. It is long enough for one that has not begun."""

LONG_ON_THE_WIRE = 64 * 1024
"""In bytes. To send a value of this size or more may take longer than the lease still lasts."""


class Result(NamedTuple):
    """The outcome of a computation. `private`: the error concerns only callers of this process and is not shared.

    `policy` has the lifetimes of the value. None means that the value may not be stored.
    """

    body: bytes = b""
    policy: Policy | None = None
    error: BaseException | None = None
    private: bool = False


class Computation:
    """`took_ms`: how long the user's function ran. `has_begun`: whether it has been called at least once."""

    def __init__(self, runtime: Runtime, flight: Flight, run: Run, variables: Variables) -> None:
        self.has_begun = False
        self.took_ms = 0
        self.leader = 0
        """The number of the passenger whose call was computed last. 0 means none."""
        self._left = 0
        """How many callers left one after the other, each while its call was computed."""
        self._runtime = runtime
        self._flight = flight
        self._run = run
        self._variables = variables
        self._renew_at_once = asyncio.Event()
        self._renewals: _Renewals | None = None
        self._passengers_changed: asyncio.Future[None] | None = None
        self.turn_of_batch: Callable[[], float] = lambda: -inf
        self._within_slot = False
        self._was_away = False
        self._grant: Granted | None = None

    @property
    def is_alone(self) -> bool:
        """Whether the computation runs without a grant from the store."""
        return self._grant is None

    def renew_now(self) -> None:
        """Renew at once: the inbox's state changed. The lease must show that before a waiter judges its holder."""
        self._renew_at_once.set()
        if self._renewals is not None:
            self._renewals.begin()

    def passengers_changed(self) -> None:
        if self._passengers_changed is not None and not self._passengers_changed.done():
            self._passengers_changed.set_result(None)

    async def _wait_for_somebody_free(self) -> bool:
        """Whether it had to wait."""
        waited = False
        while self._flight.passengers.all_busy:
            self._passengers_changed, waited = self._runtime.loop.create_future(), True
            await self._passengers_changed
        return waited

    def awaited_by(self, other: Computation) -> None:
        """The other computation waits for this one. If it has a slot or a thread, this one may use that."""
        look_again()
        if other._within_slot and not self._within_slot:
            self._within_slot = True
            self._runtime.slots.let_pass(self)
            for flight in self._flight.awaits:
                flight.computation.awaited_by(self)

    async def run(self, grant: Granted | None) -> Result | on.Abandoned | on.LookAgain:
        """`LookAgain`: the store came back while this computation waited for its turn to run without the store."""
        self._grant = grant
        if grant is None:
            return await self._run_alone()
        async with self._renewing(grant):
            return await self._run_bounded()

    def while_sending(self, grant: Granted, body: bytes) -> contextlib.AbstractAsyncContextManager[None]:
        """Renew the lease also while a large value is on the wire. A small value needs no renewal."""
        return self._renewing(grant) if len(body) >= LONG_ON_THE_WIRE else AT_ITS_PACE

    def _renewing(self, grant: Granted) -> contextlib.AbstractAsyncContextManager[None]:
        """Renew the lease within this block. The flight keeps it as long as the process and the store live."""
        if not grant.leased:
            return AT_ITS_PACE
        self._renewals = _Renewals(self._flight.plan.policy.lease_ttl / 3, lambda: self._renew(grant))
        if self._renew_at_once.is_set():
            self._renewals.begin()
        return self._renewals

    async def _run_alone(self) -> Result | on.Abandoned | on.LookAgain:
        self._was_away = self._runtime.away_for(self._flight.name, self._flight.tags)
        if self._flight.bypassed or self._flight.plan.batched:
            return await self._run_bounded()
        try:
            async with self.turn_without_store():
                if self.is_back:
                    return on.LookAgain(self._flight.passengers.aboard())
                self.has_its_turn()
                return await self._run_bounded()
        except Overloaded as error:
            return on.LookAgain(self._flight.passengers.aboard()) if self.is_back else Result(error=error)

    @property
    def is_back(self) -> bool:
        """Whether the store was away when this computation began to wait for its turn, and is not any more."""
        return self._was_away and not self._runtime.away_for(self._flight.name, self._flight.tags)

    def store_is_back(self) -> None:
        """Wait no longer for a turn without the store: the turns may be taken for a long time."""
        if self.is_back:
            self._runtime.slots.let_pass(self)
        if self._flight.plan.batched:
            # The batch waits in the name of its first flight, which may have landed.
            for leader in self._flight.awaits:
                leader.computation.store_is_back()

    def has_its_turn(self) -> None:
        """The computation has its turn. Computations that it waits for from now on need no turn of their own."""
        self._within_slot = True

    @contextlib.asynccontextmanager
    async def turn_without_store(self) -> AsyncIterator[None]:
        """Take one of the process's few slots for computations while the store is away. Raises `Overloaded`."""
        policy, slots = self._flight.plan.policy, self._runtime.slots
        most = self._runtime.limits.max_local_computations
        try:
            async with asyncio.timeout(seconds_to_wait("turn", policy)):
                has_slot = False
                # It passes without a slot because the store is back. Before it goes on, that may be away again.
                while not (has_slot or self._within_slot or self.is_back):
                    has_slot = await slots.take(self, most)
        except TimeoutError:
            text = f"{self._flight.plan.title}: the store is away and {most} computations run"
            raise Overloaded(f"{text} in this process already (max_local_computations)") from None
        try:
            yield
        finally:
            if has_slot:
                slots.give_back()

    async def _run_bounded(self) -> Result | on.Abandoned | on.LookAgain:
        policy, passengers = self._flight.plan.policy, self._flight.passengers
        # Nobody renews a slot. 1. A computation beside the lease is handed over when its slot is nearly over. 2. The
        # slot ends, and another process gets it. 3. Now more run than `uncacheable_limit`. So the flight gives the slot
        # back, and asks again for the next caller.
        in_slot = self._grant is not None and not self._grant.leased
        refused = 0
        while self._left <= policy.max_handovers:
            if self._flight.plan.request_bound and await self._wait_for_somebody_free() and in_slot:
                return on.Abandoned()
            # A caller that takes over has the whole time: the error says that its call took longer than that.
            deadline = self._runtime.loop.time() + seconds_to_wait("own_computation", policy)
            result = await self._run_once(deadline)
            if result is None:
                self._left += 1
                if in_slot and self._left <= policy.max_handovers:
                    return on.Abandoned()
                continue
            self._left = 0
            if not isinstance(result, Result) or not self._is_its_callers(result.error):
                return result
            # 401 and 403: the next passenger may have the permission that this one lacks.
            self._refuse(result.error)
            refused += 1
            # After some refusals other processes get a turn. Without a lease no other process waits for this one.
            waits = passengers.aboard().waits
            if not waits or in_slot or (self._grant is not None and refused > policy.max_handovers):
                return on.Abandoned(refused=True)
        self._left = 0
        title = self._flight.plan.title
        error = ComputeFailed(
            "Abandoned", f"{title}: {policy.max_handovers + 1} callers left, one after the other"
        )
        return Result(error=error, private=True)

    def _is_its_callers(self, error: BaseException | None) -> bool:
        """Whether an error concerns only the caller whose call was computed."""
        if error is None:
            return False
        return not isinstance(error, Exception) or (self._flight.plan.personal and is_personal(error))

    def _refuse(self, error: BaseException | None) -> None:
        leader = self._flight.passengers.numbered(self.leader)
        if leader is not None and error is not None:
            self._flight.passengers.refuse(leader, error)

    async def _run_once(self, deadline: float) -> Result | on.Abandoned | on.LookAgain | None:
        """None if the request of this run has ended and another passenger may take over."""
        flight = self._flight
        leader = flight.passengers.next_idle()
        # Ask the passenger, not the plan: one flight may serve calls bound to their request and calls that are not.
        bound = leader.bound if leader is not None else flight.plan.request_bound
        if bound and leader is None:
            return on.Abandoned()
        run, variables = (
            (leader.run, leader.variables) if leader is not None else (self._run, self._variables)
        )
        context = flight.plan.clean_context(variables)
        context.run(CURRENT.set, flight)
        old = self._old(leader)
        context.run(KNOWN.set, OF_MANY if flight.plan.batched else old)
        flight.passengers.computation_begins()
        self.has_begun = True
        hooks, began = self._runtime.hooks, self._runtime.loop.time()
        flight.feed(on.ComputationBegan(began))
        if hooks.any:
            context.run(hooks.tell, Started(flight.plan.title, flight.name, flight.id))
        # A computation in the background has no caller to raise Ctrl-C in.
        call = _in_background if leader is None else contained
        task = self._runtime.loop.create_task(call(run), name="stampede_guard computation", context=context)
        self.leader = leader.number if leader is not None else 0
        if leader is not None:
            flight.leader = leader
            leader.led = True
            if bound:
                leader.computing = task
        try:
            while not await done_within(max(0.0, deadline - self._runtime.loop.time()), task):
                later = self.turn_of_batch() + seconds_to_wait("own_computation", flight.plan.policy)
                if later <= deadline:
                    return await self._overdue(task)
                deadline = later
        except asyncio.CancelledError:
            await self._unwind(task)
            raise
        finally:
            self.took_ms = round(1000 * (self._runtime.loop.time() - began))
            flight.leader = None
            if hooks.any:
                hooks.tell(self._computed(task, self._runtime.loop.time() - began))
        if bound and leader is not None and leader.gone and (task.cancelled() or error_of(task) is not None):
            # Not only a cancellation: a driver may raise any error when it is cancelled. It does not concern the value.
            return None
        if task.cancelled():
            return Result(error=ComputeFailed("CancelledError", "the computation was cancelled from within"))
        if isinstance(error_of(task), StoreIsBack):
            again = on.LookAgain(flight.passengers.aboard())
            return again if self.is_alone else await self._run_once(deadline)
        return self._judged(task, old)

    def _old(self, leader: Passenger | None) -> Previous | None:
        """The value that the computation may declare unchanged."""
        # 1. The lease is granted for a caller. 2. Another process invalidates. 3. A second caller joins. 4. The first
        # one leaves, and the second one's call is computed. The old value was invalidated before that call began.
        if leader is not None and leader.number > self._flight.passengers.up_to("covered"):
            return None
        old = self._flight.old
        # 1. This process reads a value. 2. Another one invalidates it. 3. This flight is granted a token above the
        # fence. "Unchanged" would now bring back the invalidated value. So the value must still have been in the store
        # when the lease was granted. Without a grant that is unknown.
        if old is None or self._grant is None or old.token != self._grant.replaces:
            return None
        return old

    def _computed(self, task: asyncio.Task[Any], seconds: float) -> Computed:
        if not task.done() or task.cancelled():
            error = "CancelledError"
        else:
            raised = error_of(task)
            error = "" if raised is None else type(raised).__name__
        return Computed(self._flight.plan.title, self._flight.name, seconds, self._flight.id, error)

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
            # If a GeneratorExit were raised in a waiting coroutine, it would close that coroutine.
            return Result(error=ComputeFailed("GeneratorExit", "the computation was closed from within"))
        if error is not None:
            # `ArgumentsChanged` concerns only this caller's arguments. The others ask again with their own.
            return Result(error=error, private=isinstance(error, ArgumentsChanged))
        try:
            plan, name = self._flight.plan, self._flight.name
            refused = partial(self._runtime.cannot_be_stored, plan, name)
            body, policy = judge_or_serve(plan, task.result(), old, refused)
        except (
            BaseException
        ) as problem:  # SystemExit and Ctrl-C, too: they are for the caller and must not end this flight
            return Result(error=problem)
        if old is not None:
            self._flight.passengers.saw_old_value()
        return Result(body, policy)

    async def _renew(self, grant: Granted) -> None:
        flight, policy = self._flight, self._flight.plan.policy
        while True:
            self._renew_at_once.clear()
            held: bool | None = None
            with contextlib.suppress(StoreError):
                held = await self._runtime.session.renew(
                    flight.name, flight=flight.id, token=grant.token, policy=policy
                )
            if held is False:
                flight.feed(on.RenewalRefused())
                if self._runtime.hooks:
                    self._runtime.hooks.tell(LeaseLapsed(flight.plan.title, flight.name))
                return
            if held and (steps := self._runtime.hooks.steps) is not None:
                steps("renewed", flight.plan.title, flight.name, {"flight": flight.id, "token": grant.token})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(policy.lease_ttl / 3):
                    await self._renew_at_once.wait()


class _Renewals:
    """Runs `renew()` within its block, from `seconds` after its beginning, or from `begin()`, if that comes first.

    Most computations end before that. They cost a timer and no task.
    """

    def __init__(self, seconds: float, renew: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._renew = renew
        self._loop = asyncio.get_running_loop()
        # Not that of the code that calls `begin`: it may be another caller's.
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self._timer = self._loop.call_later(seconds, self.begin)

    def begin(self) -> None:
        if self._task is None and not self._ended:
            self._timer.cancel()
            self._task = self._loop.create_task(
                self._renew(), name="stampede_guard renewal", context=self._context
            )

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        self._timer.cancel()
        self._ended = True
        if (task := self._task) is not None:
            task.cancel()
            # Not `await task`: its CancelledError would look like a cancellation of the flight itself.
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()


async def _in_background(run: Run) -> Any:
    """As `contained`, but Ctrl-C is not caught, because no caller waits for it. `sys.exit()` ends only the run."""
    try:
        return await run()
    except SystemExit as error:
        return Stopped(error)
