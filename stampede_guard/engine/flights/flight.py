"""The driver of one flight: it carries out the commands of `core.flight.decide`, for one key in one process.

The flight's task belongs to the runtime, not to the request that began it. Its passengers wait on futures of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextvars import Context
from typing import TYPE_CHECKING, assert_never

from stampede_guard.core import commands as do
from stampede_guard.core import events as on
from stampede_guard.core.asks import Answer, FailedRecently, Found, Granted, Message
from stampede_guard.core.caller import computes_for_one, may_join, store_deadline
from stampede_guard.core.changing import AT_WORK
from stampede_guard.core.entry import Reading
from stampede_guard.core.flight import begin, decide
from stampede_guard.core.outcome import FlightOutcome
from stampede_guard.core.states import FlightKind, Landed
from stampede_guard.core.tags import resealed, sealed
from stampede_guard.engine.flights.computation import LONG_ON_THE_WIRE, Computation, Result
from stampede_guard.engine.flights.delivery import Delivery, crash_of
from stampede_guard.engine.flights.mailbox import Mailbox
from stampede_guard.engine.flights.once import Once
from stampede_guard.engine.flights.passengers import Passengers
from stampede_guard.engine.flights.readonly import ask_without_writes
from stampede_guard.engine.flights.reentry import Awaited
from stampede_guard.engine.previous import Previous
from stampede_guard.engine.stats.steps import tell_step
from stampede_guard.engine.tags.checking import acquire, ask_again, believed, versions_before
from stampede_guard.engine.tags.versions import tags_of
from stampede_guard.engine.tasks import at_most, ended
from stampede_guard.engine.threads.levels import enabled
from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.events import TakenOver
from stampede_guard.values.unstorable import Unstorable

if TYPE_CHECKING:
    from stampede_guard.engine.flights.passenger import Passenger
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run, Variables
    from stampede_guard.policy import Policy

__all__ = ["Flight"]

steps = logging.getLogger("stampede_guard.flight")


class Flight:
    """Only three attributes decide what it does: `state`, which `decide` alone changes, `plan` and `passengers`.

    `lifetimes`: of the value computed last; None: it may not be stored. `old`: the value that led to this flight.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        plan: Plan,
        run: Run,
        variables: Variables,
        *,
        kind: FlightKind = "foreground",
        newer_than: int = 0,
    ) -> None:
        self.name = name
        self.tags = tags_of(run)
        self.place = name
        """The key under which the runtime keeps this flight."""
        self.plan = plan
        self.id = runtime.new_id()
        self.began = runtime.loop.time()
        self.lifetimes: Policy | None = None
        self.old: Previous | None = None
        self.awaits = Awaited()
        self.leader: Passenger | None = None
        self.computation = Computation(runtime, self, run, variables)
        self.runtime = self._runtime = runtime
        self.passengers = Passengers(plan, runtime.loop)
        self._delivery = Delivery(runtime, self)
        self._hearing = Mailbox(runtime.loop)
        self._logs_steps = enabled(steps, logging.DEBUG)
        away = runtime.away_for(name, self.tags) and not runtime.only_waits(name, self.tags)
        self.state, self._first = begin(kind, away=away, newer_than=newer_than)
        self.landed: asyncio.Future[None] = runtime.loop.create_future()
        self.landing = Once(runtime.loop)
        """The same event as `landed`, for any number of callers."""
        # In its own context, because the flight may outlive the request that began it. And without the loop's task
        # factory, because an eager one would let the flight land before a caller could join.
        self.task = asyncio.Task(
            self._fly(), loop=runtime.loop, name=f"stampede_guard flight {plan.title}", context=Context()
        )

    def feed(self, event: on.Event) -> do.Command:
        """An event changes the state. A landed flight ignores it."""
        before = self.state
        if isinstance(before.phase, Landed):
            return do.Keep()
        self.state, command = decide(before, event, self.plan.policy)
        if self._runtime.hooks.steps is not None:
            tell_step(self._runtime.hooks.steps, self, before, event, command)
        if self._logs_steps:
            # Names of types only: keys, values and errors may be secret.
            names = [type(part).__name__ for part in (before.phase, event, self.state.phase, command)]
            with contextlib.suppress(Exception):  # from a filter of the application: the flight goes on
                steps.debug("flight %s (%s): %s, %s -> %s, %s", self.id, before.kind, *names)
        return command

    # --- the passengers' side ------------------------------------------------------------------

    @property
    def open_to_all(self) -> bool:
        """Whether a caller may join without reading the store first."""
        return may_join(self.state, self._runtime.loop.time(), shares_uncached=self.plan.share_uncached)

    @property
    def lets_nobody_wait(self) -> bool:
        """Whether this flight computes for one caller only, because the value may be private to that caller."""
        return not self.plan.share_uncached and computes_for_one(self.state, shares_uncached=False)

    @property
    def bypassed(self) -> bool:
        return self.state.kind == "bypassed"

    @property
    def computing(self) -> bool:
        return isinstance(self.state.phase, AT_WORK)

    def know(self, old: Reading) -> None:
        """Note the value that callers get until there is a new one."""
        self.old = Previous(old, self.plan.decode, now=self._runtime.loop.time())

    def join(
        self,
        run: Run,
        variables: Variables,
        *,
        until: float,
        bound: bool = False,
        stale: Reading | None = None,
        patient: bool = False,
        share: bool = False,
        keep_refreshing: bool = False,
    ) -> Passenger:
        """Add a caller that waits `until` a time of the loop's clock. Raises `Overloaded` if too many wait already.

        `keep_refreshing`: other callers get the old value during the flight, although this one has none.
        """
        if self._runtime.orders:
            self._runtime.obey()
        passenger = self.passengers.join(
            run, variables, until=until, bound=bound, stale=stale, patient=patient, share=share
        )
        has_old, patient = stale is not None or keep_refreshing, patient and not bound
        late = self.name in self._runtime.flights.late
        state = self.state
        if late or (state.serves_old and not has_old) or (patient and not state.lingers):
            self._runtime.flights.late.discard(self.name)
            self.feed(on.Joined(has_old, patient, late))
        if self.plan.request_bound:
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

    @property
    def trace(self) -> str:
        """The traceparent of the other process's computation whose message came last, or nothing."""
        return self._hearing.trace

    # --- news from outside ---------------------------------------------------------------------

    def hear(self, message: Message) -> None:
        self._hearing.hear(message)

    def notice_gap(self) -> None:
        self._hearing.notice_gap()
        self.computation.renew_now()

    def invalidated(self) -> None:
        """`invalidate()` was called in this process."""
        self.old = None
        self.feed(on.InvalidatedHere())

    def require_newer(self, token: int, *, refresh: bool = False) -> None:
        """A value answers only if its token is above `token`. With `refresh`, the running computation is outdated."""
        if refresh or token > self.state.newer_than:
            self.feed(on.OutdatedUpTo(token, refresh))

    # --- the flight ----------------------------------------------------------------------------

    async def _fly(self) -> None:
        crash: BaseException | None = None
        command = self._first
        try:
            while not isinstance(command, do.Land):
                command = self.feed(await self._carry_out(command))
        except BaseException as error:
            # Also an error that would end the event loop: the flight has other callers than the one that raised it.
            # The lease may still be held. It is released below, so that no process waits for it.
            crash, command = crash_of(self, error), self.feed(on.Crashed())
        finally:
            # No await from the last decision to this line: else a caller could join a flight that has landed.
            assert isinstance(command, do.Land)
            self._runtime.landed(self)
            if command.pause:
                self._pause(command.pause)
            self.passengers.dismiss(crash)
            if command.releases and not self._runtime.closing:
                self._runtime.session.forget(self.name, flight=self.id)
            self.landing.happen()
            if not self.landed.done():
                self.landed.set_result(None)

    async def _carry_out(self, command: do.Command) -> on.Event:
        match command:
            case do.AskStore(after):
                if after:
                    await asyncio.sleep(after)
                return await self._ask()
            case do.Wait(seconds):
                self._hearing.look_after(seconds)
                if self.plan.on_wait is not None:
                    self.plan.on_wait(self._runtime, self.name)
                return await self._wait()
            case do.Keep():
                return await self._wait()
            case do.Compute(grant, taken_over):
                if taken_over and self._runtime.hooks:
                    self._runtime.hooks.tell(TakenOver(self.plan.title, self.name))
                return await self._compute(grant)
            case do.Publish(grant, outcome):
                return await self._publish(grant, outcome)
            case do.GiveBack(outcome, pause):
                self._pause(pause)
                return await self._release(outcome)
            case do.Deliver(outcome, to, keeps, pause):
                if pause:
                    self._pause(pause)
                return self._delivery.deliver(outcome, to, keeps=keeps)
            case do.Land():
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

    def _failed(
        self, *, away: bool, error: BaseException | None = None, seen: Reading | None = None
    ) -> on.StoreFailed:
        runtime, late = self._runtime, getattr(error, "late", False)
        return on.StoreFailed(
            away, self.passengers.aboard(), runtime.loop.time(), runtime.draw(), error is not None, late, seen
        )

    def _answered(self, answer: Answer) -> on.StoreAnswered:
        runtime = self._runtime
        return on.StoreAnswered(answer, self.passengers.aboard(), runtime.loop.time(), runtime.draw())

    async def _ask(self) -> on.Event:
        self.passengers.cover()
        self._delivery.proof = None
        self._hearing.begin_to_ask()
        if not self.bypassed and self._runtime.only_waits(self.name, self.tags):
            return await self._without_writes()
        if self._cut_off:
            return self._failed(away=True, seen=self._seen())
        try:
            async with at_most(store_deadline(late=self.state.late)):
                answer = await acquire(self._runtime, self)
        except (StoreUnavailable, TimeoutError) as error:
            away = isinstance(error, TimeoutError) or self._runtime.session.away_for(self.name)
            return self._failed(away=away, error=error, seen=self._seen() if away else None)
        except StoreRefused as error:
            self._runtime.note_refusal(error, "acquire")
            return await self._without_writes()
        if self._runtime.health.refusing and not isinstance(answer, Found | FailedRecently):
            # The store has written. An answer that was only read proves nothing: a store that is full still reads.
            self._runtime.health.admitted("acquire")
        return self._answered(answer)

    def _seen(self) -> Reading | None:
        """The fresh value that later callers are served while the store is away."""
        runtime = self._runtime
        _, state = runtime.last.find(self.name, now=runtime.now())
        seen = runtime.last.aged(self.name, now=runtime.now()) if state == "fresh" else None
        return seen if seen is not None and runtime.tags.allow(self.tags, seen.body) else None

    async def _without_writes(self) -> on.Event:
        self._delivery.proof, known = await ask_without_writes(self._runtime, self)
        return self._failed(away=True) if known is None else self._answered(Found(known))

    def _pause(self, seconds: float) -> None:
        """For so many seconds, stale hits do not refresh the present value."""
        if seconds > 0:
            token = self.old.token if self.old is not None else 0
            self._runtime.failing.pause(self.name, seconds, token=token)

    async def _wait(self) -> on.Event:
        message = await self._hearing.listen()
        if message is None:
            return on.LookAgain(self.passengers.aboard())
        message = await believed(self._runtime, self, message)
        self._hearing.trace = message.trace
        return on.Heard(message, self.passengers.aboard())

    async def _compute(self, grant: Granted | None) -> on.Event:
        self._hearing.forget()
        if self.lets_nobody_wait:
            self.passengers.send_away(but=self.passengers.next_idle())
        versions = await versions_before(self._runtime, self, grant)
        result = await self.computation.run(grant)
        if not isinstance(result, Result):
            return result
        if result.error is not None:
            self._delivery.error = result.error
            return on.ComputationFailed(None if result.private else self._delivery.recorded(result.error))
        unstorable = result.body if isinstance(result.body, Unstorable) else None
        if self.tags and unstorable is not None:
            result = result._replace(body=Unstorable.of(unstorable.value, sealed(b"", versions)))
        elif self.tags:
            result = result._replace(body=resealed(result.body, versions))
        self.lifetimes = result.policy
        self._runtime.warn_if_too_large(self.plan, result.body)
        if result.policy is None:
            # Another request cannot use an object that a request's session made.
            for_one = unstorable is not None and (unstorable.is_for_one or self.plan.request_bound)
            shared = self.plan.share_uncached and not for_one
            return on.ComputationEnded(result.body, storable=False, away=self._away, shared=shared)
        return on.ComputationEnded(result.body, away=self._away)

    async def _publish(self, grant: Granted, outcome: FlightOutcome) -> on.Event:
        self.passengers.cover()
        session = self._runtime.session
        policy = (self.lifetimes if outcome.kind == "value" else None) or self.plan.policy
        try:
            tags = ask_again(self._runtime, self)
            within = store_deadline(late=self.state.late and len(outcome.body) < LONG_ON_THE_WIRE)
            async with at_most(within), self.computation.while_sending(grant, outcome.body):
                stored = await session.publish(
                    self.name,
                    flight=self.id,
                    grant=grant,
                    outcome=outcome.kind,
                    body=outcome.body,
                    policy=policy,
                    took_ms=self.computation.took_ms,
                    trace=self._runtime.hooks.traceparent_of(self.id),
                )
        except (StoreError, TimeoutError) as error:
            if isinstance(error, StoreRefused):
                self._runtime.note_refusal(error, "publish")
            return self._failed(away=session.away_for(self.name), error=error)
        is_value = stored and outcome.kind == "value"
        self._runtime.published(self.name, value=is_value, plan=self.plan, size=len(outcome.body))
        if tags is not None and outcome.kind != "failure" and not await tags.confirm(outcome.body):
            # A caller may have joined after an invalidation that raised no fence: see `core.tags`.
            return on.PublishAnswered(stored, outdated=True)
        if is_value:
            total_ms, took_ms = policy.total_ms, self.computation.took_ms
            reading = Reading(outcome.body, grant.token, total_ms, policy.stale_ms, total_ms, took_ms)
            self._runtime.learn(self.name, reading)
        return on.PublishAnswered(stored)

    async def _release(self, outcome: FlightOutcome | None) -> on.Event:
        self.passengers.cover()
        answered = True
        try:
            await self._runtime.session.release(self.name, flight=self.id)
        except (StoreUnavailable, StoreRefused):
            answered = False
        if outcome is not None:
            self._delivery.deliver(outcome, "covered")
        return on.Delivered(self.passengers.aboard(), answered)
