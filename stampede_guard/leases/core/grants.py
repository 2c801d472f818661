"""The rules of a lease's back end, as pure functions of one row and the back end's own time.

Memory and the simulation run these functions. The Lua of Redis and the SQL of PostgreSQL implement the same rules.
Why they are safe:

* A holder counts `lease_ttl` from before it sent the request, on a clock that is at most rho too slow. The row's
  deadline is counted from when the request was executed, which is later. So belief ends before the row's deadline.
* Therefore a deadline is never shortened while its holder may believe: `ask` and `renew` keep the later one. The
  exceptions are the holder's own request (`release`, `leave`) and an operator's `now`.
* An answer that extends belief (`LeaseGranted`, `Renewed` without `asked_to_leave`) always extends the row. After a
  request to release, the row must not be extended. Then `ask` answers `LeaseHeld` even to the holder itself.
* A token is greater than all earlier ones: `max(last + 1, now in microseconds)`. After a restart without data, the time
  makes it grow. Otherwise `last` does, even if the clock was set back.
* If its holder's process has ended, a lease may pass on before its deadline. The holder must allow this in its request
  (`handed_over`) and name a *witness*: a connection or subscription that shows that its process lives.
  The process has ended: 1. an acquirer asks, and the witness is missing, 2. the holder sends nothing for `GONE_FOR`
  seconds, 3. an acquirer asks again, the witness is still missing, and the lease is free. A renewal between 1 and 3
  ends the doubt. So does a witness that is back: a reconnect does not mean that the process has ended.
  Only the connection is lost: 1. it breaks, but the holder lives, 2. the holder renews at once on another connection,
  without a witness, 3. the deadline decides, as for every holder without a witness.
  One risk remains: the server closed the connection of a live holder, which then cannot reach the server for `GONE_FOR`
  seconds. That holder may still believe when the lease is granted to another. So only runs of jobs use `handed_over`:
  a slot is claimed only once in any case, and the larger token identifies the later writer.
* A clock that was set back would extend deadline, rest and places. So they are cut to the duration that was requested.
  The cut deadline is never before the end of a holder's belief. A clock that was set forward ends leases early. Tokens
  protect against that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stampede_guard.leases.core.queue import CALLED, Queue, ahead, called, joined, live, promoted, without
from stampede_guard.leases.messages import (
    Answer,
    Audit,
    Forced,
    LeaseGranted,
    LeaseHeld,
    LeaseRefused,
    LeaseRequest,
    LeaseView,
    NotForced,
    Owner,
    Renewed,
)

__all__ = [
    "EMPTY",
    "GONE_FOR",
    "LeaseRow",
    "ask",
    "check",
    "force",
    "idle",
    "next_token",
    "release",
    "renew",
    "settled",
    "view",
]

NOBODY = Owner(process="")
GONE_FOR = 3.0
"""The lease passes on after its holder's witness was missing for so many seconds, in at least two requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """What the back end keeps for one name. Times in seconds since 1970 on the back end's clock; 0 = never.

    `last`: the largest token granted. `holder`: empty = not held; then `token`, `owner` and `granted_at` are those of
    the last holder. After `deadline` the lease is not held either. `rests_until`: no grant before this time.
    `witness`: shows the back end that the holder's process lives; empty = unknown. `missing_since`: when an acquirer
    first saw that the witness was missing.
    """

    last: int = 0
    holder: str = ""
    token: int = 0
    owner: Owner = NOBODY
    lease_ttl: float = 0.0
    granted_at: float = 0.0
    renewed_at: float = 0.0
    deadline: float = 0.0
    rest: float = 0.0
    rests_until: float = 0.0
    asked_to_leave: str = ""
    queue: Queue = ()
    witness: str = ""
    missing_since: float = 0.0


EMPTY = LeaseRow()


def settled(row: LeaseRow, now: float) -> LeaseRow:
    """The row as it applies now: without lapsed values, and with no value longer than was requested."""
    held = bool(row.holder) and now < row.deadline
    return replace(
        row,
        holder=row.holder if held else "",
        deadline=min(row.deadline, now + row.lease_ttl) if held else 0.0,
        asked_to_leave=row.asked_to_leave if held else "",
        rests_until=min(row.rests_until, now + row.rest) if row.rest and now < row.rests_until else 0.0,
        queue=live(row.queue, now),
        missing_since=row.missing_since if held and row.missing_since <= now else 0.0,
    )


def _settled_beside_its_queue(row: LeaseRow, now: float) -> LeaseRow:
    """For steps that decide without the queue. They leave lapsed places in it, and so need not read it."""
    return replace(settled(row, now), queue=row.queue)


def idle(row: LeaseRow, now: float) -> bool:
    """Whether the row holds no information except its last token."""
    row = settled(row, now)
    return not row.holder and not row.rests_until and not row.queue


def next_token(last: int, now: float) -> int:
    return max(last + 1, int(now * 1_000_000))


def ask(
    row: LeaseRow, question: LeaseRequest, now: float, *, witness: str = "", gone: bool = False
) -> tuple[LeaseRow, Answer]:
    """Grant the lease if it is free and no live waiter is before the acquirer. A holder that asks gets its token again.

    `witness`: the acquirer's own. `gone`: whether the current holder's witness is missing.
    """
    row = settled(row, now)
    if row.holder == question.holder:
        if row.asked_to_leave:
            return row, LeaseHeld(row.owner, row.token, row.deadline - now)
        return _extended(row, question.lease_ttl, now, witness), LeaseGranted(row.token)
    if row.holder:
        row = doubted(row, now, gone=gone)
    before = ahead(row.queue, question.holder)
    if not row.holder and not row.rests_until and before == 0:
        return _granted(row, question, now, witness)
    row = replace(row, queue=joined(row.queue, question, now))
    place = ahead(row.queue, question.holder)
    queued = place if place < len(row.queue) else -1
    if row.holder:
        until = row.missing_since + GONE_FOR if row.missing_since else row.deadline
        return row, LeaseHeld(row.owner, row.token, min(until, row.deadline) - now, queued)
    if row.rests_until:
        return row, LeaseHeld(row.owner, row.token, row.rests_until - now, queued, resting=True)
    row = replace(row, queue=called(row.queue, now, min(CALLED, before)))
    first = row.queue[0]
    return row, LeaseHeld(first.owner, row.last, first.until - now, queued)


def doubted(row: LeaseRow, now: float, *, gone: bool) -> LeaseRow:
    """The row after an acquirer checked its holder's witness. If that was missing for `GONE_FOR`, the lease is free."""
    if not row.witness or not gone:
        return replace(row, missing_since=0.0)
    if not row.missing_since:
        return replace(row, missing_since=now)
    if now - row.missing_since < GONE_FOR:
        return row
    return replace(row, holder="", deadline=0.0, asked_to_leave="", witness="", missing_since=0.0)


