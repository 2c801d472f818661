"""One seed in virtual time: some guards on one store, their callers, and what the weather does to their commands."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import random
import sys
import uuid
from random import Random
from typing import Any
from unittest import mock

from stampede_guard import StampedeGuard, events
from stampede_guard.api.results import MISSING
from stampede_guard.errors import StoreRefused
from stampede_guard.policy import Limits, Policy
from stampede_guard.stores.memory import MemoryStore
from tests.engine.fuzz.drawing import Action, Case, drawn
from tests.engine.fuzz.journal import Call, Change, Computation, Journal, number_in, text_of
from tests.engine.fuzz.network import UnsteadyStore
from tests.leases.simulation.loop import VirtualLoop
from tests.support.heap import collect

__all__ = ["Fleet", "play"]

LONGEST = 600.0
"""Virtual seconds after which whoever still waits waits for ever."""


class Boom(Exception):
    """The error of a computation."""


class Fleet:
    def __init__(self, case: Case, loop: VirtualLoop) -> None:
        self.case = case
        self.journal = Journal(loop)
        self.versions = dict.fromkeys(case.keys, 1)
        self.memory = MemoryStore(clock=loop.time)
        self.stores: dict[str, UnsteadyStore] = {}
        self.guards: dict[str, StampedeGuard] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self._loop = loop
        self._numbers = iter(range(1, 10_000))
        for label in case.guards:
            store = UnsteadyStore(label, self.memory, case.weather, case.seed, self.journal)
            self.stores[label] = store
            hooks = [functools.partial(self._told, label)] if case.hooks else []
            limits = Limits(drain_timeout=0.5, max_local_computations=2)
            self.guards[label] = StampedeGuard(store, namespace="t", limits=limits, hooks=hooks)

    def _told(self, label: str, event: Any) -> None:
        self.journal.note(f"{label}: {event}"[:200])
        if isinstance(event, events.Fallback) and event.outcome == "denied":
            running = event.entry in self.guards[label].engine.runtime().fallbacks
            if running:
                self.journal.denied(label, event.entry)
            else:
                self.journal.fallbacks.append((self.journal.now(), label, event.entry))

    # --- what it does ------------------------------------------------------------------------------

    async def run(self) -> None:
        journal, loop = self.journal, self._loop
        storms = [loop.create_task(store.endure(), name="weather") for store in self.stores.values()]
        begin = loop.time()
        for index, action in enumerate(self.case.actions):
            await asyncio.sleep(max(0.0, begin + action.at - loop.time()))
            self.tasks[index] = task = loop.create_task(self._act(index, action), name=f"action {index}")
            if action.after is not None:
                loop.call_later(action.after, self._cancel, index, task)
        await asyncio.wait([*self.tasks.values(), *storms], timeout=LONGEST)
        for index, task in self.tasks.items():
            if not task.done():
                journal.problems.append(f"action {index} never ends: {self.case.actions[index]}")
                task.cancel()
            elif not task.cancelled() and task.exception() is not None:
                journal.problems.append(f"action {index}: {task.exception()!r}")
        for storm in storms:
            storm.cancel()
        await self._settle()

    def _cancel(self, index: int, task: asyncio.Task[None]) -> None:
        if not task.done():
            self.journal.note(f"action {index} is cancelled")
            task.cancel()

    async def _act(self, index: int, action: Action) -> None:
        self.journal.note(f"action {index}: {action}")
        match action.kind:
            case "get" | "refresh" | "peek" | "bypass" | "single":
                await self._call(index, action)
            case "close":
                began = self.journal.now()
                try:
                    await self.guards[action.guard].aclose()
                finally:
                    self.journal.closings.append((began, self.journal.now(), action.guard))
            case "write and refresh":
                self.versions[action.key] += 1
                await self._call(index, action)
            case _:
                await self._change(action)

    def options(self, action: Action) -> dict[str, Any]:
        key = self.case.keys[action.key]
        options = {**key.fields, **action.fields, "tags": key.tags}
        if action.bound:
            options["early_beta"] = 0.0
        if action.kind == "bypass":
            options["mode"] = "bypass"
        return options

    async def _call(self, index: int, action: Action) -> None:
        guard, key = self.guards[action.guard], self.case.keys[action.key]
        options = self.options(action)
        policy = Policy(**{name: value for name, value in options.items() if name != "tags"})
        if key.uncacheable:
            options["should_cache"] = lambda value: number_in(value) % 3 > 0
        if key.own_ttl:
            options["ttl"] = lambda value: policy.ttl * (1 + number_in(value) % 2)
        call = Call(index, action.guard, action.key, action.kind, policy, action.bound, self.journal.now())
        self.journal.calls.append(call)

        async def compute() -> str:
            return await self._compute(index, action)

        try:
            match action.kind:
                case "get" | "bypass":
                    value = await guard.get_or_compute(
                        action.key, compute, request_bound=action.bound, **options
                    )
                case "refresh" | "write and refresh":
                    value = await guard.refresh(action.key, compute, request_bound=action.bound, **options)
                case "single":
                    async with guard.single(action.key, **options) as entry:
                        if entry.missing:
                            await entry.set(await compute())
                        value = entry.value
                case _:
                    value = await guard.get(action.key, tags=key.tags, l1_ttl=policy.l1_ttl)
            call.made = number_in(value)
            if "refresh" in action.kind:
                self._has_refreshed(call)
            if value is not MISSING and not call.made:
                self.journal.problems.append(f"call {index} got {value!r}")
        except asyncio.CancelledError as error:
            call.error, call.cancelled = error, True
            raise
        except BaseException as error:
            call.error, call.made = error, number_in(error)
        finally:
            call.ended = self.journal.now()
            self.journal.note(f"call {index} ends: #{call.made} {call.error!r}")

    def _has_refreshed(self, call: Call) -> None:
        """Later callers get nothing older, at least in its process."""
        made, now = self.journal.computations[call.made], self.journal.now()
        faulty = self.journal.failed_between(call.guard, call.began.time, now.time)
        faulty = faulty or self.journal.was_away(call.guard, call.began, now) or made.kind == "set"
        answer = "pending" if faulty else "done"
        self.journal.changes.append(
            Change(call.guard, call.key, "refresh", made.version, call.began, now, answer)
        )

    async def _compute(self, index: int, action: Action) -> str:
        number = next(self._numbers)
        made = Computation(number, action.guard, action.key, action.kind, index, self.journal.now())
        self.journal.computations[number] = made
        self.journal.note(f"computation {number} for {index} begins")
        made.outcome = "cancelled"
        try:
            await asyncio.sleep(action.work[0])
            made.version = self.versions[action.key]
            await asyncio.sleep(action.work[1])
            made.outcome = action.outcome
            match action.outcome:
                case "error":
                    raise Boom(text_of(number, made.version))
                case "exit":
                    raise SystemExit(text_of(number, made.version))
                case "cancelled":
                    raise asyncio.CancelledError
            return text_of(number, made.version)
        finally:
            made.ended = self.journal.now()
            self.journal.note(f"computation {number} ends: {made.outcome}, version {made.version}")

    async def _change(self, action: Action) -> None:
        guard, journal = self.guards[action.guard], self.journal
        tag = action.kind == "invalidate_tag"
        keys = [name for name, key in self.case.keys.items() if "t" in key.tags] if tag else [action.key]
        changes = []
        for name in keys:
            self.versions[name] += 1
            changes.append(Change(action.guard, name, action.kind, self.versions[name], journal.now()))
        journal.changes += changes
        try:
            if tag:
                answer: str = await guard.invalidate_tag("t")
            elif action.kind == "invalidate":
                answer = await guard.invalidate(action.key)
            else:
                answer = await self._set(guard, action)
        except StoreRefused:
            return
        finally:
            for change in changes:
                change.ended = journal.now()
        journal.note(f"{action.guard}: {action.kind} {keys} of {[c.version for c in changes]}: {answer}")
        for change in changes:
            change.answer = answer

    async def _set(self, guard: StampedeGuard, action: Action) -> str:
        number, version = next(self._numbers), self.versions[action.key]
        made = Computation(number, action.guard, action.key, "set", -1, self.journal.now())
        made.version, made.outcome = version, "value"
        self.journal.computations[number] = made
        key = self.case.keys[action.key]
        fields = {name: key.fields[name] for name in ("ttl", "stale_ttl", "l1_ttl", "error_ttl")}
        try:
            return await guard.set(action.key, text_of(number, version), tags=key.tags, **fields)
        finally:
            made.ended = self.journal.now()

    # --- the end -----------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Everything lands; then nothing may be left."""
        journal = self.journal
        for store in self.stores.values():
            store._end("")
            store.recover()
        longest = max(
            key.fields["compute_timeout"] + key.fields["lease_ttl"] for key in self.case.keys.values()
        )
        longest += max(key.fields["fallback_timeout"] for key in self.case.keys.values())
        await asyncio.sleep(longest + 10.0)
        for label, guard in self.guards.items():
            runtime = guard.engine.runtime()
            for what, left in {
                "flights": dict(runtime.flights),
                "fallbacks": runtime.fallbacks,
                "ends of fallbacks": runtime.fallback_ends,
                "waiting for slots": len(runtime.slots),
                "slots": runtime.slots._taken,
                "pending": runtime.unsettled.pending,
                "unsettled": runtime.unsettled.names,
                "abandoned": runtime.abandoned,
            }.items():
                if left:
                    journal.problems.append(f"{label} has {what} left: {left}")
        for name in self.memory.names():
            entry = self.memory.look(name)
            if entry.lease is not None:
                journal.problems.append(f"{name} is leased for ever: {entry.lease}")
        for guard in self.guards.values():
            await guard.aclose()
        left = [task for task in asyncio.all_tasks() if task.get_name().startswith("stampede_guard")]
        if left:
            journal.problems.append(f"tasks are left: {left}")
        if self.memory._subscribers or self.memory._watchers:
            journal.problems.append("somebody still listens")
        wires = [task for store in self.stores.values() for task in store.travelling]
        if wires:
            await asyncio.wait(wires)


def play(case: Case | int) -> Fleet:
    """The fleet after it has ended. The laws are not judged here."""
    case = drawn(case) if isinstance(case, int) else case
    loop, ids = VirtualLoop(), Random(case.seed)
    drawn_before = random.getstate()
    random.seed(case.seed)
    unraisable: list[str] = []
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        stack.callback(logging.disable, disabled)
        stack.callback(random.setstate, drawn_before)
        stack.enter_context(mock.patch.object(uuid, "uuid4", lambda: uuid.UUID(int=ids.getrandbits(128))))
        stack.enter_context(
            mock.patch.object(sys, "unraisablehook", lambda told: unraisable.append(repr(told.exc_value)))
        )
        fleet = Fleet(case, loop)
        loop.set_exception_handler(
            lambda _, context: fleet.journal.problems.append(f"the event loop reports {context}")
        )
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(fleet.run())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
        fleet.tasks.clear()
        fleet.guards.clear()
        if case.seed % 20 == 0:
            collect()
    fleet.journal.problems += unraisable
    return fleet
