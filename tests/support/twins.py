"""The pure scripts and the Lua scripts, side by side: every step is taken in both worlds and compared.

Tokens come from two clocks, so they are compared by their order: what is smaller in one world is smaller in the other.
Lifetimes are minutes and pass only when a step says so; epochs are given from outside and must be equal.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import redis

from stampede_guard.core import scripts, tags
from stampede_guard.core.entry import EMPTY, Entry, Reading, Slot, prune
from stampede_guard.core.scripts import (
    Ask,
    Denied,
    FailedRecently,
    FallbackAsk,
    Found,
    Granted,
    Held,
    Message,
    Messages,
    Publication,
    Renewal,
    Uncacheable,
)
from stampede_guard.stores.connections.wire import (
    HEADER,
    changes_channel,
    entry_keys,
    parse_answer,
    parse_message,
    parse_value,
    value_bytes,
)
from tests.support.backends import PARTS

__all__ = ["DEAD", "INLINE", "LIVE", "LIVES", "SCRIPTS", "Token", "Worlds"]

SCRIPTS = (
    "read",
    "acquire",
    "renew",
    "publish",
    "invalidate",
    "release",
    "admits",
    "stamp",
    "fallback",
    "tag",
    "drop_tag",
)
LIVE = ("inbox-a", "stampede_guard:inbox:tb")
"""The second belongs to a process that understands traces, the first to one of an older version."""
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
DEAD = "inbox-dead"
LEASE, RECORD, TAKEOVER, SLOT, INLINE = 600_000, 3_600_000, 100_000, 900_000, 8
LIVES = (SLOT, 3 * SLOT)
"""How long the slots of two processes last: they have other policies."""
LET_THROUGH = 2
SLACK_MS = 60_000
"""Lifetimes may differ by this much: real time passes between the steps of one world only."""


@dataclass(frozen=True)
class Token:
    """One grant or fence, as each world numbers it."""

    pure: int
    real: int
    epoch: str = ""


class Worlds:
    """The pure entry and the stored one, side by side."""

    def __init__(self, client: redis.Redis, pubsub: Any, texts: dict[str, Any], name: str) -> None:
        self.client, self.pubsub, self.texts, self.name = client, pubsub, texts, name
        self.keys = entry_keys(name)
        self.channel = changes_channel(name)
        self.changes: list[int] = []
        self.entry: Entry = EMPTY
        self.now_us = 1_000_000_000_000_000
        self.tokens: list[Token] = [Token(1, 1, "no such epoch")]
        self.own: dict[str, Token] = {}
        self.through: set[str] = set()
        """Flights whose last grant came without a lease."""
        self.order: set[tuple[int, int]] = {(0, 0), (1, 1)}
        self.epochs = itertools.count()
        self.stepped = False

    # --- both worlds at once ----------------------------------------------------------------------

    def run(self, step: tuple[Any, ...]) -> None:
        self.now_us += 1_000
        getattr(self, step[0])(*step[1:])
        self.compare_state()
        by_pure, by_real = sorted(self.order), sorted(self.order, key=lambda pair: pair[1])
        assert by_pure == by_real, "tokens are ordered differently"
        assert (
            len({pure for pure, _ in self.order}) == len({real for _, real in self.order}) == len(self.order)
        )

    def script(self, name: str, *args: Any) -> Any:
        keys = self.keys[:1] if name == "read" else self.keys
        return self.texts[name](keys=list(keys), args=list(args))

    def same_token(self, pure: int, real: int) -> None:
        self.order.add((pure, real))

    def same_messages(self, expected: Messages) -> None:
        heard = self.heard()
        wanted = [(inbox, message) for inbox, message in expected if inbox in LIVE]
        assert sorted(inbox for inbox, _ in wanted) == sorted(inbox for inbox, _ in heard)
        for inbox, message in wanted:
            other = dict(heard)[inbox]
            self.same_token(message.token, other.token)
            assert (message.kind, message.body) == (other.kind, other.body)
            assert other.trace == ("" if inbox == LIVE[0] else message.trace)
            self.same_reading(message.reading, other.reading)

    def same_reading(self, pure: Reading | None, real: Reading | None) -> None:
        if pure is None or real is None:
            assert pure is real
            return
        self.same_token(pure.token, real.token)
        assert (pure.body, pure.total_ms, pure.stale_ms) == (real.body, real.total_ms, real.stale_ms)
        assert pure.took_ms == real.took_ms
        assert abs(pure.remaining_ms - real.remaining_ms) < SLACK_MS

    def same_answer(self, pure: Any, raw: Any, flight: str) -> None:
        real: Any = parse_answer(raw)
        assert type(pure) is type(real), (pure, real)
        match pure:
            case Found(reading):
                self.same_reading(reading, real.reading)
            case FailedRecently(body, token):
                assert body == real.body
                self.same_token(token, real.token)
            case Granted():
                self._granted(pure, real, flight)
                self.through.discard(flight)
            case Uncacheable(grant):
                self._granted(grant, real.grant, flight)
                self.through.add(flight)
            case Held(fence, suspect):
                assert (suspect, pure.first) == (real.suspect, real.first)
                self.same_token(fence, real.fence)
            case Denied():
                pass

    def _granted(self, pure: Granted, real: Granted, flight: str) -> None:
        assert (pure.epoch, pure.leased) == (real.epoch, real.leased)
        self.same_token(pure.token, real.token)
        self.same_token(pure.replaces, real.replaces)
        self.own[flight] = Token(pure.token, real.token, pure.epoch)
        self.tokens.append(self.own[flight])

    def heard(self) -> list[tuple[str, Message]]:
        """What the live inboxes have been sent by now: a PING behind the step brings it all."""
        heard = []
        self.changes = []
        self.pubsub.connection.send_command("PING")
        while (reply := self.pubsub.parse_response())[0] != b"pong":
            if reply[0] != b"message":
                continue
            parsed = parse_message(reply[2])
            assert parsed is not None and parsed[0] == self.name
            if reply[1] == self.channel:
                self.changes.append(parsed[1].token)
            else:
                assert not self.changes, "those who wait are told first"
                heard.append((reply[1].decode(), parsed[1]))
        return heard

    # --- the steps --------------------------------------------------------------------------------

    def _pick(self, pick: int) -> Token:
        return self.tokens[-1 - pick % len(self.tokens)]

    def read(self) -> None:
        pure = scripts.read(self.entry, now_us=self.now_us)
        self.same_reading(pure, parse_value(*self.script("read")))

    def acquire(self, flight: str, inbox: str, newer: int | None) -> None:
        than = Token(0, 0) if newer is None else self._pick(newer)
        epoch = f"epoch-{next(self.epochs)}"
        ask = Ask(flight, inbox, epoch, LEASE, RECORD, TAKEOVER, than.pure, LET_THROUGH, SLOT)
        self.entry, pure = scripts.acquire(self.entry, ask, now_us=self.now_us, listening=frozenset(LIVE))
        args = (flight, inbox, epoch, LEASE, RECORD, TAKEOVER, than.real, LET_THROUGH, SLOT)
        raw = self.script("acquire", *args)
        self.same_answer(pure, raw, flight)

    def renew(self, flight: str, pick: int, inbox: str) -> None:
        self._renew(flight, self._pick(pick), inbox)

    def renew_own(self, flight: str, inbox: str) -> None:
        self._renew(flight, self.own.get(flight, self.tokens[0]), inbox)

    def _renew(self, flight: str, token: Token, inbox: str) -> None:
        renewal = Renewal(flight, token.pure, inbox, LEASE, RECORD)
        self.entry, pure = scripts.renew(self.entry, renewal, now_us=self.now_us, listening=frozenset(LIVE))
        assert pure == bool(self.script("renew", flight, token.real, inbox, LEASE, RECORD))

    def publish(self, flight: str, pick: int, outcome: str, size: int) -> None:
        self._publish(flight, self._pick(pick), outcome, size)

    def publish_own(self, flight: str, outcome: str, size: int) -> None:
        self._publish(flight, self.own.get(flight, self.tokens[0]), outcome, size)

    def _publish(self, flight: str, token: Token, outcome: str, size: int) -> None:
        body = b"x" * size if outcome != "pass" else b""
        total, stale = (500_000, 0) if outcome != "value" else (1_500_000, 700_000)
        through, took = flight in self.through, 1 + 17 * size
        publication = Publication(
            flight,
            token.pure,
            token.epoch,
            outcome,
            body,
            total,
            stale,
            RECORD,
            INLINE,  # type: ignore[arg-type]
            let_through=through,
            took_ms=took,
            trace=TRACE,
        )
        outdates = scripts.replaces_fresh(self.entry, publication, now_us=self.now_us)
        self.entry, pure, messages = scripts.publish(self.entry, publication, now_us=self.now_us)
        if outcome == "value":
            body = value_bytes(body, token=token.real, total_ms=total, stale_ms=stale, took_ms=took)
        inline = INLINE + HEADER
        args = (flight, token.real, token.epoch, outcome, body, total, RECORD, inline, self.name)
        raw = self.script("publish", *args, int(through), self.channel, 0, 0, TRACE)
        assert pure == bool(raw)
        self.same_messages(messages)
        assert self.changes == ([token.real] if pure and outdates else [])

    def invalidate(self) -> None:
        epoch = f"epoch-{next(self.epochs)}"
        self.entry, pure, messages = scripts.invalidate(
            self.entry, now_us=self.now_us, epoch=epoch, record_ms=RECORD
        )
        real = int(self.script("invalidate", epoch, RECORD, self.name, self.channel))
        self.same_token(pure, real)
        self.tokens.append(Token(pure, real, epoch))
        self.same_messages(messages)
        assert self.changes == [real]

    def release(self, flight: str) -> None:
        self.entry, pure, messages = scripts.release(self.entry, flight, now_us=self.now_us)
        assert pure == bool(self.script("release", flight, self.name))
        self.same_messages(messages)

    def admits(self, token: int) -> None:
        asked = self._pick(token)
        record = prune(self.entry, self.now_us).record
        pure = record is not None and record.admits(asked.epoch, asked.pure)
        assert pure == bool(self.script("admits", asked.real, asked.epoch))
        self.same_messages(())

    def stamp(self, flight: str) -> None:
        epoch = f"epoch-{next(self.epochs)}"
        self.entry, pure = scripts.stamp(self.entry, epoch=epoch, now_us=self.now_us, record_ms=RECORD)
        self.same_answer(pure, self.script("stamp", epoch, RECORD), flight)
        self.same_messages(())

    def fallback(self, flight: str, limit: int, newer: int | None = None, slot: int = SLOT) -> None:
        than = Token(0, 0) if newer is None else self._pick(newer)
        epoch = f"epoch-{next(self.epochs)}"
        ask = FallbackAsk(flight, epoch, limit, slot, RECORD, than.pure)
        self.entry, pure = scripts.fallback(self.entry, ask, now_us=self.now_us)
        raw = self.script("fallback", flight, epoch, limit, slot, RECORD, than.real)
        self.same_answer(pure, raw, flight)

    def older_slot(self, flight: str) -> None:
        """A process of an older version takes a slot: it does not say how long it was given."""
        self.release(flight)
        entry = prune(self.entry, self.now_us)
        self.entry = replace(entry, slots=(*entry.slots, Slot(flight, self.now_us + SLOT * 1000)))
        if self.client.type(self.keys[5]) != b"zset":
            self.client.delete(self.keys[5])
        seconds, _ = self.client.time()
        self.client.zadd(self.keys[5], {flight: (seconds * 1000 + SLOT) * 1000})
        self.client.pexpire(self.keys[5], max(SLOT, self.client.pttl(self.keys[5])))

    def tag(self, ms: int) -> None:
        """The entry's name taken for that of a tag."""
        version = b"version %08d" % next(self.epochs)
        self.entry, pure = tags.ensure(self.entry, version, now_us=self.now_us, ms=ms)
        stored = self.script("tag", value_bytes(version, token=1, total_ms=ms, stale_ms=0), ms)
        reading = parse_value(stored, 0)
        assert reading is not None and reading.body == pure
        assert self.entry.value is not None
        self.same_time(self.keys[0], self.entry.value.expires_us)

    def drop_tag(self) -> None:
        self.entry = tags.drop(self.entry)
        self.script("drop_tag", self.name, self.channel)
        self.same_messages(())
        assert len(self.changes) == 1

    # --- what happens to both ---------------------------------------------------------------------

    def age(self, seconds: int) -> None:
        self.now_us += seconds * 1_000_000
        _, _, _, lease, waiters, slots = self.keys
        for flight, score in self._slots().items():
            self.client.zadd(slots, {flight: score - seconds * 1_000_000})
        missing = self._hash(lease).get("missing")
        if missing is not None:
            self.client.hset(lease, "missing", str(int(missing) - seconds * 1_000_000))
        for key in self.keys:
            left = self.client.pttl(key)
            if left >= 0:
                self.client.pexpire(key, left - seconds * 1000)
        if not self.client.exists(waiters):
            self.entry = replace(self.entry, waiters=frozenset())

    def evict(self, part: str) -> None:
        self.client.delete(self.keys[PARTS.index(part)])
        self._forget(part)

    def spoil(self, part: str) -> None:
        """Somebody else's key under our name: for us there is nothing."""
        key = self.keys[PARTS.index(part)]
        self.client.delete(key)
        self.client.rpush(key, "not ours")
        self.client.pexpire(key, 10_000_000)
        self._forget(part)

    def _forget(self, part: str) -> None:
        gone: Any = {"waiters": frozenset(), "slots": ()}.get(part)
        self.entry = replace(self.entry, **{part: gone})

    def stretch(self) -> None:
        """The clock has stepped: the value has more time than it was given."""
        if self.entry.value is not None and prune(self.entry, self.now_us).value is not None:
            self.client.pexpire(self.keys[0], 2_500_000)
            value = replace(self.entry.value, expires_us=self.now_us + 2_500_000_000)
            self.entry = replace(self.entry, value=value)

    def stretch_rest(self) -> None:
        """And so have failure, lease and slots."""
        entry, more = prune(self.entry, self.now_us), 2_000_000
        changes: dict[str, Any] = {}
        if entry.failure is not None:
            self.client.pexpire(self.keys[1], more)
            changes["failure"] = replace(entry.failure, expires_us=self.now_us + more * 1000)
        if entry.lease is not None:
            self.client.pexpire(self.keys[3], more)
            changes["lease"] = replace(entry.lease, expires_us=self.now_us + more * 1000)
        if entry.slots:
            seconds, _ = self.client.time()
            for flight in self._live_slots():
                self.client.zadd(self.keys[5], {flight: seconds * 1_000_000 + more * 1000})
            self.client.pexpire(self.keys[5], more)
            changes["slots"] = tuple(
                replace(slot, expires_us=self.now_us + more * 1000) for slot in entry.slots
            )
        self.entry = replace(entry, **changes)

    def step_back(self) -> None:
        """The server's clock is set back by days: every token is from the future."""
        days = 1_000_000_000_000
        if self.stepped:
            return
        self.stepped = True
        entry = prune(self.entry, self.now_us)
        changes: dict[str, Any] = {}
        if entry.value is not None and (stored := self._string(self.keys[0])):
            changes["value"] = replace(entry.value, token=entry.value.token + days)
            self.client.set(
                self.keys[0], stored[:3] + b"%016d" % (int(stored[3:19]) + days) + stored[19:], keepttl=True
            )
        if entry.failure is not None and (stored := self._string(self.keys[1])):
            changes["failure"] = replace(entry.failure, token=entry.failure.token + days)
            later_token = b"%016d" % (int(stored[1:17]) + days)
            self.client.set(self.keys[1], stored[:1] + later_token + stored[17:], keepttl=True)
        if entry.record is not None:
            last, fence = entry.record.last + days, entry.record.fence + days
            changes["record"] = replace(entry.record, last=last, fence=fence)
            self.client.hincrby(self.keys[2], "last", days)
            self.client.hincrby(self.keys[2], "fence", days)
        if entry.lease is not None:
            changes["lease"] = replace(entry.lease, token=entry.lease.token + days)
            self.client.hincrby(self.keys[3], "token", days)
        self.entry = replace(self.entry, **changes)
        later = {
            id(token): replace(token, pure=token.pure + days, real=token.real + days)
            for token in self.tokens[1:]
        }
        later[id(self.tokens[0])] = self.tokens[0]
        self.own = {flight: later[id(token)] for flight, token in self.own.items()}
        self.tokens = [later[id(token)] for token in self.tokens]
        self.order = {(0, 0), *((token.pure, token.real) for token in self.tokens)}

    def die(self) -> None:
        """The holder's process is gone: its inbox was heard of once and is not any more."""
        self._rename_inbox(DEAD)

    def revive(self) -> None:
        """It is heard of again."""
        self._rename_inbox("inbox-a")

    def _rename_inbox(self, inbox: str) -> None:
        lease = prune(self.entry, self.now_us).lease
        if lease is not None and lease.inbox:
            self.client.hset(self.keys[3], "inbox", inbox)
            self.entry = replace(self.entry, lease=replace(lease, inbox=inbox))

    # --- what is stored ---------------------------------------------------------------------------

    def _hash(self, key: bytes) -> dict[str, str]:
        if self.client.type(key) != b"hash":
            return {}
        return {name.decode(): value.decode() for name, value in self.client.hgetall(key).items()}

    def _string(self, key: bytes) -> bytes | None:
        found = self.client.get(key) if self.client.type(key) == b"string" else None
        assert found is None or isinstance(found, bytes)
        return found

    def _slots(self) -> dict[str, float]:
        if self.client.type(self.keys[5]) != b"zset":
            return {}
        return {
            flight.decode(): score
            for flight, score in self.client.zrange(self.keys[5], 0, -1, withscores=True)
        }

    def _live_slots(self) -> set[str]:
        """Slots whose time is over are removed when the script looks next, and count for nothing until then."""
        seconds, _ = self.client.time()
        return {member for member, score in self._slots().items() if score > seconds * 1_000_000}

    def compare_state(self) -> None:
        assert all(self.client.pttl(key) != -1 for key in self.keys), "something would stay for ever"
        entry = prune(self.entry, self.now_us)
        value_key, failure_key, record_key, lease_key, waiters_key, _ = self.keys
        reading = None if entry.value is None else entry.value.reading(self.now_us)
        self.same_reading(reading, parse_value(self._string(value_key), self.client.pttl(value_key)))
        failure = self._string(failure_key)
        assert (entry.failure is None) == (failure is None)
        if entry.failure is not None and failure is not None:
            assert failure[:1] == (b"P" if entry.failure.passes else b"F")
            self.same_token(entry.failure.token, int(failure[1:17]))
            assert (entry.failure.total_ms, entry.failure.body) == (int(failure[17:29]), failure[29:])
            self.same_time(failure_key, entry.failure.expires_us)
        self.compare_record(record_key, entry)
        self.compare_lease(lease_key, entry)
        waiters = self.client.smembers(waiters_key) if self.client.type(waiters_key) == b"set" else set()
        assert entry.waiters == {inbox.decode() for inbox in waiters}
        assert {
            f"{slot.owner} {slot.total_ms}" if slot.total_ms else slot.owner for slot in entry.slots
        } == self._live_slots()

    def compare_record(self, key: bytes, entry: Entry) -> None:
        record, stored = entry.record, self._hash(key)
        assert (record is None) == (not stored), (record, stored)
        if record is not None:
            assert stored["epoch"] == record.epoch
            self.same_token(record.last, int(stored["last"]))
            self.same_token(record.fence, int(stored["fence"]))
            self.same_time(key, record.expires_us)

    def compare_lease(self, key: bytes, entry: Entry) -> None:
        lease, stored = entry.lease, self._hash(key)
        assert (lease is None) == (not stored), (lease, stored)
        if lease is not None:
            assert (lease.owner, lease.epoch, lease.inbox) == (
                stored["owner"],
                stored["epoch"],
                stored["inbox"],
            )
            assert lease.total_ms == int(stored["ms"])
            assert (lease.missing_since_us is None) == ("missing" not in stored)
            self.same_token(lease.token, int(stored["token"]))
            self.same_time(key, lease.expires_us)

    def same_time(self, key: bytes, expires_us: int) -> None:
        assert abs(self.client.pttl(key) - (expires_us - self.now_us) // 1000) < SLACK_MS
