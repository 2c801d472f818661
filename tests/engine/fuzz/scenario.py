"""One seed in virtual time: some guards on one store, their callers, and what the weather does to their commands."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import random
import sys
import uuid
from random import Random
from typing import Any
from unittest import mock

from stampede_guard import StampedeGuard, events
from stampede_guard.api.results import MISSING
from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.policy import Limits, Policy
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.values.ownerrors import OWN_ERRORS
from tests.engine.fuzz.batches import Batches
from tests.engine.fuzz.case import Action, Case
from tests.engine.fuzz.drawing import drawn
from tests.engine.fuzz.journal import Call, Change, Computation, Journal, number_in, text_of
from tests.engine.fuzz.leftovers import left_in_guards, left_in_loop, left_in_store
from tests.engine.fuzz.network import UnsteadyStore
from tests.leases.simulation.loop import VirtualLoop

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
        self.batches: Any = None
        self.entries: dict[str, str] = {}
        """The name of each key in the store."""

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
        self.batches = Batches(self, self.case)
        self.entries = {name: key.entry for name, key in self.case.keys.items()} | self.batches.entries
        journal.entries = self.entries
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
            case "mode":
                self.guards[action.guard].mode = action.mode or None  # type: ignore[assignment]
            case "switch":
                with contextlib.suppress(StoreError):
                    await self.guards[action.guard].switch_mode("*", action.mode or None)  # type: ignore[arg-type]
            case "many" | "many refresh":
                await self.batches.call(index, action)
            case "write and refresh":
                self.versions[action.key] += 1
                await self._call(index, action)
            case _:
                await self._change(action)

    def options(self, action: Action) -> dict[str, Any]:
        key = self.case.keys[action.key]
        options = {
            **key.fields,
            **self.case.policies.get(action.guard, {}),
            **action.fields,
            "tags": key.tags,
        }
        if action.bound:
            options["early_beta"] = 0.0
        if action.kind == "bypass":
            options["mode"] = "bypass"
        return options

    def guard(self, action: Action) -> StampedeGuard:
        guard, tenant = self.guards[action.guard], self.case.keys[action.key].tenant
        return guard.within(tenant) if tenant else guard

    def kind_of(self, action: Action, kind: str, *, guard: str = "") -> str:
        """What the call is in the mode of this moment."""
        mode = self.guards[guard or action.guard].mode or ("bypass" if kind == "bypass" else "on")
        if mode in ("off", "shadow"):
            return "nothing" if kind == "peek" else "plain"
        if mode == "bypass":
            return "nothing" if kind == "peek" else "bypass"
        return "get" if kind == "bypass" else kind

    async def _call(self, index: int, action: Action) -> None:
        guard, key = self.guard(action), self.case.keys[action.key]
        options = self.options(action)
        policy = Policy(**{name: value for name, value in options.items() if name != "tags"})
        if key.uncacheable:
            options["should_cache"] = lambda value: not key.never and number_in(value) % 3 > 0
        if key.own_ttl:
            options["ttl"] = lambda value: policy.ttl * (1 + number_in(value) % 2)
        kind = self.kind_of(action, action.kind)
        call = Call(index, action.guard, action.key, kind, policy, action.bound, self.journal.now())
        self.journal.calls.append(call)

        async def compute() -> str:
            return (await self.compute(index, action, kind=kind))[0]

        try:
            match action.kind:
                case "get" | "bypass":
                    value = await guard.get_or_compute(
                        key.plain_name, compute, request_bound=action.bound, **options
                    )
                case "refresh" | "write and refresh":
                    value = await guard.refresh(
                        key.plain_name, compute, request_bound=action.bound, **options
                    )
                case "single":
                    async with guard.single(key.plain_name, **options) as entry:
                        if entry.missing:
                            await entry.set(await compute())
                        value = entry.value
                case _:
                    value = await guard.get(key.plain_name, tags=key.tags, l1_ttl=policy.l1_ttl)
            call.made = number_in(value)
            if "refresh" in kind:
                self.has_refreshed(call)
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

    def has_refreshed(self, call: Call) -> None:
        """Later callers get nothing older, at least in its process."""
        made, now = self.journal.computations[call.made], self.journal.now()
        faulty = self.journal.failed_between(call.guard, call.began.time, now.time)
        faulty = faulty or self.journal.was_away(call.guard, call.began, now) or made.kind == "set"
        answer = "pending" if faulty else "done"
        self.journal.changes.append(
            Change(call.guard, call.key, "refresh", made.version, call.began, now, answer)
        )

    async def compute(
        self, index: int, action: Action, *, kind: str, guard: str = "", keys: tuple[str, ...] = ()
    ) -> list[str]:
        """The values of these keys, by one computation. An error names the first."""
        journal, all_made = self.journal, []
        for key in keys or (action.key,):
            number = next(self._numbers)
            made = Computation(number, guard or action.guard, key, kind, index, journal.now())
            journal.computations[number] = made
            journal.note(f"computation {number} of {key} for {index} begins")
            made.outcome = "cancelled"
            all_made.append(made)
        journal.batches[all_made[0].number] = {made.key: made.number for made in all_made}
        try:
            await asyncio.sleep(action.work[0])
            for made in all_made:
                made.version = self.versions[made.key]
            await asyncio.sleep(action.work[1])
            for made in all_made:
                made.outcome = action.outcome
            texts = [text_of(made.number, made.version) for made in all_made]
            match action.outcome:
                case "error":
                    raise Boom(texts[0])
                case "exit":
                    raise SystemExit(texts[0])
                case "cancelled":
                    raise asyncio.CancelledError
            return texts
        finally:
            for made in all_made:
                made.ended = journal.now()
            told = [(made.number, made.version) for made in all_made]
            journal.note(f"computation of {told} ends: {all_made[0].outcome}")

    async def _change(self, action: Action) -> None:
        guard, journal = self.guard(action), self.journal
        tag, tenant = action.kind == "invalidate_tag", self.case.keys[action.key].tenant
        keys = [*(action.ids or (action.key,))]
        if tag:
            same = {name: key for name, key in self.case.keys.items() if key.tenant == tenant}
            keys = [name for name, key in same.items() if action.tag in key.tags]
        changes = []
        for name in keys:
            self.versions[name] += 1
            kind = "invalidate" if action.ids and not tag else action.kind
            changes.append(Change(action.guard, name, kind, self.versions[name], journal.now()))
        journal.changes += changes
        try:
            if tag:
                answer: str = await guard.invalidate_tag(action.tag)
            elif action.kind == "many invalidate":
                answer = await self.batches.invalidate(action)
            elif action.kind == "invalidate":
                answer = await guard.invalidate(self.case.keys[action.key].plain_name)
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
            return await guard.set(key.plain_name, text_of(number, version), tags=key.tags, **fields)
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
            key.fields["compute_timeout"] + self.case.most_of("lease_ttl", name)
            for name, key in self.case.keys.items()
        )
        longest += max(self.case.most_of("fallback_timeout", name) for name in self.case.keys)
        await asyncio.sleep(longest + 10.0)
        journal.problems += left_in_guards(self.guards) + left_in_store(self.memory)
        for guard in self.guards.values():
            await guard.aclose()
        wires = [task for store in self.stores.values() for task in store.travelling]
        if wires:
            await asyncio.wait(wires)
        journal.problems += left_in_loop(self._loop, self.memory)


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
        # Of earlier tests: the event loop would sweep until they are over.
        OWN_ERRORS.forget()
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
            gc.collect()
    fleet.journal.problems += unraisable
    return fleet
