"""The real scripts, carried out on the model's entry, with the promises that each single step must keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from stampede_guard.core import caller, flight, scripts
from stampede_guard.core.entry import EMPTY, Entry, in_time
from stampede_guard.core.outcome import FlightOutcome
from stampede_guard.core.scripts import (
    Answer,
    Denied,
    FailedRecently,
    FallbackAsk,
    Found,
    Granted,
    Held,
    Messages,
    Publication,
    Renewal,
    Uncacheable,
)
from stampede_guard.core.tags import opened
from tests.core.world import SLOTS_MS, Setup, Table, Violation, World


@dataclass(frozen=True)
class Core:
    """What is searched; a mutation replaces one of these."""

    read: Callable[..., Any] = scripts.read
    acquire: Callable[..., Any] = scripts.acquire
    publish: Callable[..., Any] = scripts.publish
    invalidate: Callable[..., Any] = scripts.invalidate
    release: Callable[..., Any] = scripts.release
    renew: Callable[..., Any] = scripts.renew
    fallback: Callable[..., Any] = scripts.fallback
    stamp: Callable[..., Any] = scripts.stamp
    begin: Callable[..., Any] = flight.begin
    decide: Callable[..., Any] = flight.decide
    may_join: Callable[..., Any] = caller.may_join
    names_unconfirmed_inbox: bool = False
    everyone_is_covered: bool = False
    pending_counts_as_away: bool = False


def version_of(body: bytes) -> int:
    """Which truth a value or failure of the model was computed from; a private failure's text is not known."""
    return int(opened(body)[1:]) if body else 10**9


def too_old(version: int, need: int) -> str:
    return f"a caller that began after invalidation {need} had returned was served version {version}"


