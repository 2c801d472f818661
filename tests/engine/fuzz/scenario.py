"""One seed in virtual time: some guards on one store, their callers, and what the weather does to their commands."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from stampede_guard import UNCHANGED, StampedeGuard, events, previous
from stampede_guard.api.results import MISSING
from stampede_guard.engine.modes.sample import sampled
from stampede_guard.engine.previous import Previous
from stampede_guard.engine.tags.templates import tag_names
from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.policy import Limits, Policy
from stampede_guard.stores.memory import MemoryStore
from tests.engine.fuzz.batches import Batches
from tests.engine.fuzz.case import Action, Case
from tests.engine.fuzz.journal import Call, Change, Computation, Journal, number_in, text_of
from tests.engine.fuzz.leftovers import left_in_guards, left_in_loop, left_in_store
from tests.engine.fuzz.loops import Loops
from tests.engine.fuzz.network import UnsteadyStore, node_of
from tests.support.inside import runtimes_of

__all__ = ["Fleet"]

LONGEST = 600.0
"""Virtual seconds after which whoever still waits waits for ever."""


class Boom(Exception):
    """The error of a computation."""


class Fleet:
    def __init__(self, case: Case, loops: Loops) -> None:
        loop = loops.all[0]
        self.case = case
        self.journal = Journal(loop)
        self.versions = dict.fromkeys(case.keys, 1)
        self.memory = MemoryStore(clock=loop.time)
        self.stores: dict[str, UnsteadyStore] = {}
        self.guards: dict[str, StampedeGuard] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self._loop = loop
        self._loops = loops.all
        self._numbers = iter(range(1, 10_000))
        for label in case.guards:
            store = UnsteadyStore(label, self.memory, case.weather, case.seed, self.journal, nodes=case.nodes)
            self.stores[label] = store
            hooks = [functools.partial(self._told, label)] if case.hooks else []
            limits = Limits(drain_timeout=0.5, max_local_computations=2)
            self.guards[label] = StampedeGuard(store, namespace="t", limits=limits, hooks=hooks)
        self.batches: Any = None
        self._switches = 0
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
        journal.nodes = {name: self._nodes(name) for name in self.entries}
        storms = [loop.create_task(store.endure(), name="weather") for store in self.stores.values()]
        begin, ends = loop.time(), list[asyncio.Future[None]]()
        for index, action in enumerate(self.case.actions):
            await asyncio.sleep(max(0.0, begin + action.at - loop.time()))
            ends.append(self._begin(index, action))
        await asyncio.wait([*ends, *storms], timeout=LONGEST)
        for index, task in self.tasks.items():
            if not task.done():
                journal.problems.append(f"action {index} never ends: {self.case.actions[index]}")
                task.get_loop().call_soon_threadsafe(task.cancel)
            elif not task.cancelled() and task.exception() is not None:
                journal.problems.append(f"action {index}: {task.exception()!r}")
        for storm in storms:
            storm.cancel()
        await self._settle()

    def _nodes(self, name: str) -> set[str]:
        """Where its entry and its tags are."""
        key = self.case.keys[name]
        prefix = f"t:{key.tenant}:" if key.tenant else "t:"
        names = [self.entries[name], *tag_names(prefix, key.tags)]
        return {node_of(each, self.case.nodes) for each in names}

    def _begin(self, index: int, action: Action) -> asyncio.Future[None]:
        """Begin it in its event loop. The future tells its end in the first loop."""
        loop, over = self._loops[action.loop], self._loop.create_future()

        def begin() -> None:
            self.tasks[index] = task = loop.create_task(self._act(index, action), name=f"action {index}")
            task.add_done_callback(lambda _: self._loop.call_soon_threadsafe(over.set_result, None))
            if action.after is not None:
                loop.call_later(action.after, self._cancel, index, task)

        if loop is self._loop:
            begin()
        else:
            loop.call_soon_threadsafe(begin)
        return over

    async def _everywhere(self, call: Callable[[], Awaitable[object]]) -> None:
        """Await it in each event loop."""
        for loop in self._loops:
            over = self._loop.create_future()

            async def there(over: asyncio.Future[None] = over) -> None:
                await call()
                self._loop.call_soon_threadsafe(over.set_result, None)

            loop.call_soon_threadsafe(lambda loop=loop, there=there: loop.create_task(there()))  # type: ignore[misc]
            await over

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
                    await self._switch(action)
            case "many" | "many refresh":
                await self.batches.call(index, action)
            case "write and refresh":
                self.versions[action.key] += 1
                await self._call(index, action)
            case _:
                await self._change(action)

    async def _switch(self, action: Action) -> None:
        guard, mode = self.guards[action.guard], action.mode or None
        self._switches += 1
        number = self._switches
        await guard.switch_mode("*", mode, sample=action.sample, lasting=action.lasting)  # type: ignore[arg-type]
        if action.lasting is not None:
            # Each process reads the switches every few seconds, and ends one by itself while the store is away.
            self._loop.call_later(action.lasting + 7.0, self._has_ended, number)

    def _has_ended(self, number: int) -> None:
        for label, guard in self.guards.items():
            left = guard.engine.modes.resolver.said.fleet
            if self._switches == number and left and runtimes_of(guard):
                self.journal.problems.append(f"{label} is still in a mode that was to end: {left}")

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
        key = self.entries[action.key]
        resolver = self.guards[guard or action.guard].engine.modes.resolver
        mode = resolver.of_all or ("bypass" if kind == "bypass" else "on")
        switch = resolver.said.fleet.get("*")
        if switch is not None and switch.sample is not None and not sampled(key, switch.sample):
            mode = "off"
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

        async def compute(old: Previous | None = None) -> Any:
            old = old or previous()
            text = (await self.compute(index, action, kind=kind))[0]
            return self._or_unchanged(text, old) if action.outcome == "unchanged" else text

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
                            await entry.set(await compute(entry.previous))
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

    def _or_unchanged(self, text: str, old: Previous | None) -> Any:
        """The computation does not notice a write that is only followed by an invalidation."""
        if old is None:
            return text
        made, number = self.journal.computations[number_in(text)], number_in(old.value)
        writes = any(each.kind in ("set", "write and refresh") for each in self.case.actions)
        if writes and self.journal.computations[number].version < made.version:
            return text
        self.journal.note(f"computation {made.number} finds #{number} unchanged")
        self.journal.unchanged.setdefault(number, []).append(made)
        return UNCHANGED

    def has_refreshed(self, call: Call) -> None:
        """Later callers get nothing older, at least in its process."""
        made, now = self.journal.computations[call.made], self.journal.now()
        faulty = self.journal.failed_between(call.guard, call.key, call.began.time, now.time)
        faulty = faulty or self.journal.was_away(call.guard, call.key, call.began, now) or made.kind == "set"
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
                made.outcome = "value" if action.outcome == "unchanged" else action.outcome
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
            store._end("fail")
        longest = max(
            key.fields["compute_timeout"] + self.case.most_of("lease_ttl", name)
            for name, key in self.case.keys.items()
        )
        longest += max(self.case.most_of("fallback_timeout", name) for name in self.case.keys)
        await asyncio.sleep(longest + 10.0)
        journal.problems += left_in_guards(self.guards) + left_in_store(self.memory)
        for guard in self.guards.values():
            await self._everywhere(guard.aclose)
        # Longer than any command is under way.
        await asyncio.sleep(10.0)
        for loop in self._loops:
            journal.problems += left_in_loop(loop, self.memory)
