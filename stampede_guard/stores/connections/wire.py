"""The layout in Redis: key names, the value's header, replies and messages as bytes.

All keys of an entry share the hash tag `{name}`, so they live in one slot of a cluster.

The value's layout has a version, `LAYOUT`, at the beginning of every value (`SG2`). A process reads its own layout and
the previous one. It writes its own, and treats everything else as absent. Scripts have no version: each is called by
the SHA of its text, so one server can have old and new scripts together. They share the keys and fields of layout 1.

During a rolling deploy, from N (writes SG1) to N+1 (writes SG2), each expiry costs at most one more computation:

* N computes first: every process reads its SG1 value.
* N+1 computes first: N treats its SG2 value as absent. Leases work between N and N+1 as always, so one process of N
  computes once more. It stores SG1 in place of SG2. Its token is larger, because `last` is in the record, which has no
  layout. Now every process has a value. N+1 reads SG1, so the layout does not change back.
* An SG1 value has no `took_ms`, so N+1 refreshes none of these early.

Since this version a failure contains its lifetime and begins with a letter. The previous version does not know the
letter. While both run, N treats a failure of N+1 as absent, and one process of N computes once more per failure.

One command stores a value whole, and one command reads it whole. So a value never mixes two layouts.

A deploy must not skip a layout. Each side would treat the other's values as absent, and they would compute in turns
while both run.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from stampede_guard.core.asks import traceparent
from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import (
    Answer,
    Denied,
    FailedRecently,
    Found,
    Granted,
    Held,
    Message,
    Uncacheable,
)
from stampede_guard.errors import StoreRefused
from stampede_guard.policy import MOST_MS
from stampede_guard.stores.switch import Switch

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
"""Bytes before the body: magic (3), token (16), total ms (12), stale ms (12), duration of the computation in ms (8).
Decimal, so that people can read it."""
_SIZES = {_MAGIC: HEADER, b"SG%d" % (LAYOUT - 1): HEADER - 8}
"""Sizes of the headers that are read. Layout 1 has no duration of the computation."""
MOST_TOOK_MS = 99_999_999

_tuple = tuple.__new__
_FIRST_MISSED = 2
"""`acquire.lua` says so to the check that was the first to miss the holder's inbox."""
_KINDS: dict[bytes, Any] = {b"value": "value", b"failure": "failure", b"again": "again"}


def name_bytes(name: str) -> bytes:
    """A name in UTF-8, whatever characters it has. One that cannot be sent would fail the others of its tick."""
    return name.encode("utf-8", "surrogatepass")


def changes_channel(name: str) -> bytes:
    """The channel for processes that keep copies. It carries the changes of entries: one channel per namespace.

    A namespace with colons shares the channel of its first part. The names in messages show their namespace.
    """
    return b"stampede_guard:changes:" + name_bytes(name.partition(":")[0])


def value_key(name: str) -> bytes:
    return b"{%b}:v" % name.encode("utf-8", "surrogatepass")


def entry_keys(name: str) -> tuple[bytes, ...]:
    """Value, failure, record, lease, waiters, fallback slots: the order that every script expects."""
    tag = b"{%b}:" % name_bytes(name)
    return (tag + b"v", tag + b"e", tag + b"r", tag + b"l", tag + b"w", tag + b"f")


def modes_name(namespace: str) -> str:
    """The name in messages about the namespace's switches. No entry has it: their names continue after a colon."""
    return f"{namespace}:modes"


def modes_keys(name: str) -> tuple[bytes, ...]:
    """The one key of the switches with this `modes_name`, a hash. It has no suffix, so no entry uses this key."""
    return (b"{%b}" % name_bytes(name),)


def value_bytes(body: bytes, *, token: int, total_ms: int, stale_ms: int, took_ms: int = 0) -> bytes:
    # A number with more digits would shift the body, and make the value unreadable.
    total_ms, stale_ms = min(total_ms, MOST_MS), min(stale_ms, MOST_MS)
    took_ms = min(max(took_ms, 0), MOST_TOOK_MS)
    return b"%b%016d%012d%012d%08d%b" % (_MAGIC, token, total_ms, stale_ms, took_ms, body)


MOST_TOKEN = 2**53
"""All tokens are below this."""


def parse_value(stored: bytes | None, remaining_ms: int) -> Reading | None:
    """The reading of a stored value. None for nothing, or for data that is not ours."""
    size = None if stored is None else _SIZES.get(stored[:3])
    if stored is None or size is None:
        return None
    digits = stored[3:size]
    if len(digits) != size - 3 or not digits.isdigit():
        return None
    number = int(digits[:16])
    if number >= MOST_TOKEN:
        # Lua's numbers are exact below this. A larger one is damaged, and would leave no room for a larger token.
        return None
    total_ms, stale_ms = _lifetimes(digits[16:40])
    # Without the constructor of the named tuple, which takes twice as long as all the rest of the tuple.
    return _tuple(Reading, (stored[size:], number, total_ms, stale_ms, remaining_ms, int(digits[40:] or 0)))


@functools.lru_cache(maxsize=256)
def _lifetimes(digits: bytes) -> tuple[int, int]:
    """Total and stale milliseconds. Most values of a process share a few pairs and are read again and again."""
    return int(digits[:12]), int(digits[12:])


def parse_answer(reply: Any) -> Answer | Denied:
    """The answer of the acquire or fallback script. Raises `StoreRefused` for anything else."""
    # ValueError: bytes in place of digits, invalid UTF-8, or a number too large for a token.
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
                return Uncacheable(grant)
            case [b"held", bytes(fence), int(suspect), bytes(last)]:
                return Held(_token(fence), bool(suspect), _token(last), suspect == _FIRST_MISSED)
            case [b"denied"]:
                return Denied()
    raise malformed("the script")


def malformed(what: str) -> StoreRefused:
    """The error for an answer that `what` never gives. The outcome is unknown."""
    return StoreRefused(f"{what} gave an answer of an unknown shape")


def yes_or_no(what: str, reply: Any) -> bool:
    """The answer of a script that gives 1 or 0. Raises `StoreRefused` for anything else: the outcome is unknown."""
    if reply.__class__ is not int or reply not in (0, 1):
        raise malformed(what)
    return bool(reply)


def parse_fence(reply: Any) -> int:
    """The answer of the invalidate script. Raises `StoreRefused` for anything else."""
    with contextlib.suppress(ValueError):
        if isinstance(reply, bytes):
            return _token(reply)
    raise malformed("the invalidate script")


def _token(digits: bytes) -> int:
    """Raises `ValueError` for digits that are not a token."""
    number = int(digits) if digits.isdigit() else -1
    if not 0 <= number < MOST_TOKEN:
        raise ValueError
    return number


def parse_switches(reply: Any) -> dict[str, Switch]:
    """Switches by title. Unknown ones are left out. Raises `StoreRefused` for another shape."""
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
    """The entry's name and the message. None for data that is not ours.

    Kind, token and the name's length each end in a newline. The name and the payload follow. The kind may be followed
    by a space and the computation's trace: only for inboxes whose names say that they understand it.
    """
    try:
        kind, token, digits, rest = data.split(b"\n", 3)
        kind, _, follows = kind.partition(b" ")
        known, trace = _KINDS[kind], traceparent(follows.decode("ascii", "replace")) if follows else ""
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
            # Just published: its whole lifetime is left.
            reading = reading._replace(remaining_ms=reading.total_ms)
        return text, Message("value", number, reading=reading, trace=trace)
    return text, Message(known, number, body=payload, trace=trace)
