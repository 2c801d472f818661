"""The events of a fleet, in order, while a viewer was open: two streams of a namespace that keep the newest items.

Busy processes write many steps of herds per second. These have a stream of their own, so that they do not push out what
an operator did, lost leases, outcomes of jobs, births of processes and faults.

An item has the server's time of the event in milliseconds (`at`) and a JSON object (`what`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "HAPPENED",
    "HERDS",
    "HERD_KINDS",
    "KEPT_MS",
    "LONGEST",
    "MOST_KEPT",
    "NAMES_SECRET",
    "NO_FAULTS",
    "PROCESS_BEGAN",
    "Happening",
    "StreamName",
    "from_stream",
    "hashed",
    "stream_name",
]

MOST_KEPT = 5000
"""Items of each stream, about: older ones are dropped."""
KEPT_MS = 3600 * 1000
LONGEST = 16_000
"""Bytes of an item that are read. Ours are shorter, also if each letter of their names is escaped; another program may
have written longer ones."""

HERD_KINDS = frozenset(
    (
        "asked", "granted", "waits", "suspects", "no answer", "began", "renewed", "ended", "published", "gave back",
        "woken", "found", "landed",
    )
)  # fmt: skip
"""What flights tell of a herd. Other kinds are faults, leases and jobs."""
PROCESS_BEGAN = "process began"
"""A mark in figures."""
NO_FAULTS = HERD_KINDS | {PROCESS_BEGAN}
NAMES_SECRET = "STAMPEDE_GUARD_NAMES_SECRET"
"""The environment variable of a secret that all processes and consoles of a fleet share."""
LARGEST = 1 << 63
"""Whole numbers of a detail are smaller."""
LATEST = 14
"""Digits of a time that a calendar has."""


@dataclass(frozen=True, slots=True)
class Happening:
    """`at`: seconds since 1970, by the server's clock. `kind`: a word of `stampede_guard.engine.stats.happenings`.

    `process`: where it happened, as `pod/host/pid`. `key`: the entry's name, or its hash. `detail`: more words.
    """

    at: float
    kind: str
    process: str
    function: str
    key: str
    detail: Mapping[str, Any]


def hashed(entry: str) -> str:
    """Stands for an entry's name where a viewer may not see it: the same in all processes with the same secret.

    Without a secret, who guesses a name can compute its hash and compare.
    """
    key = _key_of(os.environ.get(NAMES_SECRET, ""))
    return "#" + hashlib.blake2b(entry.encode("utf-8", "surrogatepass"), digest_size=8, key=key).hexdigest()


@functools.lru_cache(maxsize=4)
def _key_of(secret: str) -> bytes:
    return hashlib.blake2b(secret.encode("utf-8", "surrogateescape")).digest() if secret else b""


StreamName = Literal["happened", "herds"]
HAPPENED: StreamName = "happened"
"""Everything but herds. Processes of earlier versions also write their herds here."""
HERDS: StreamName = "herds"
"""Steps of herds, and the faults of a storm."""


def stream_name(namespace: str, stream: StreamName = HAPPENED) -> str:
    return f"{namespace}:{stream}"


def from_stream(items: Iterable[Mapping[bytes, bytes]]) -> list[Happening]:
    """The items in the order of their times. Ignores what other programs have written.

    So each detail is a text that UTF-8 can have, a number that JSON can have, True, False or None.
    """
    found = [one for item in items if (one := _parsed(item)) is not None]
    return sorted(found, key=lambda one: one.at)


def _parsed(item: Mapping[bytes, bytes]) -> Happening | None:
    at, what = item.get(b"at", b""), item.get(b"what", b"")
    if not at.isdigit() or len(at) > LATEST or len(what) > LONGEST:
        return None
    told = _object(what)
    if told is None:
        return None
    words = [told.pop(name, "") for name in ("kind", "process", "function", "key")]
    if not all(isinstance(word, str) for word in words):
        return None
    kind, process, function, key = words
    detail = {name: value for name, value in told.items() if _is_plain(value)}
    return Happening(int(at) / 1000, kind, process, function, key, detail)


def _object(what: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(what.decode("utf-8", "replace"))
        if b"\\ud" in what.lower():
            # Perhaps half of a pair (RFC 8259, 8.2), which no page could be encoded with.
            told = json.loads(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _is_plain(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < LARGEST
    return value is None or isinstance(value, str)