class Store:
    """Runs scripts on numbered entries. Equal calls are answered from memory: the scripts are pure."""

    def __init__(self, setup: Setup, core: Core, table: Table) -> None:
        self.setup = setup
        self.core = core
        self.table = table
        self.empty = table.id(EMPTY)
        self._known: dict[tuple[Any, ...], Any] = {}
        policy = setup.policy
        self.lease_ms = 10**6
        self.record_ms = 10**7
        self.inline_bytes = policy.inline_bytes
        self.uncacheable_limit = policy.uncacheable_limit

    def _run(self, key: tuple[Any, ...], call: Callable[[], Any]) -> Any:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = call()
        return known

    def listening(self, world: World) -> frozenset[str] | None:
        if not self.setup.listening_known:
            return None
        return frozenset(f"i{number}" for number, process in enumerate(world.processes) if process.hears)

    # --- read ------------------------------------------------------------------------------------

    def read_fresh(self, world: World) -> bytes | None:
        def call() -> bytes | None:
            entry: Entry = self.table[world.entry]
            reading = self.core.read(entry, now_us=world.now)
            if reading is None or not reading.stale_ms < reading.remaining_ms <= reading.total_ms:
                return None
            body: bytes = reading.body
            return body

        return self._run_or_none(("read", world.entry, world.now), call)

    def _run_or_none(self, key: tuple[Any, ...], call: Callable[[], bytes | None]) -> bytes | None:
        if key not in self._known:
            self._known[key] = call()
        found: bytes | None = self._known[key]
        return found

    def stored_token(self, world: World) -> int:
        value = self.table[world.entry].value
        return 0 if value is None else int(value.token)

    # --- acquire ---------------------------------------------------------------------------------

    def acquire(self, world: World, name: str, newer_than: int, inbox: str) -> tuple[World, Answer]:
        listening = self.listening(world)
        key = ("acquire", world.entry, world.now, world.epochs, name, newer_than, inbox, listening)
        after, answer, created = self._run(
            key, lambda: self._acquire(world, name, newer_than, inbox, listening)
        )
        if isinstance(answer, Granted):
            world = self._note_token(world, answer, self.table[world.entry], name)
        if isinstance(answer, Uncacheable):
            world = self._note_new_token(world, answer.grant)
        return world._replace(entry=after, epochs=world.epochs + created), answer

    def _acquire(
        self, world: World, name: str, newer_than: int, inbox: str, listening: frozenset[str] | None
    ) -> tuple[int, Answer, bool]:
        before: Entry = self.table[world.entry]
        epoch = f"e{world.epochs}"
        ask = scripts.Ask(
            flight=name,
            inbox=inbox,
            epoch=epoch,
            lease_ms=self.lease_ms,
            record_ms=self.record_ms,
            takeover_ms=0,
            newer_than=newer_than,
            uncacheable_limit=self.uncacheable_limit,
            uncacheable_ms=SLOTS_MS,
        )
        after, answer = self.core.acquire(before, ask, now_us=world.now, listening=listening)
        self._check_acquire(before, after, answer)
        self._check_passing(before, answer, name, world.now)
        self._check_clock(before, answer, world.now)
        created = after.record is not None and after.record.epoch == epoch
        if isinstance(answer, Granted) and answer.epoch == epoch:
            created = True
        return self.table.id(after), answer, created

    def _check_acquire(self, before: Entry, after: Entry, answer: Answer) -> None:
        if (
            before.record is not None
            and after.record is not None
            and after.record.fence != before.record.fence
        ):
            raise Violation("acquire moved an existing fence")
        # A refresh, or a stamp, may have to create a record beside a fresh value; its fence is then above that value's
        # token.
        if self.setup.refreshes or self.setup.draws or self.setup.puts or before.record is None:
            return
        if isinstance(answer, Found) and answer.reading.token < before.record.fence:
            raise Violation("acquire served a value older than the fence")

    def _check_clock(self, before: Entry, answer: Answer, now: int) -> None:
        failure = before.failure
        if isinstance(answer, FailedRecently | Uncacheable) and failure is not None:
            if not in_time(failure.expires_us, failure.total_ms, now):
                raise Violation("a failure or mark outlived its time, after a step of the clock")

    def _check_passing(self, before: Entry, answer: Answer, name: str, now: int) -> None:
        mark, record = before.failure, before.record
        if isinstance(answer, Uncacheable):
            if mark is None or not mark.passes or (record is not None and mark.token < record.fence):
                raise Violation("let through by a mark from before an invalidation")
        elif isinstance(answer, Held) and mark is not None and mark.passes:
            counts = record is None or mark.token >= record.fence
            counts = counts and in_time(mark.expires_us, mark.total_ms, now)
            others = [
                slot
                for slot in before.slots
                if slot.owner != name and in_time(slot.expires_us, slot.total_ms, now)
            ]
            if counts and len(others) < self.uncacheable_limit:
                raise Violation("made to wait although the key is not cacheable")

    def _note_token(self, world: World, granted: Granted, before: Entry, name: str) -> World:
        lease, record = before.lease, before.record
        if (
            lease is not None
            and record is not None
            and lease.owner == name
            and lease.epoch == record.epoch
            and lease.token >= record.fence
        ):
            if granted.token != lease.token:
                raise Violation("the same flight, asking again, got another token")
            return world
        return self._note_new_token(world, granted)

    def _note_new_token(self, world: World, granted: Granted) -> World:
        if granted.token <= world.issued and self.setup.clock_goes_on:
            raise Violation(f"token {granted.token} was issued after {world.issued}")
        return world._replace(issued=max(world.issued, granted.token))

    # --- publish ---------------------------------------------------------------------------------

    def publish(self, world: World, name: str, grant: Granted, outcome: FlightOutcome) -> tuple[World, bool]:
        key = ("publish", world.entry, world.now, name, grant, outcome.kind, outcome.body)
        after, stored, messages = self._run(key, lambda: self._publish(world, name, grant, outcome))
        if stored:
            if version_of(outcome.body) < world.settled:
                raise Violation("stored something computed before an invalidation that has returned")
            if outcome.kind == "value":
                if grant.token < world.stored and self.setup.clock_goes_on:
                    raise Violation(f"stored token {grant.token} after token {world.stored}")
                world = world._replace(stored=grant.token)
        return self._deliver(world._replace(entry=after), messages), stored

    def _publish(
        self, world: World, name: str, grant: Granted, outcome: FlightOutcome
    ) -> tuple[int, bool, Messages]:
        before: Entry = self.table[world.entry]
        is_value = outcome.kind == "value"
        lasts = {"value": 10**6, "failure": int(self.setup.policy.error_ttl * 1000), "pass": 10**6}
        publication = Publication(
            flight=name,
            token=grant.token,
            epoch=grant.epoch,
            outcome=outcome.kind,
            body=b"" if outcome.kind == "pass" else outcome.body,
            total_ms=lasts[outcome.kind],
            stale_ms=10 if is_value else 0,
            record_ms=self.record_ms,
            inline_bytes=self.inline_bytes,
            let_through=not grant.leased,
        )
        after, stored, messages = self.core.publish(before, publication, now_us=world.now)
        if stored and before.record is not None and grant.token < before.record.fence:
            raise Violation("stored a token older than the fence")
        if stored and before.value is not None and grant.token < before.value.token:
            raise Violation("replaced a newer value by an older one")
        if before.lease is not None and before.lease.owner != name and after.lease != before.lease:
            raise Violation("publish took away somebody else's lease")
        return self.table.id(after), stored, messages

    # --- invalidate ------------------------------------------------------------------------------

    def invalidate(self, world: World) -> World:
        key = ("invalidate", world.entry, world.now, world.epochs)
        after, fence, messages, created = self._run(key, lambda: self._invalidate(world))
        if fence <= world.issued and self.setup.clock_goes_on:
            raise Violation(
                f"an invalidation raised the fence to {fence}, but {world.issued} was issued before"
            )
        issued = max(world.issued, fence)
        return self._deliver(
            world._replace(entry=after, epochs=world.epochs + created, issued=issued), messages
        )

    def _invalidate(self, world: World) -> tuple[int, int, Messages, bool]:
        before: Entry = self.table[world.entry]
        epoch = f"e{world.epochs}"
        after, fence, messages = self.core.invalidate(
            before, now_us=world.now, epoch=epoch, record_ms=self.record_ms
        )
        if after.lease != before.lease:
            raise Violation("an invalidation took away a lease")
        return self.table.id(after), fence, messages, after.record is not None and after.record.epoch == epoch

    # --- release, renew, fallback ----------------------------------------------------------------

    def release(self, world: World, name: str) -> World:
        key = ("release", world.entry, world.now, name)
        after, messages = self._run(key, lambda: self._release(world, name))
        return self._deliver(world._replace(entry=after), messages)

    def _release(self, world: World, name: str) -> tuple[int, Messages]:
        before: Entry = self.table[world.entry]
        after, _, messages = self.core.release(before, name, now_us=world.now)
        return self.table.id(after), messages

    def renew(self, world: World, renewal: Renewal) -> tuple[World, bool]:
        entry, held = self.core.renew(
            self.table[world.entry], renewal, now_us=world.now, listening=self.listening(world)
        )
        return world._replace(entry=self.table.id(entry)), held

    def renewal(self, name: str, token: int, inbox: str) -> Renewal:
        return Renewal(name, token, inbox, self.lease_ms, self.record_ms)

    def fallback(self, world: World, name: str) -> tuple[World, Found | Granted | Denied]:
        epoch = f"e{world.epochs}"
        ask = FallbackAsk(name, epoch, self.setup.policy.fallback_limit, SLOTS_MS, self.record_ms)
        entry, answer = self.core.fallback(self.table[world.entry], ask, now_us=world.now)
        if isinstance(answer, Granted):
            world = self._note_new_token(world, answer)
        if isinstance(answer, Denied):
            slots = self.table[world.entry].slots
            others = [slot for slot in slots if in_time(slot.expires_us, slot.total_ms, world.now)]
            if len(others) < ask.limit:
                raise Violation("a fallback was denied a place although there is room")
        created = entry.record is not None and entry.record.epoch == epoch
        return world._replace(entry=self.table.id(entry), epochs=world.epochs + created), answer

    def stamp(self, world: World) -> tuple[World, Granted]:
        epoch, before = f"e{world.epochs}", self.table[world.entry]
        entry, granted = self.core.stamp(before, epoch=epoch, now_us=world.now, record_ms=self.record_ms)
        if (entry.value, entry.lease) != (before.value, before.lease):
            raise Violation("a stamp changed more than the record")
        created = entry.record is not None and entry.record.epoch == epoch
        world = self._note_new_token(world, granted)
        return world._replace(entry=self.table.id(entry), epochs=world.epochs + created), granted

    # --- loss ------------------------------------------------------------------------------------

    def without(self, world: World, **parts: Any) -> World:
        """The entry after an eviction. The clock goes on past every token: no server evicts in a microsecond."""
        entry = replace(self.table[world.entry], **parts)
        now = world.now
        if self.setup.clock_goes_on and "record" in parts:
            now = max(now, world.issued) + 10
        return world._replace(entry=self.table.id(entry), now=now)

    def _deliver(self, world: World, messages: Messages) -> World:
        """Put messages on their way to the inboxes that are subscribed right now."""
        if not messages:
            return world
        processes = list(world.processes)
        for inbox, message in messages:
            number = int(inbox[1:])
            process = processes[number]
            if process.hears:
                processes[number] = process._replace(inbox=(*process.inbox, self.table.id(message)))
        return world._replace(processes=tuple(processes))
