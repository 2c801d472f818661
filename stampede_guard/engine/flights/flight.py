"""The driver of one flight: it carries out the commands of `core.flight.decide`, for one key in one process.

The flight's task belongs to the runtime, not to the request that began it. Its passengers wait on futures of their own.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from typing import TYPE_CHECKING, assert_never

from stampede_guard.core import flight as core
from stampede_guard.core.commands import LATE_SECONDS
from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import FailedRecently, Found, Granted, Held, Message, Uncacheable
from stampede_guard.core.tags import sealed
from stampede_guard.engine.flights.computation import LONG_ON_THE_WIRE, Computation, Result
from stampede_guard.engine.flights.delivery import Delivery, crash_of
from stampede_guard.engine.flights.mailbox import Mailbox
from stampede_guard.engine.flights.once import Once
from stampede_guard.engine.flights.passengers import Passengers, Wanted
from stampede_guard.engine.flights.readonly import ask_without_writes
from stampede_guard.engine.flights.reentry import Awaited
from stampede_guard.engine.previous import Previous
from stampede_guard.engine.tags.checking import acquire, ask_again, believed, versions_before
from stampede_guard.engine.tags.versions import tags_of
from stampede_guard.engine.tasks import ended
from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.events import TakenOver
from stampede_guard.values.failures import encode_failure

if TYPE_CHECKING:
    from stampede_guard.engine.flights.passenger import Passenger
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run, Variables
    from stampede_guard.policy import Policy

__all__ = ["Flight"]

log = logging.getLogger("stampede_guard")


class Flight(Wanted):
    """`bypassed`: the flight never asks the store. `away`: it does not ask it now. `refreshing`: callers get a stale
    value. `early`: they get a fresh one, so only the lease decides whether this flight computes. `lingers`: the flight
    goes on waiting after its last passenger gave up, so that later callers know how slow it is. `late`: its callers
    have already waited a whole deadline for an answer of the store.

    `stored`: False if the store did not keep the value that was computed last. None if the store refused it, because it
    has a newer one or has lost the record. `lifetimes` are those of that value; None means that it may not be stored.
    `old` is the value that led to this flight.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        plan: Plan,
        run: Run,
        variables: Variables,
        *,
        away: bool = False,
        bypassed: bool = False,
        refreshing: bool = False,
        newer_than: int = 0,
    ) -> None:
        self.name = name
        self.tags = tags_of(run)
        self.place = name
        """The key under which the runtime keeps this flight."""
        self.plan = plan
        self.id = runtime.new_id()
        self.bypassed = bypassed
        self.refreshing = refreshing
        self.newer_than = newer_than
        self.outdates_holder = False
        self.early = self.late = False
        self.lingers = False
        self.began = runtime.loop.time()
        self.stored: bool | None = True
        self.lifetimes: Policy | None = None
        self.old: Previous | None = None
        self.awaits = Awaited()
        self.leader: Passenger | None = None
        self.computation = Computation(runtime, self, run, variables)
        self.runtime = self._runtime = runtime
        self.passengers = Passengers(plan, runtime.loop)
        self._delivery = Delivery(runtime, self)
        self._hearing = Mailbox(runtime.loop)
        self._trusted_until = 0.0
        self._unanswered = False
        self._failed = False
        self._suspected = False
        self._state, self._command = core.begin(away=away or bypassed)
        self.landed: asyncio.Future[None] = runtime.loop.create_future()
        self.landing = Once(runtime.loop)
        """The same event as `landed`, for any number of callers."""
        # In its own context, because the flight may outlive the request that began it. And without the loop's task
        # factory, because an eager one would let the flight land before a caller could join.
        self.task = asyncio.Task(
            self._fly(), loop=runtime.loop, name=f"stampede_guard flight {plan.title}", context=Context()
        )

    # --- the passengers' side ------------------------------------------------------------------

    @property
    def open_to_all(self) -> bool:
        """Whether a caller may join without reading the store first.

        Not while stale values are served. Not if the lease was lost or the computation is slow, because another process
        may have published. And not if this flight has handed out a value already: a key with callers in every round
        trip would never be read again.
        """
        return not (
            self.refreshing
            or self._delivery.has_delivered
            or self.lets_nobody_wait
            or self.computation.lapsed
            or self.computation.is_slow
        )

    @property
    def computing(self) -> bool:
        return isinstance(self._state, core.Computing | core.Publishing)

    @property
    def lets_nobody_wait(self) -> bool:
        """Whether this flight computes for one caller only, because the value may be private to that caller."""
        if self.plan.share_uncached or not isinstance(self._state, core.Computing | core.Publishing):
            return False
        return self._state.grant is not None and not self._state.grant.leased

    def know(self, old: Reading) -> None:
        """Note the value that callers get until there is a new one."""
        self.old = Previous(old, self.plan.decode, now=self._runtime.loop.time())

    def join(
        self,
        run: Run,
        variables: Variables,
        *,
        bound: bool = False,
        stale: Reading | None = None,
        patient: bool = False,
        share: bool = False,
    ) -> Passenger:
        """Add a caller. Raises `Overloaded` if `max_passengers` wait already."""
        if self._runtime.orders:
            self._runtime.obey()
        passenger = self.passengers.join(
            run, variables, bound=bound, stale=stale, patient=patient, share=share
        )
        self.lingers = self.lingers or (patient and not bound)
        if stale is None:
            self.refreshing = False
        self.computation.passengers_changed()
        return passenger

    async def leave(self, passenger: Passenger) -> None:
        """The caller leaves. A computation in its request is ended first, because it uses the request's resources."""
        passenger.gone = True
        self.passengers.remove(passenger)
        self.computation.passengers_changed()
        task = passenger.computing
        if task is not None and not task.done():
            task.cancel()
            await ended(task, self.plan.policy.compute_timeout)

    @property
    def joined(self) -> int:
        return self.passengers.joined

    # --- news from outside ---------------------------------------------------------------------

    def hear(self, message: Message) -> None:
        self._hearing.hear(message)

    def notice_gap(self) -> None:
        self._hearing.notice_gap()
        self.computation.renew_now()

    def invalidated(self) -> None:
        """`invalidate()` was called in this process."""
        self.old = None
        self._delivery.outdated = True
        if not isinstance(self._state, core.Landed):
            self._state, _ = core.decide(self._state, core.Invalidated(), self.plan.policy)

    # --- the flight ----------------------------------------------------------------------------

    async def _fly(self) -> None:
        crash: BaseException | None = None
        try:
            while not isinstance(self._command, core.Land):
                event = await self._carry_out(self._command)
                self._state, self._command = core.decide(self._state, event, self.plan.policy)
        except BaseException as error:
            # Also an error that would end the event loop: the flight has other callers than the one that raised it.
            # The lease may still be held. It is released below, so that no process waits for it.
            crash, self._unanswered = crash_of(self, error), True
        finally:
            # No await from the last decision to this line: else a caller could join a flight that has landed.
            self._state = core.Landed()
            self._runtime.landed(self)
            if self._failed:
                # Stale hits must not ask now, and the store may not know of the error (private, or it was away).
                self._pause(self.plan.policy.error_ttl)
            self.passengers.dismiss(crash)
            if self._unanswered and not self._runtime.closing:
                self._runtime.session.forget(self.name, flight=self.id)
            self.landing.happen()
            if not self.landed.done():
                self.landed.set_result(None)

    async def _carry_out(self, command: core.Command) -> core.Event:
        match command:
            case core.Ask():
                return await self._ask()
            case core.Wait(seconds):
                self._hearing.look_after(seconds)
                if self.plan.on_wait is not None:
                    self.plan.on_wait(self._runtime, self.name)
                return await self._wait()
            case core.Keep():
                return await self._wait()
            case core.Compute(grant):
                return await self._compute(grant)
            case core.Publish(grant, outcome):
                return await self._publish(grant, outcome)
            case core.Release(outcome):
                return await self._release(outcome)
            case core.Deliver(outcome, to):
                return self._delivery.deliver(outcome, to)
            case core.Land():
                raise AssertionError("landing is not carried out")
            case _:
                assert_never(command)

    @property
    def _cut_off(self) -> bool:
        """Whether this flight sends nothing to the store."""
        return self.bypassed or self._runtime.away_for(self.name, self.tags)

    @property
    def _away(self) -> bool:
        """Whether this process cannot learn of an invalidation made elsewhere."""
        return self._cut_off and (self.bypassed or not self._runtime.only_waits(self.name, self.tags))

    async def _ask(self) -> core.Event:
        while True:
            event = await self._ask_once()
            if not isinstance(event, core.StoreFailed) or self._runtime.loop.time() >= self._trusted_until:
                return event
            # Ask again: the holder was alive at the last answer, and a store that restarts is back in a moment.
            # Otherwise every waiter in all processes would compute for itself.
            await asyncio.sleep(self.plan.policy.poll_interval * (0.6 + 0.4 * self._runtime.draw()))

    async def _ask_once(self) -> core.Event:
        self._delivery.covered = self.passengers.joined
        self._delivery.proof = None
        self._failed = False
        self._hearing.begin_to_ask()
        if not self.bypassed and self._runtime.only_waits(self.name, self.tags):
            return await self._without_writes()
        if self._cut_off:
            return core.StoreFailed(away=True, wanted=self._needed)
        try:
            async with asyncio.timeout(LATE_SECONDS if self.late else None):
                answer = await acquire(self._runtime, self)
            self.late = False
        except (StoreUnavailable, TimeoutError) as error:
            self._unanswered = True
            away = isinstance(error, TimeoutError) or self._runtime.session.away_for(self.name)
            self.late = self.late or getattr(error, "late", False)
            return core.StoreFailed(away=away, wanted=self._needed)
        except StoreRefused as error:
            self._runtime.note_refusal(error, "acquire")
            return await self._without_writes()
        if self._runtime.health.refusing and not isinstance(answer, Found | FailedRecently):
            # The store has written. An answer that was only read proves nothing: a store that is full still reads.
            self._runtime.health.admitted("acquire")
        policy = self.plan.policy
        trust = min(policy.lease_ttl, policy.wait_timeout / 2) if isinstance(answer, Held) else 0.0
        self._trusted_until = self._runtime.loop.time() + trust
        if isinstance(answer, Granted) and self._suspected and self._runtime.hooks:
            self._runtime.hooks.tell(TakenOver(self.plan.title, self.name))
        self._suspected = isinstance(answer, Held) and answer.suspect
        if isinstance(answer, Held) and self.outdates_holder:
            # The computation elsewhere began before this refresh was requested.
            self.outdates_holder = False
            self.newer_than = max(self.newer_than, answer.last)
        if isinstance(answer, FailedRecently):
            self._pause(answer.remaining_ms / 1000)
        # An uncacheable value is computed only for a caller that waits. Stale hits must not ask for it each time.
        alone = not self.passengers and isinstance(answer, Uncacheable)
        if alone:
            self._pause(policy.poll_interval)
        return core.Answered(answer, self._runtime.draw(), self._wanted and not alone)

    async def _without_writes(self) -> core.Event:
        self._delivery.proof, event = await ask_without_writes(self._runtime, self, wanted=self._needed)
        return event

    def _pause(self, seconds: float) -> None:
        """For so many seconds, stale hits do not refresh the present value."""
        self._runtime.failing.begin(self.name, seconds, token=self.old.token if self.old is not None else 0)

    async def _wait(self) -> core.Event:
        message = await self._hearing.listen(self._is_news)
        if message is None:
            return core.LookAgain(self._still_wanted)
        self._failed = message.kind == "failure"
        return core.Heard(await believed(self._runtime, self, message), self._still_wanted)

    def _is_news(self, message: Message) -> bool:
        """A late message about the value that a refresh replaces must not answer the refresh."""
        return message.kind == "again" or message.token > self.newer_than

    async def _compute(self, grant: Granted | None) -> core.Event:
        self._hearing.forget()
        self._delivery.alone = grant is None and not self.bypassed
        self._delivery.outdated = False
        if self.lets_nobody_wait:
            self.passengers.send_away(but=self.passengers.next_idle())
        versions = await versions_before(self._runtime, self, grant)
        result = await self.computation.run(grant)
        if self.tags and isinstance(result, Result):
            result = result._replace(body=sealed(result.body, versions))
        if result == "back":
            return core.LookAgain(self.passengers.wanted)
        if isinstance(result, core.Abandoned):
            self._failed = self.computation.refused
            return result
        self._failed = result.error is not None
        if result.error is not None:
            self._delivery.error = result.error
            return core.Failed(None if result.private else encode_failure(result.error))
        self.lifetimes = result.policy
        self.stored = grant is not None and result.policy is not None
        self._runtime.warn_if_too_large(self.plan, result.body)
        if result.policy is None:
            shared = self.plan.share_uncached
            return core.Computed(result.body, storable=False, away=self._away, shared=shared)
        return core.Computed(result.body, away=self._away)

    async def _publish(self, grant: Granted, outcome: core.Outcome) -> core.Event:
        self._delivery.covered = self.passengers.joined
        session = self._runtime.session
        policy = (self.lifetimes if outcome.kind == "value" else None) or self.plan.policy
        self.stored = False
        try:
            tags = ask_again(self._runtime, self)
            late = self.late and len(outcome.body) < LONG_ON_THE_WIRE
            sending = self.computation.while_sending(grant, outcome.body)
            async with asyncio.timeout(LATE_SECONDS if late else None), sending:
                stored = await session.publish(
                    self.name,
                    flight=self.id,
                    grant=grant,
                    outcome=outcome.kind,
                    body=outcome.body,
                    policy=policy,
                    took_ms=self.computation.took_ms,
                )
        except (StoreError, TimeoutError) as error:
            if isinstance(error, StoreRefused):
                self._runtime.note_refusal(error, "publish")
            self._unanswered = True
            self.late = self.late or getattr(error, "late", False)
            return core.StoreFailed(away=session.away_for(self.name))
        self._runtime.published(self.name, value=stored and outcome.kind == "value")
        self.stored = outcome.kind != "pass" and (stored or None)
        if tags is not None and outcome.kind != "failure" and not await tags.confirm(outcome.body):
            # A caller may have joined after an invalidation that raised no fence: see `core.tags`.
            self.newer_than = max(self.newer_than, grant.token)
            return core.PublishAnswered(False)
        if stored and outcome.kind == "value":
            total_ms, took_ms = policy.total_ms, self.computation.took_ms
            reading = Reading(outcome.body, grant.token, total_ms, policy.stale_ms, total_ms, took_ms)
            self._runtime.learn(self.name, reading)
        return core.PublishAnswered(stored)

    async def _release(self, outcome: core.Outcome | None) -> core.Event:
        self._delivery.covered = self.passengers.joined
        try:
            await self._runtime.session.release(self.name, flight=self.id)
        except (StoreUnavailable, StoreRefused):
            self._unanswered = True
        if outcome is None:
            return core.Delivered(self.passengers.wanting)
        return self._delivery.deliver(outcome, "covered")
