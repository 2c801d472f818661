"""Parses the answer of the look script into a view of an entry."""

from __future__ import annotations

from typing import Any

from stampede_guard.core.entry import freshness
from stampede_guard.stores.connections.inboxname import place_in
from stampede_guard.stores.connections.wire import malformed, parse_value
from stampede_guard.stores.console.view import (
    EntryLease,
    EntryView,
    FailureView,
    RecordView,
    SlotView,
    ValueView,
)

__all__ = ["HEAD", "parse_look"]

HEAD = 64
"""The first bytes of a value. They contain its header in every layout."""
_TOKEN = 16
_MS = 12


def parse_look(name: str, reply: Any) -> EntryView:
    """Raises `StoreRefused` for an answer of another shape. Data of other programs counts as absent."""
    try:
        now, value, failure, record, record_ms, lease, lease_ms, listening, waiters, slots = reply
        return EntryView(
            name,
            value=_value(*value),
            failure=_failure(*failure),
            record=_record(record, record_ms),
            lease=_lease(int(now), lease, lease_ms, listening),
            waiters=max(0, waiters),
            slots=tuple(
                SlotView(_flight(owner), (int(float(ends)) - int(now)) / 1e6)
                for owner, ends in zip(slots[::2], slots[1::2], strict=True)
                if int(float(ends)) > int(now)
            ),
        )
    except Exception:
        raise malformed("the look script") from None


def _value(size: int, head: bytes, remaining_ms: int) -> ValueView | None:
    reading = parse_value(head, remaining_ms)
    if reading is None or remaining_ms == -2:
        return None
    return ValueView(
        token=reading.token,
        fresh=freshness(remaining_ms, reading.total_ms, reading.stale_ms) == "fresh",
        ttl=(reading.total_ms - reading.stale_ms) / 1000,
        stale_ttl=reading.stale_ms / 1000,
        left=None if remaining_ms < 0 else remaining_ms / 1000,
        size=size - (len(head) - len(reading.body)),
        body=reading.body,
    )


def _failure(size: int, head: bytes, remaining_ms: int) -> FailureView | None:
    # A failure that begins with a letter also has its lifetime: see `failure` in common.lua.
    kind = head[:1]
    begin, end = (1, 1 + _TOKEN + _MS) if kind == b"F" else (1, 1 + _TOKEN) if kind == b"P" else (0, _TOKEN)
    if len(head) < end or not head[begin:end].isdigit():
        return None
    passes = kind == b"P"
    body = b"" if passes else head[end:]
    return FailureView(int(head[begin : begin + _TOKEN]), max(0, remaining_ms) / 1000, body, passes)


def _record(found: list[bytes | None], left_ms: int) -> RecordView | None:
    epoch, last, fence = found or (None, None, None)
    return (
        None if epoch is None else RecordView(_text(epoch), int(last or 0), int(fence or 0), left_ms / 1000)
    )


def _lease(now_us: int, found: list[bytes | None], left_ms: int, listening: int) -> EntryLease | None:
    parts: list[bytes | None] = [*found, None, None, None, None]
    owner, token, _, inbox = parts[:4]
    if owner is None:
        return None
    # A token is the server's time of the grant, or a little more.
    since = max(0.0, (now_us - int(token or 0)) / 1e6)
    alive = None if listening < 0 else bool(listening)
    holder = place_in(_text(inbox)) if inbox else None
    return EntryLease(_text(owner), int(token or 0), since, max(0, left_ms) / 1000, alive, holder)


def _flight(slot: bytes) -> str:
    """A slot also has its own lifetime: see `slot_of` in common.lua."""
    return _text(slot).partition(" ")[0]


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")
