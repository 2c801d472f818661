"""The layout in Redis: key names, the value's header, replies and messages as bytes.

All keys of an entry share the hash tag `{name}`, so they live in one slot of a cluster. The layout carries a version:
`SG1` begins every value, and a reader that finds something else has found nothing.
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
from stampede_guard.errors import StoreRefused

__all__ = [
    "HEADER",
    "entry_keys",
    "name_bytes",
    "parse_answer",
    "parse_message",
    "parse_value",
    "value_bytes",
    "value_key",
]

_MAGIC = b"SG1"
HEADER = 43
"""Bytes before the body: magic (3), token (16), total ms (12), stale ms (12), decimal so that people can read it."""

_KINDS: dict[bytes, Any] = {b"value": "value", b"failure": "failure", b"again": "again"}


def name_bytes(name: str) -> bytes:
    """A name in UTF-8, whatever characters it has: one that cannot be sent would take the others of its tick along."""
    return name.encode("utf-8", "surrogatepass")


def value_key(name: str) -> bytes:
    return b"{%b}:v" % name_bytes(name)


def entry_keys(name: str) -> tuple[bytes, ...]:
    """Value, failure, record, lease, waiters, fallback slots: the order that every script expects."""
    tag = b"{%b}:" % name_bytes(name)
    return (tag + b"v", tag + b"e", tag + b"r", tag + b"l", tag + b"w", tag + b"f")


def value_bytes(body: bytes, *, token: int, total_ms: int, stale_ms: int) -> bytes:
    return b"SG1%016d%012d%012d%b" % (token, total_ms, stale_ms, body)


MOST_TOKEN = 2**53
"""Tokens are below this."""


def parse_value(stored: bytes | None, remaining_ms: int) -> Reading | None:
    """The reading of what was stored; None for nothing, or for something that is not ours."""
    if stored is None or stored[:3] != _MAGIC or len(stored) < HEADER:
        return None
    token = stored[3:19]
    lifetimes = _lifetimes(stored[19:HEADER])
    if lifetimes is None or not token.isdigit():
        return None
    number = int(token)
    # Lua's numbers are exact up to here. A larger one is damage, and would leave no room for a larger token.
    return Reading(stored[HEADER:], number, *lifetimes, remaining_ms) if number < MOST_TOKEN else None


@functools.lru_cache(maxsize=256)
def _lifetimes(digits: bytes) -> tuple[int, int] | None:
    """Total and stale milliseconds. Most values of a process have one of a few pairs, and are read again and again."""
    return (int(digits[:12]), int(digits[12:])) if digits.isdigit() else None


def parse_answer(reply: Any) -> Answer | Denied:
    """What the acquire and fallback scripts answered. Raises `StoreRefused` for anything else."""
    # ValueError: bytes where digits should be, or no UTF-8.
    with contextlib.suppress(ValueError):
        match reply:
            case [b"found", bytes(stored), int(remaining_ms)]:
                reading = parse_value(stored, remaining_ms)
                if reading is not None:
                    return Found(reading)
            case [b"failed", bytes(body), bytes(token)]:
                return FailedRecently(body, int(token))
            case [b"granted", bytes(token), bytes(epoch)]:
                return Granted(int(token), epoch.decode())
            case [b"granted", bytes(token), bytes(epoch), bytes(replaces)]:
                return Granted(int(token), epoch.decode(), int(replaces))
            case [b"passing", bytes(token), bytes(epoch), bytes(replaces)]:
                return Passing(Granted(int(token), epoch.decode(), int(replaces), leased=False))
            case [b"held", bytes(fence), int(suspect), bytes(last)]:
                return Held(int(fence), bool(suspect), int(last))
            case [b"denied"]:
                return Denied()
    raise StoreRefused(f"the script gave an answer of an unknown shape ({type(reply).__name__})")


def parse_message(data: bytes) -> tuple[str, Message] | None:
    """The entry's name and the message; None for what is not ours.

    Kind, token and the name's length end in a newline each; then come the name and what travels.
    """
    try:
        kind, token, size, rest = data.split(b"\n", 3)
        known = _KINDS[kind]
        number = int(token)
        text = rest[: int(size)].decode("utf-8", "surrogatepass")
        payload = rest[int(size) :]
    except (ValueError, KeyError):
        return None
    if known == "value":
        reading = parse_value(payload, 0) if payload else None
        if reading is not None:
            # Just published: all of its time is left.
            reading = reading._replace(remaining_ms=reading.total_ms)
        return text, Message("value", number, reading=reading)
    return text, Message(known, number, body=payload)
