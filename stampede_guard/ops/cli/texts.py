"""Prints times, sizes and bodies for people, and parses times that they write."""

from __future__ import annotations

import json
import re
from typing import Any

from stampede_guard.core.tags import opened
from stampede_guard.durations import seconds
from stampede_guard.errors import Misuse
from stampede_guard.values.codec.records import described
from stampede_guard.values.codec.stamped import opened_stamp

__all__ = ["body_text", "bytes_text", "parse_seconds", "seconds_text"]

LONGEST_SECONDS = 366 * 86_400.0
_BARE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?")


def seconds_text(seconds: float | None) -> str:
    if seconds is None:
        return "for ever"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    for unit, length in (("d", 86_400.0), ("h", 3600.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds / 60:.0f} min"


def bytes_text(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.1f} KiB" if size < 1024**2 else f"{size / 1024**2:.1f} MiB"


def parse_seconds(text: str) -> float:
    """`90`, `90s`, `30m`, `1h30m`, `1d`. Raises `Misuse`."""
    given = text.strip()
    found = float(given) if _BARE.fullmatch(given) else seconds(given)
    if not isinstance(found, float) or not 1 <= found <= LONGEST_SECONDS:
        raise Misuse(f"{text!r} is not a time between 1 s and 366 d: write 90s, 30m, 2h or 1d")
    return found


def body_text(body: bytes, *, complete: bool) -> str:
    """A value's body as JSON or msgpack, else as bytes. The versions of its tags are left out."""
    body = opened(body)
    text = _decoded(body) if complete else None
    return text if text is not None else f"{body[:1024]!r}" + ("" if complete else " ... (cut)")


def _decoded(body: bytes) -> str | None:
    body = opened_stamp(body)
    try:
        return json.dumps(json.loads(body), ensure_ascii=False, indent=2)
    except ValueError:
        pass

    try:
        value: Any = described(body)
    except Exception:  # encrypted, compressed or pickled: bytes
        return None
    return repr(value)
