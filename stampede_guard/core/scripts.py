"""The atomic steps on one entry. `stores/lua/*.lua` are their twins, and tests compare them with these functions.

Each step takes the entry and the store's time. It returns the new entry, a reply for the asker, and the messages to
publish. Messages come last: a waiter that gets one finds the writes done.
"""

from __future__ import annotations

from dataclasses import replace

from stampede_guard.core.asks import (
    Answer,
    Ask,
    Denied,
    FailedRecently,
    FallbackAsk,
    Found,
    Granted,
    Held,
    Message,
    Messages,
    Outcome,
    Publication,
    Renewal,
    Uncacheable,
)
from stampede_guard.core.entry import Entry, Failure, Lease, Reading, Record, Slot, Value, in_time, prune

__all__ = [
    "Answer",
    "Ask",
    "Denied",
    "FailedRecently",
    "FallbackAsk",
    "Found",
    "Granted",
    "Held",
    "Message",
    "Messages",
    "Outcome",
    "Uncacheable",
    "Publication",
    "Renewal",
    "acquire",
    "fallback",
    "invalidate",
    "publish",
    "read",
    "release",
    "renew",
    "replaces_fresh",
    "stamp",
]


# --- the steps ------------------------------------------------------------------------------------


def read(entry: Entry, *, now_us: int) -> Reading | None:
    """The value with its remaining time, fresh or stale. It writes nothing."""
    value = prune(entry, now_us).value
    return None if value is None else value.reading(now_us)


