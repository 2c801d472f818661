"""The rules of a lease's back end, as pure functions of one row and the back end's own time.

Memory and the simulation run these; the Lua of Redis and the SQL of PostgreSQL are their twins. Why they are safe:

* A holder counts `lease_ttl` from before its question left, on a clock that goes at most rho too slow. The row's
  deadline is counted from when the question was carried out, which is later. So belief ends before the row does.
* For that, a deadline is never shortened while its holder may believe: `ask` and `renew` keep the later one. The
  exceptions are the holder's own word (`release`, `leave`) and an operator's `now`.
* An answer that extends belief (`Granted`, `Renewed` without `asked_to_leave`) always extends the row. Where the row is
  not to be extended, because somebody asked for its release, `ask` answers `Held` even to the holder itself.
* A token is greater than all before: `max(last + 1, now in microseconds)`. The time alone would do after a restart
  without data, `last` alone before one; together they grow through both.
* A holder whose process is gone may be followed before its deadline, where it asked for that (`handed_over`):
  1. its connection is gone when somebody asks, 2. the holder says nothing for `GONE_FOR` seconds, 3. the connection is
  still gone when somebody asks again. A renewal between 1 and 3 takes the doubt back, and so does a connection that is
  there again: a reconnect is no death.
  1. a holder's connection breaks though the holder lives, 2. it renews at once, on another connection, and names no
  witness, 3. the deadline decides, as without one.
  What remains is a holder that lives, whose connection was closed at the server's side, and that cannot reach the
  server for `GONE_FOR` seconds after that. It may still believe when another is granted the lease. So only runs of jobs
  ask for this: slots are taken once whatever leases do, and the token tells the later writer from the earlier one.
* A clock that was set back would stretch what is there: deadline, rest and places are cut to what was asked for, which
  is never earlier than what a holder believes. One that was set forward ends leases early: that is what tokens are for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stampede_guard.leases.core.queue import CALLED, Queue, ahead, called, joined, live, promoted, without
from stampede_guard.leases.words import (
    Answer,
    Ask,
    Audit,
    Forced,
    Granted,
    Held,
    LeaseView,
    NotForced,
    Owner,
    Refused,
    Renewed,
)

__all__ = [
    "EMPTY",
    "GONE_FOR",
    "Row",
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
"""Seconds for which a holder's connection must have been gone, at two questions at least, before it is followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is kept of one name. Times in seconds since 1970 on the back end's clock; 0 = never.

    `last`: the largest token granted. `holder`: empty = not held; `token`, `owner` and `granted_at` then tell of the
    last one. `deadline` is over = not held, either. `rests_until`: nobody gets it before. `witness`: what shows the
    back end that the holder's process is there, empty = nothing does. `missing_since`: when it was first seen to be
    gone.
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


EMPTY = Row()


def settled(row: Row, now: float) -> Row:
    """The row as it is to be read now: what has lapsed is gone, and nothing lasts longer than was asked for."""
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


def idle(row: Row, now: float) -> bool:
    """Whether nothing would be lost with the row but its last token."""
    row = settled(row, now)
    return not row.holder and not row.rests_until and not row.queue


def next_token(last: int, now: float) -> int:
    return max(last + 1, int(now * 1_000_000))


def ask(row: Row, question: Ask, now: float, *, witness: str = "", gone: bool = False) -> tuple[Row, Answer]:
    """Granted if it is free and no live waiter is before the asker. Asked again by the holder: the same token.

    `witness`: the asker's own. `gone`: whether that of the present holder is.
    """
    row = settled(row, now)
    if row.holder == question.holder:
        if row.asked_to_leave:
            return row, Held(row.owner, row.token, row.deadline - now)
        return _extended(row, question.lease_ttl, now, witness), Granted(row.token)
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
        return row, Held(row.owner, row.token, min(until, row.deadline) - now, queued)
    if row.rests_until:
        return row, Held(row.owner, row.token, row.rests_until - now, queued, resting=True)
    row = replace(row, queue=called(row.queue, now, min(CALLED, before)))
    first = row.queue[0]
    return row, Held(first.owner, row.last, first.until - now, queued)


def doubted(row: Row, now: float, *, gone: bool) -> Row:
    """The row once somebody else has looked for its holder's witness: free where that has been gone for long enough."""
    if not row.witness or not gone:
        return replace(row, missing_since=0.0)
    if not row.missing_since:
        return replace(row, missing_since=now)
    if now - row.missing_since < GONE_FOR:
        return row
    return replace(row, holder="", deadline=0.0, asked_to_leave="", witness="", missing_since=0.0)


def _granted(row: Row, question: Ask, now: float, witness: str) -> tuple[Row, Answer]:
    token = next_token(row.last, now)
    row = Row(
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
    return row, Granted(token)


def _extended(row: Row, lease_ttl: float, now: float, witness: str) -> Row:
    # With less than before it is not shortened: an answer lost on its way must have done no harm.
    return replace(
        row,
        lease_ttl=max(row.lease_ttl, lease_ttl),
        renewed_at=now,
        deadline=max(row.deadline, now + lease_ttl),
        witness=witness,
        missing_since=0.0,
    )


def renew(
    row: Row, *, holder: str, token: int, lease_ttl: float, now: float, witness: str = ""
) -> tuple[Row, Renewed | Refused]:
    """Only what is held under this holder and token is extended, and not when its release was asked for."""
    row = settled(row, now)
    if not row.holder:
        return row, Refused("gone")
    if row.holder != holder or row.token != token:
        return row, Refused("taken")
    if row.asked_to_leave:
        # It is there, though it is to go.
        return replace(row, witness=witness, missing_since=0.0), Renewed(row.asked_to_leave)
    return _extended(row, lease_ttl, now, witness), Renewed()


def release(
    row: Row, *, holder: str, token: int, at_least_for: float, now: float, to: str = ""
) -> tuple[Row, bool]:
    """Free from now on, or from `at_least_for` seconds after its grant; whether it was still held.

    Token 0: whatever this holder has, its place in the queue included. `to` goes first among those who wait. What has
    lapsed and was nobody's since rests as well.
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


def check(row: Row, *, holder: str, token: int, now: float) -> bool:
    row = settled(row, now)
    return bool(holder) and row.holder == holder and row.token == token


def force(
    row: Row, *, name: str, token: int, by: str, at_once: bool, now: float
) -> tuple[Row, Forced | NotForced, Audit | None]:
    """Compared with the token that was seen. `at_once`: the holder, which may still believe, is not waited for."""
    row = settled(row, now)
    if not row.holder or row.token != token:
        return row, NotForced(row.token if row.holder else 0), None
    audit = Audit(name=name, token=token, by=by, at=now, now=at_once, owner=row.owner)
    if at_once:
        row = replace(row, holder="", deadline=0.0, asked_to_leave="", witness="", missing_since=0.0)
        return (
            replace(row, queue=row.queue if row.rests_until else called(row.queue, now)),
            Forced(0.0),
            audit,
        )
    return replace(row, asked_to_leave=by), Forced(row.deadline - now), audit


def view(name: str, row: Row, now: float) -> LeaseView:
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
