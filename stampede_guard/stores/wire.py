"""The layout in Redis: key names, the value's header, replies and messages as bytes.

All keys of an entry share the hash tag `{name}`, so they live in one slot of a cluster.

The value's layout has a version, `LAYOUT`, which begins every value (`SG2`). A process reads its own layout and the one
before it, writes its own, and takes everything else for nothing. Scripts have no version: each is called by the SHA of
its text, so old and new ones stand side by side on one server. What they share is layout 1's keys and fields.

A rolling deploy, from N (writes SG1) to N+1 (writes SG2), costs at most one computation more per expiry while it lasts:

* N computes first: its SG1 value is read by everybody.
* N+1 computes first: its SG2 value is nothing to N, whose lease among themselves and with N+1 is the same as ever, so
  one process of N computes once more and stores SG1 in its place (its token is larger: `last` is in the record, which
  has no layout). Now everybody has a value; N+1 reads SG1, so nobody goes back.
* An SG1 value has no `took_ms`, so N+1 refreshes none of these early.

A failure has said since this version how long it was given, and begins with a letter that the version before does not
know: while both run, N takes a failure of N+1 for nothing, and one process of N computes once more per failure.

A value is stored and read whole by one command, so it is never half of one layout and half of another.

Skipping a layout is not a rolling deploy: each side takes the other's values for nothing, and they compute in turns
while both run.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import (
    Answer,
    Denied,
    FailedRecently,
    Found,
    Granted,
    Held,
    Message,
    Passing,
)
from stampede_guard.core.switch import Switch
from stampede_guard.errors import StoreRefused
from stampede_guard.policy import MOST_MS

__all__ = [
    "HEADER",
    "LAYOUT",
    "MOST_TOOK_MS",
    "changes_channel",
    "entry_keys",
    "malformed",
    "modes_keys",
    "modes_name",
    "name_bytes",
    "parse_answer",
    "parse_fence",
    "parse_message",
    "parse_switches",
    "parse_value",
    "value_bytes",
    "value_key",
    "yes_or_no",
]

LAYOUT = 2
_MAGIC = b"SG%d" % LAYOUT
HEADER = 51
"""Bytes before the body: magic (3), token (16), total ms (12), stale ms (12), how long it took in ms (8). Decimal, so
that people can read it."""
_SIZES = {_MAGIC: HEADER, b"SG%d" % (LAYOUT - 1): HEADER - 8}
"""Of the headers that are read; layout 1 does not say how long it took."""
MOST_TOOK_MS = 99_999_999

_KINDS: dict[bytes, Any] = {b"value": "value", b"failure": "failure", b"again": "again"}


def name_bytes(name: str) -> bytes:
    """A name in UTF-8, whatever characters it has: one that cannot be sent would take the others of its tick along."""
    return name.encode("utf-8", "surrogatepass")


def changes_channel(name: str) -> bytes:
    """Where everybody who keeps copies hears of the changes of an entry: one channel per namespace.

    A namespace with colons shares the channel of its first part; names tell whose a message is.
    """
    return b"stampede_guard:changes:" + name_bytes(name.partition(":")[0])


def value_key(name: str) -> bytes:
    return b"{%b}:v" % name_bytes(name)


def entry_keys(name: str) -> tuple[bytes, ...]:
    """Value, failure, record, lease, waiters, fallback slots: the order that every script expects."""
    tag = b"{%b}:" % name_bytes(name)
    return (tag + b"v", tag + b"e", tag + b"r", tag + b"l", tag + b"w", tag + b"f")


def modes_name(namespace: str) -> str:
    """What messages about the namespace's switches are about. No entry has this name: theirs go on after a colon."""
    return f"{namespace}:modes"


def modes_keys(name: str) -> tuple[bytes, ...]:
    """Of the switches with this `modes_name`: one hash. Without a part behind the brace, so it is no entry's either."""
    return (b"{%b}" % name_bytes(name),)


def value_bytes(body: bytes, *, token: int, total_ms: int, stale_ms: int, took_ms: int = 0) -> bytes:
    # A number with more digits would shift the body, and nobody could read it.
    total_ms, stale_ms = min(total_ms, MOST_MS), min(stale_ms, MOST_MS)
    took_ms = min(max(took_ms, 0), MOST_TOOK_MS)
    return b"%b%016d%012d%012d%08d%b" % (_MAGIC, token, total_ms, stale_ms, took_ms, body)


MOST_TOKEN = 2**53
"""Tokens are below this."""


