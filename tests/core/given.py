"""Short ways to say what stands in an entry, for the tests of single steps."""

from __future__ import annotations

from stampede_guard.core import scripts
from stampede_guard.core.entry import EMPTY, Entry
from stampede_guard.core.scripts import (
    Answer,
    Ask,
    Granted,
    Outcome,
    Publication,
)

NOW = 1_000_000_000
SECOND = 1_000_000


def ask(flight: str = "a", *, inbox: str | None = None, newer_than: int = 0) -> Ask:
    inbox = f"inbox-{flight}" if inbox is None else inbox
    return Ask(
        flight,
        inbox,
        f"epoch-of-{flight}",
        lease_ms=3000,
        record_ms=60_000,
        takeover_ms=250,
        newer_than=newer_than,
    )


def everybody(*names: str) -> frozenset[str]:
    return frozenset(f"inbox-{name}" for name in names)


def acquire(
    entry: Entry,
    asked: Ask | None = None,
    *,
    now_us: int = NOW,
    listening: frozenset[str] | None = everybody("a", "b", "c"),
) -> tuple[Entry, Answer]:
    return scripts.acquire(entry, asked or ask(), now_us=now_us, listening=listening)


def granted(flight: str = "a", entry: Entry = EMPTY, *, now_us: int = NOW) -> tuple[Entry, Granted]:
    after, answer = acquire(entry, ask(flight), now_us=now_us)
    assert isinstance(answer, Granted)
    return after, answer


def publication(
    grant: Granted,
    flight: str = "a",
    *,
    outcome: Outcome = "value",
    body: bytes = b"v",
    total_ms: int = 10_000,
    inline_bytes: int = 100,
) -> Publication:
    stale_ms = 4000 if outcome == "value" else 0
    return Publication(
        flight,
        grant.token,
        grant.epoch,
        outcome,
        body,
        total_ms,
        stale_ms,
        record_ms=60_000,
        inline_bytes=inline_bytes,
    )


def invalidate(entry: Entry, *, now_us: int = NOW) -> tuple[Entry, int, scripts.Messages]:
    return scripts.invalidate(entry, now_us=now_us, epoch="epoch-of-invalidation", record_ms=60_000)


def stored(grant: Granted, entry: Entry, flight: str = "a", **given: object) -> Entry:
    after, was_stored, _ = scripts.publish(entry, publication(grant, flight, **given), now_us=NOW)  # type: ignore[arg-type]
    assert was_stored
    return after
