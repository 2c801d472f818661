"""What is asked of the steps on an entry (`core.scripts`), what they answer, and what waiting inboxes hear."""

from __future__ import annotations

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
    "Passing",
    "Publication",
    "Renewal",
]


# --- what is asked --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """One flight asks for a key. `epoch` is a fresh random text, used only if a record has to be created.

    A fresh value is an answer only if its token is above `newer_than`: a refresh, or a flight that could not decode
    what is stored, asks for something newer than what it has seen. `pass_limit` flights at once may compute a key that
    is not cacheable for now, each for at most `pass_ms`. `slots_ms`: the longest time that any slot of this key is
    given; 0 = not known.
    """

    flight: str
    inbox: str
    epoch: str
    lease_ms: int
    record_ms: int
    takeover_ms: int
    newer_than: int = 0
    pass_limit: int = 1
    pass_ms: int = 0
    slots_ms: int = 0


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
    """A flight that waited too long asks to compute beside the holder, `limit` at once in all processes together."""

    flight: str
    epoch: str
    limit: int
    slot_ms: int
    record_ms: int
    newer_than: int = 0
    slots_ms: int = 0


Outcome = Literal["value", "failure", "pass"]
"""`pass`: there is a value, and it may not be stored."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The outcome of a computation. For a failure `total_ms` is how long nobody tries again, and `stale_ms` is 0.

    For a `pass` it is how long nobody waits for somebody else's computation, and there is no body. `let_through`: the
    flight gives its slot back whatever the outcome; a fallback that failed keeps its slot, so that no other follows.
    `took_ms`: how long a value's computation took; 0 = not known.
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


# --- what is answered -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    reading: Reading


@dataclass(frozen=True, slots=True)
class FailedRecently:
    """`remaining_ms`: so long nobody is to try again. 0 = not known."""

    body: bytes
    token: int
    remaining_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease is the asker's. The token comes before the computation and travels with its value.

    `replaces` is the token of the value that was stored at that moment, 0 if there was none. `leased` is False for the
    grant of a flight that was let through.
    """

    token: int
    epoch: str
    replaces: int = field(default=0, compare=False)
    leased: bool = True


@dataclass(frozen=True, slots=True)
class Passing:
    """Let through: the key is not cacheable for now, so the asker computes beside everybody else, without a lease.

    Its grant has a token of its own: should the next value be cacheable, it is stored like any other.
    """

    grant: Granted


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody else computes. `suspect`: its inbox has no subscriber; look again after the takeover gap.

    `last` is the largest token issued: what is under way was begun before this answer.
    """

    fence: int
    suspect: bool
    last: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Denied:
    """All fallback slots of this key are taken."""


Answer = Found | FailedRecently | Granted | Passing | Held


class Message(NamedTuple):
    """What a waiting inbox hears. `again` = ask again; `body` is None where the value is too large to travel."""

    kind: Literal["value", "failure", "again"]
    token: int
    reading: Reading | None = None
    body: bytes = b""


Messages = tuple[tuple[str, Message], ...]