def parse_value(stored: bytes | None, remaining_ms: int) -> Reading | None:
    """The reading of what was stored; None for nothing, or for something that is not ours."""
    size = None if stored is None else _SIZES.get(stored[:3])
    if stored is None or size is None:
        return None
    digits = stored[3:size]
    if len(digits) != size - 3 or not digits.isdigit():
        return None
    number = int(digits[:16])
    if number >= MOST_TOKEN:
        # Lua's numbers are exact up to there. A larger one is damage, and would leave no room for a larger token.
        return None
    total_ms, stale_ms = _lifetimes(digits[16:40])
    return Reading(stored[size:], number, total_ms, stale_ms, remaining_ms, int(digits[40:] or 0))


@functools.lru_cache(maxsize=256)
def _lifetimes(digits: bytes) -> tuple[int, int]:
    """Total and stale milliseconds. Most values of a process have one of a few pairs, and are read again and again."""
    return int(digits[:12]), int(digits[12:])


def parse_answer(reply: Any) -> Answer | Denied:
    """What the acquire and fallback scripts answered. Raises `StoreRefused` for anything else."""
    # ValueError: bytes where digits should be, no UTF-8, or a number that no token can be.
    with contextlib.suppress(ValueError):
        match reply:
            case [b"found", bytes(stored), int(remaining_ms)]:
                reading = parse_value(stored, remaining_ms)
                if reading is not None:
                    return Found(reading)
            case [b"failed", bytes(body), bytes(token), int(remaining_ms)]:
                return FailedRecently(body, _token(token), max(0, remaining_ms))
            case [b"granted", bytes(token), bytes(epoch)]:
                return Granted(_token(token), epoch.decode())
            case [b"granted", bytes(token), bytes(epoch), bytes(replaces)]:
                return Granted(_token(token), epoch.decode(), _token(replaces))
            case [b"passing", bytes(token), bytes(epoch), bytes(replaces)]:
                grant = Granted(_token(token), epoch.decode(), _token(replaces), leased=False)
                return Passing(grant)
            case [b"held", bytes(fence), int(suspect), bytes(last)]:
                return Held(_token(fence), bool(suspect), _token(last))
            case [b"denied"]:
                return Denied()
    raise malformed("the script")


def malformed(what: str) -> StoreRefused:
    """`what` answered in a way that is not its own. The outcome is not known."""
    return StoreRefused(f"{what} gave an answer of an unknown shape")


def yes_or_no(what: str, reply: Any) -> bool:
    """Of a script that answers 1 or 0. Raises `StoreRefused` for anything else: its outcome is not known."""
    if reply.__class__ is not int or reply not in (0, 1):
        raise malformed(what)
    return bool(reply)


def parse_fence(reply: Any) -> int:
    """What the invalidate script answered. Raises `StoreRefused` for anything else."""
    with contextlib.suppress(ValueError):
        if isinstance(reply, bytes):
            return _token(reply)
    raise malformed("the invalidate script")


def _token(digits: bytes) -> int:
    """Raises `ValueError` for what is no token."""
    number = int(digits) if digits.isdigit() else -1
    if not 0 <= number < MOST_TOKEN:
        raise ValueError
    return number


def parse_switches(reply: Any) -> dict[str, Switch]:
    """By title. What this version does not understand is left out. Raises `StoreRefused` for another shape."""
    found: dict[str, Switch] = {}
    try:
        for title, text, left_ms in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
            left = None if left_ms < 0 else left_ms / 1000
            switch = Switch.parse(text.decode("utf-8", "replace"), left=left)
            if switch is not None:
                found[title.decode("utf-8", "replace")] = switch
    except Exception:
        raise malformed("the modes script") from None
    return found


def parse_message(data: bytes) -> tuple[str, Message] | None:
    """The entry's name and the message; None for what is not ours.

    Kind, token and the name's length end in a newline each; then come the name and what travels.
    """
    try:
        kind, token, digits, rest = data.split(b"\n", 3)
        known = _KINDS[kind]
        number, size = _token(token), _token(digits)
        text = rest[:size].decode("utf-8", "surrogatepass")
        payload = rest[size:]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if len(rest) < size:
        return None
    if known == "value":
        reading = parse_value(payload, 0) if payload else None
        if reading is not None:
            # Just published: all of its time is left.
            reading = reading._replace(remaining_ms=reading.total_ms)
        return text, Message("value", number, reading=reading)
    return text, Message(known, number, body=payload)