def acquire(entry: Entry, ask: Ask, *, now_us: int, listening: frozenset[str] | None) -> tuple[Entry, Answer]:
    """Read again. Only if there is still no fresh value: grant the lease, or join the waiters.

    `listening` are the inboxes with a subscriber, or None if that is unknown.
    """
    entry = prune(entry, now_us)
    # The re-read. Without it: 1. A reads a miss. 2. B computes and publishes; its lease is gone. 3. A acquires the
    # free lease and computes a second time.
    if entry.value is not None and entry.value.is_fresh(now_us) and entry.value.token > ask.newer_than:
        return entry, Found(entry.value.reading(now_us))
    failure = entry.failure
    if failure is not None and entry.record is not None and failure.token < entry.record.fence:
        failure = None
    if failure is not None and not in_time(failure.expires_us, failure.total_ms, now_us):
        failure = None
    if failure is not None and not failure.passes:
        return entry, FailedRecently(failure.body, failure.token, (failure.expires_us - now_us) // 1000)
    record = entry.record or _new_record(entry, ask.epoch, now_us)
    record = replace(record, expires_us=max(record.expires_us, now_us + ask.record_ms * 1000))
    lease = entry.lease
    if lease is not None and lease.owner == ask.flight:
        # The reply to an earlier ask was lost. The same grant is answered while it could still be published. It
        # gets its whole time again: the asker is alive, and will compute only now.
        if lease.epoch == record.epoch and lease.token >= record.fence:
            lease = _renewed(lease, ask.inbox, ask.lease_ms, now_us=now_us, listening=listening)
            return replace(entry, record=record, lease=lease), Granted(lease.token, lease.epoch)
        lease = None
    if failure is not None:
        return _let_pass(replace(entry, lease=lease), record, ask, now_us)
    if lease is not None:
        looked = _look_at(lease, ask, now_us=now_us, listening=listening)
        if looked is not None:
            suspect = looked.missing_since_us is not None
            first = suspect and lease.missing_since_us is None
            entry = replace(entry, record=record, lease=looked)
            if ask.inbox and ask.inbox not in entry.waiters:
                entry = replace(entry, waiters=entry.waiters | {ask.inbox})
            return entry, Held(record.fence, suspect, record.last, first)
    token = max(entry.highest_token + 1, record.last + 1, now_us)
    inbox = _confirmed(ask.inbox, listening)
    expires_us = now_us + ask.lease_ms * 1000
    granted = Lease(ask.flight, token, record.epoch, inbox, expires_us, total_ms=ask.lease_ms)
    answer = Granted(token, record.epoch, entry.value.token if entry.value is not None else 0)
    return replace(entry, record=replace(record, last=token), lease=granted), answer


def _let_pass(entry: Entry, record: Record, ask: Ask, now_us: int) -> tuple[Entry, Answer]:
    """Callers do not wait for a value that will not be stored; but only a limited number compute at once."""
    # 1. A holds the lease and computes a value that may not be stored; B, C and D wait. 2. They wake and ask: B
    #    gets the lease and computes, C and D wait for it. 3. So the last of a thousand processes would wait for a
    #    thousand computations. Slots replace the lease here: a flight that finds all slots taken is woken when any
    #    slot is released.
    entry = _in_time_slots(entry, now_us)
    others = tuple(slot for slot in entry.slots if slot.owner != ask.flight)
    if len(others) >= ask.uncacheable_limit:
        waiters = entry.waiters | {ask.inbox} if ask.inbox else entry.waiters
        return replace(entry, record=record, waiters=waiters), Held(record.fence, False, record.last)
    token = max(entry.highest_token + 1, record.last + 1, now_us)
    slots = (*others, Slot(ask.flight, now_us + ask.uncacheable_ms * 1000, ask.uncacheable_ms))
    replaces = entry.value.token if entry.value is not None else 0
    answer = Uncacheable(Granted(token, record.epoch, replaces, leased=False))
    return replace(entry, record=replace(record, last=token), slots=slots), answer


def _in_time_slots(entry: Entry, now_us: int) -> Entry:
    """Without the slots that have more time left than they were given: the server's clock was set back.

    Each slot keeps its own time. 1. A new version, with a longer `fallback_timeout`, takes the only slot. 2. A process
    of the old version asks. By its own time, the slot would be from before a step of the clock. 3. Two would compute.
    """
    return replace(
        entry, slots=tuple(slot for slot in entry.slots if in_time(slot.expires_us, slot.total_ms, now_us))
    )


def renew(
    entry: Entry, renewal: Renewal, *, now_us: int, listening: frozenset[str] | None = None
) -> tuple[Entry, bool]:
    """Extend the lease if it is still this flight's. It never creates one. False = the lease is lost."""
    entry = prune(entry, now_us)
    lease = entry.lease
    if lease is None or lease.owner != renewal.flight or lease.token != renewal.token:
        return entry, False
    record = entry.record
    if record is not None:
        record = replace(record, expires_us=max(record.expires_us, now_us + renewal.record_ms * 1000))
    lease = _renewed(lease, renewal.inbox, renewal.lease_ms, now_us=now_us, listening=listening)
    return replace(entry, lease=lease, record=record), True


def publish(entry: Entry, publication: Publication, *, now_us: int) -> tuple[Entry, bool, Messages]:
    """Store the outcome unless it is too old. Stored or refused, release the lease or slot and wake the waiters."""
    entry = prune(entry, now_us)
    record = entry.record
    stored = (
        record is not None
        and record.admits(publication.epoch, publication.token)
        and (entry.value is None or publication.token >= entry.value.token)
    )
    message = Message("again", publication.token)
    if stored and record is not None:
        entry, message = _store(entry, record, publication, now_us)
    if publication.let_through or (stored and publication.outcome != "failure"):
        entry = _drop_slot(entry, publication.flight)
    entry = _drop_lease(entry, publication.flight, publication.token)
    messages = _announce(entry, message)
    return replace(entry, waiters=frozenset()), stored, messages


def replaces_fresh(entry: Entry, publication: Publication, *, now_us: int) -> bool:
    """Whether this value, if stored, replaces a fresh one: processes may have copies of that one."""
    value = prune(entry, now_us).value
    return publication.outcome == "value" and value is not None and value.is_fresh(now_us)


def invalidate(entry: Entry, *, now_us: int, epoch: str, record_ms: int) -> tuple[Entry, int, Messages]:
    """Delete the stored value and raise the fence: no computation that began before this can be stored.

    Returns the new fence. The lease stays with its owner: callers wait for a fenced holder and do not replace it.
    """
    entry = prune(entry, now_us)
    record = entry.record or _new_record(entry, epoch, now_us)
    fence = max(entry.highest_token + 1, record.last + 1, now_us)
    expires_us = max(record.expires_us, now_us + record_ms * 1000)
    record = replace(record, last=fence, fence=fence, expires_us=expires_us)
    messages = _announce(entry, Message("again", fence))
    return replace(entry, value=None, failure=None, record=record, waiters=frozenset()), fence, messages


def release(entry: Entry, flight: str, *, now_us: int) -> tuple[Entry, bool, Messages]:
    """Release the lease, or the slot, without an outcome. Only its owner can."""
    before = prune(entry, now_us)
    lease = before.lease
    entry = _drop_slot(before, flight)
    if lease is not None and lease.owner == flight:
        entry = replace(entry, lease=None)
    if entry == before:
        return before, False, ()
    messages = _announce(entry, Message("again", lease.token if lease is not None else 0))
    return replace(entry, waiters=frozenset()), True, messages


def fallback(entry: Entry, ask: FallbackAsk, *, now_us: int) -> tuple[Entry, Found | Granted | Denied]:
    """A separate token beside the holder's lease, for at most `limit` flights at once."""
    entry = prune(entry, now_us)
    if entry.value is not None and entry.value.is_fresh(now_us) and entry.value.token > ask.newer_than:
        return entry, Found(entry.value.reading(now_us))
    entry = _in_time_slots(entry, now_us)
    others = tuple(slot for slot in entry.slots if slot.owner != ask.flight)
    if len(others) >= ask.limit:
        return entry, Denied()
    record = entry.record or _new_record(entry, ask.epoch, now_us)
    token = max(entry.highest_token + 1, record.last + 1, now_us)
    expires_us = max(record.expires_us, now_us + ask.record_ms * 1000)
    record = replace(record, last=token, expires_us=expires_us)
    slots = (*others, Slot(ask.flight, now_us + ask.slot_ms * 1000, ask.slot_ms))
    return replace(entry, record=record, slots=slots), Granted(token, record.epoch)


def stamp(entry: Entry, *, epoch: str, now_us: int, record_ms: int) -> tuple[Entry, Granted]:
    """A token for a value that a caller has already. It takes no lease: the holder goes on, and is outdated."""
    # Why a token before the value, and not both in one step: 1. A stores a value in one step, and gets no answer. 2. A
    # changes the data and invalidates. 3. The store carries out the first step only now: the old value is back. With a
    # token from before, the publication in 3 is below the fence.
    entry = prune(entry, now_us)
    record = entry.record or _new_record(entry, epoch, now_us)
    token = max(entry.highest_token + 1, record.last + 1, now_us)
    record = replace(record, last=token, expires_us=max(record.expires_us, now_us + record_ms * 1000))
    return replace(entry, record=record), Granted(token, record.epoch)


def _new_record(entry: Entry, epoch: str, now_us: int) -> Record:
    # The fence starts at the highest number seen. A message that was under way when the old record vanished carries
    # a smaller token, and later askers ignore it.
    last = max(entry.highest_token, now_us)
    return Record(epoch, last=last, fence=last, expires_us=now_us)


def _confirmed(inbox: str, listening: frozenset[str] | None) -> str:
    # 1. The store restarts, or fails over; no process has noticed that its subscription is gone. 2. A gets the
    #    lease and names an inbox without a listener. 3. B finds it missing twice and takes over, then C from B, and
    #    so on: one computation per takeover gap. So the store checks an inbox before it writes down its name.
    return inbox if listening is None or inbox in listening else ""


def _renewed(
    lease: Lease, inbox: str, lease_ms: int, *, now_us: int, listening: frozenset[str] | None
) -> Lease:
    deadline = now_us + lease_ms * 1000
    inbox = _confirmed(inbox, listening)
    return replace(lease, inbox=inbox, expires_us=deadline, missing_since_us=None, total_ms=lease_ms)


def _look_at(lease: Lease, ask: Ask, *, now_us: int, listening: frozenset[str] | None) -> Lease | None:
    """The lease after one more check of its owner; None if the owner is gone and the lease may be taken over."""
    if not in_time(lease.expires_us, lease.total_ms, now_us):
        # 1. A gets the lease for three seconds, and dies. 2. The server's clock steps an hour back. 3. B would wait
        #    for an hour. If A is alive after all, the step costs one more computation, as any fault may.
        return None
    if not lease.inbox or listening is None:
        return replace(lease, missing_since_us=None)
    if lease.inbox in listening:
        return replace(lease, missing_since_us=None)
    if lease.missing_since_us is None:
        return replace(lease, missing_since_us=now_us)
    if now_us - lease.missing_since_us >= ask.takeover_ms * 1000:
        return None
    return lease


def _store(entry: Entry, record: Record, publication: Publication, now_us: int) -> tuple[Entry, Message]:
    expires_us = now_us + publication.total_ms * 1000
    record = replace(record, expires_us=max(record.expires_us, now_us + publication.record_ms * 1000))
    body, token = publication.body, publication.token
    if publication.outcome != "value":
        passes = publication.outcome == "pass"
        message = (
            Message("again", token)
            if passes
            else Message("failure", token, body=body, trace=publication.trace)
        )
        if publication.total_ms > 0:
            failure = Failure(body, token, expires_us, passes, publication.total_ms)
            entry = replace(entry, failure=failure)
        return replace(entry, record=record), message
    value = Value(body, token, publication.total_ms, publication.stale_ms, expires_us, publication.took_ms)
    entry = replace(entry, record=replace(record, fence=token), value=value, failure=None)
    small = len(body) <= publication.inline_bytes
    reading = value.reading(now_us) if small else None
    return entry, Message("value", token, reading=reading, trace=publication.trace)


def _drop_lease(entry: Entry, flight: str, token: int) -> Entry:
    lease = entry.lease
    if lease is not None and lease.owner == flight and lease.token == token:
        return replace(entry, lease=None)
    return entry


def _drop_slot(entry: Entry, flight: str) -> Entry:
    return replace(entry, slots=tuple(slot for slot in entry.slots if slot.owner != flight))


def _announce(entry: Entry, message: Message) -> Messages:
    return tuple((inbox, message) for inbox in sorted(entry.waiters))
