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
* A clock that was set back would stretch what is there: deadline, rest and places are cut to what was asked for, which
  is never earlier than what a holder believes. One that was set forward ends leases early: that is what tokens are for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stampede_guard.leases.core.queue import Queue, ahead, joined, live, promoted, without
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is kept of one name. Times in seconds since 1970 on the back end's clock; 0 = never.

    `last`: the largest token granted. `holder`: empty = not held; `token`, `owner` and `granted_at` then tell of the
    last one. `deadline` is over = not held, either. `rests_until`: nobody gets it before.
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
    )


def idle(row: Row, now: float) -> bool:
    """Whether nothing would be lost with the row but its last token."""
    row = settled(row, now)
    return not row.holder and not row.rests_until and not row.queue


def next_token(last: int, now: float) -> int:
    return max(last + 1, int(now * 1_000_000))


def ask(row: Row, question: Ask, now: float) -> tuple[Row, Answer]:
    """Granted if it is free and no live waiter is before the asker. Asked again by the holder: the same token."""
    row = settled(row, now)
    if row.holder == question.holder:
        if row.asked_to_leave:
            return row, Held(row.owner, row.token, row.deadline - now)
        return _extended(row, question.lease_ttl, now), Granted(row.token)
    before = ahead(row.queue, question.holder)
    if not row.holder and not row.rests_until and before == 0:
        return _granted(row, question, now)
    row = replace(row, queue=joined(row.queue, question, now))
    place = ahead(row.queue, question.holder)
    queued = place if place < len(row.queue) else -1
    if row.holder:
        return row, Held(row.owner, row.token, row.deadline - now, queued)
    if row.rests_until:
        return row, Held(row.owner, row.token, row.rests_until - now, queued, resting=True)
    first = row.queue[0]
    return row, Held(first.owner, row.last, first.until - now, queued)


def _granted(row: Row, question: Ask, now: float) -> tuple[Row, Answer]:
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
    )
    return row, Granted(token)


def _extended(row: Row, lease_ttl: float, now: float) -> Row:
    # With less than before it is not shortened: an answer lost on its way must have done no harm.
    return replace(
        row,
        lease_ttl=max(row.lease_ttl, lease_ttl),
        renewed_at=now,
        deadline=max(row.deadline, now + lease_ttl),
    )


def renew(
    row: Row, *, holder: str, token: int, lease_ttl: float, now: float
) -> tuple[Row, Renewed | Refused]:
    """Only what is held under this holder and token is extended, and not when its release was asked for."""
    row = settled(row, now)
    if not row.holder:
        return row, Refused("gone")
    if row.holder != holder or row.token != token:
        return row, Refused("taken")
    if row.asked_to_leave:
        return row, Renewed(row.asked_to_leave)
    return _extended(row, lease_ttl, now), Renewed()


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
        return row, False
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
        queue=promoted(row.queue, to),
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
        return replace(row, holder="", deadline=0.0, asked_to_leave=""), Forced(0.0), audit
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
