"""The requests and answers of the steps on an entry (`core.scripts`), and the messages to waiting inboxes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from stampede_guard.core.entry import Reading

__all__ = [
    "Answer",
    "Ask",
    "Denied",
    "FailedRecently",
    "FallbackAsk",
    "Found",
    "Granted",
    "Held",
    "Message",
    "Messages",
    "Outcome",
    "Uncacheable",
    "Publication",
    "Renewal",
    "traceparent",
]


# --- requests ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """One flight asks for a key. `epoch` is a fresh random text, used only if a record must be created.

    A fresh value is an answer only if its token is above `newer_than`. A refresh asks for a newer value than it has
    seen. So does a flight that could not decode the stored value. At most `uncacheable_limit` flights at once compute
    an uncacheable key, each for at most `uncacheable_ms`.
    """

    flight: str
    inbox: str
    epoch: str
    lease_ms: int
    record_ms: int
    takeover_ms: int
    newer_than: int = 0
    uncacheable_limit: int = 1
    uncacheable_ms: int = 0


@dataclass(frozen=True, slots=True)
class Renewal:
    """The holder's sign of life. `inbox` is empty while its subscription is not confirmed."""

    flight: str
    token: int
    inbox: str
    lease_ms: int
    record_ms: int


@dataclass(frozen=True, slots=True)
class FallbackAsk:
    """A flight that waited too long asks to compute beside the holder: at most `limit` at once in all processes
    together.
    """

    flight: str
    epoch: str
    limit: int
    slot_ms: int
    record_ms: int
    newer_than: int = 0


Outcome = Literal["value", "failure", "pass"]
"""`pass`: there is a value, but it may not be stored."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The outcome of a computation. For a failure, `total_ms` is the time during which no caller tries again;
    `stale_ms` is 0.

    For a `pass` it is the time during which callers do not wait for each other. The body is empty.
    `let_through`: the flight releases its slot whatever the outcome. A fallback that failed keeps its slot, so that
    no other follows. `took_ms`: how long a value's computation took; 0 = unknown. `trace`: the computation's.
    """

    flight: str
    token: int
    epoch: str
    outcome: Outcome
    body: bytes
    total_ms: int
    stale_ms: int
    record_ms: int
    inline_bytes: int
    let_through: bool = False
    took_ms: int = 0
    trace: str = ""


# --- answers ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    reading: Reading


@dataclass(frozen=True, slots=True)
class FailedRecently:
    """`remaining_ms`: no caller may try again for this time. 0 = unknown."""

    body: bytes
    token: int
    remaining_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease is the asker's. The token comes before the computation and travels with its value.

    `replaces` is the token of the value that was stored at that moment, 0 if there was none. `leased` is False for
    the grant of an uncacheable key.
    """

    token: int
    epoch: str
    replaces: int = field(default=0, compare=False)
    leased: bool = True


@dataclass(frozen=True, slots=True)
class Uncacheable:
    """The key is uncacheable at the moment, so the asker computes beside the others, without a lease.

    Its grant has its own token: if the next value is cacheable, it is stored like any other.
    """

    grant: Granted


@dataclass(frozen=True, slots=True)
class Held:
    """Another flight computes. `suspect`: its inbox has no subscriber; poll again after the takeover gap.

    `last` is the largest token issued: every running computation began before this answer. `first`: this check was the
    first to miss the inbox, so the takeover gap begins now.
    """

    fence: int
    suspect: bool
    last: int = field(default=0, compare=False)
    first: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Denied:
    """All fallback slots of this key are taken."""


Answer = Found | FailedRecently | Granted | Uncacheable | Held


class Message(NamedTuple):
    """A message to a waiting inbox. `again` = ask again; `body` is None if the value is too large for the message.

    `trace`: a W3C traceparent, the span of the computation whose outcome this is. Empty without tracing. No decision
    reads it.
    """

    kind: Literal["value", "failure", "again"]
    token: int
    reading: Reading | None = None
    body: bytes = b""
    trace: str = ""


_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def traceparent(text: object) -> str:
    """This text if it is a traceparent of version 00 (55 characters). Else nothing.

    Source: W3C "Trace Context", section 3.2. Other versions may be longer, so they are neither sent nor believed.
    """
    return text if isinstance(text, str) and len(text) == 55 and _TRACEPARENT.fullmatch(text) else ""


Messages = tuple[tuple[str, Message], ...]