def _granted(row: LeaseRow, question: LeaseRequest, now: float, witness: str) -> tuple[LeaseRow, Answer]:
    token = next_token(row.last, now)
    row = LeaseRow(
        last=token,
        holder=question.holder,
        token=token,
        owner=question.owner,
        lease_ttl=question.lease_ttl,
        granted_at=now,
        renewed_at=now,
        deadline=now + question.lease_ttl,
        queue=without(row.queue, question.holder),
        witness=witness,
    )
    return row, LeaseGranted(token)


def _extended(row: LeaseRow, lease_ttl: float, now: float, witness: str) -> LeaseRow:
    # A shorter `lease_ttl` does not shorten the deadline: if this answer is lost, the holder believes the old one.
    return replace(
        row,
        lease_ttl=max(row.lease_ttl, lease_ttl),
        renewed_at=now,
        deadline=max(row.deadline, now + lease_ttl),
        witness=witness,
        missing_since=0.0,
    )


def renew(
    row: LeaseRow, *, holder: str, token: int, lease_ttl: float, now: float, witness: str = ""
) -> tuple[LeaseRow, Renewed | LeaseRefused]:
    """Extend the lease only if this holder and token have it, and only if its release was not requested."""
    row = _settled_beside_its_queue(row, now)
    if not row.holder:
        return row, LeaseRefused("gone")
    if row.holder != holder or row.token != token:
        return row, LeaseRefused("taken")
    if row.asked_to_leave:
        # The holder lives, even though it must release.
        return replace(row, witness=witness, missing_since=0.0), Renewed(row.asked_to_leave)
    return _extended(row, lease_ttl, now, witness), Renewed()


def release(
    row: LeaseRow, *, holder: str, token: int, at_least_for: float, now: float, to: str = ""
) -> tuple[LeaseRow, bool]:
    """Free the lease, now or `at_least_for` seconds after its grant. Returns whether it was still held.

    Token 0: any token of this holder. The holder's place in the queue ends in any case. Waiters called `to` go first.
    `at_least_for` also applies to a lease that has lapsed, if no other holder got it since.
    """
    was_holder, row = row.holder, settled(row, now)
    row = replace(row, queue=without(row.queue, holder))
    if not holder or was_holder != holder or token not in (0, row.token):
        return (row if row.holder or row.rests_until else replace(row, queue=called(row.queue, now))), False
    held = bool(row.holder)
    rests_until = row.granted_at + at_least_for
    resting = now < rests_until
    row = replace(
        row,
        holder="",
        deadline=0.0,
        asked_to_leave="",
        rest=at_least_for if resting else 0.0,
        rests_until=min(rests_until, now + at_least_for) if resting else 0.0,
        queue=promoted(row.queue, to) if resting else called(promoted(row.queue, to), now),
        witness="",
        missing_since=0.0,
    )
    return row, held


def check(row: LeaseRow, *, holder: str, token: int, now: float) -> bool:
    row = settled(row, now)
    return bool(holder) and row.holder == holder and row.token == token


def force(
    row: LeaseRow, *, name: str, token: int, by: str, at_once: bool, now: float
) -> tuple[LeaseRow, Forced | NotForced, Audit | None]:
    """Request the release if `token` is the current one. `at_once`: free it now, even if the holder still believes."""
    row = _settled_beside_its_queue(row, now)
    if not row.holder or row.token != token:
        return row, NotForced(row.token if row.holder else 0), None
    audit = Audit(name=name, token=token, by=by, at=now, now=at_once, owner=row.owner)
    if at_once:
        row = replace(row, holder="", deadline=0.0, asked_to_leave="", witness="", missing_since=0.0)
        return (
            replace(row, queue=row.queue if row.rests_until else called(live(row.queue, now), now)),
            Forced(0.0),
            audit,
        )
    return replace(row, asked_to_leave=by), Forced(row.deadline - now), audit


def view(name: str, row: LeaseRow, now: float) -> LeaseView:
    row = settled(row, now)
    until = row.deadline if row.holder else row.rests_until
    return LeaseView(
        name=name,
        token=row.token,
        held=bool(row.holder),
        owner=row.owner if row.token else None,
        granted_at=row.granted_at,
        renewed_at=row.renewed_at,
        remaining=max(0.0, until - now),
        resting=not row.holder and row.rests_until > 0,
        asked_to_leave=row.asked_to_leave,
        waiting=tuple(place.owner for place in row.queue),
    )
