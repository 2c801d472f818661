"""Events about a store: whether it answers, what it keeps, and how long it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stampede_guard.errors import RefusalKind
from stampede_guard.events.about import AboutEntry

__all__ = [
    "BreakerClosed",
    "BreakerOpened",
    "L1Sized",
    "NotStored",
    "Recovered",
    "Refused",
    "RoundTrip",
    "StoreEvent",
    "Stored",
]


@dataclass(frozen=True, slots=True)
class BreakerOpened:
    """The store counts as away from now on. `part` names one of several servers. It is empty for the whole store.

    One per change and server; the event loops of a guard report one outage together.
    """

    part: str = ""


@dataclass(frozen=True, slots=True)
class BreakerClosed:
    """The store, or this part of it, is back.

    One per change and server; the event loops of a guard report one outage together.
    """

    part: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The store refuses commands from now on. `kind`: see `stampede_guard.errors.StoreRefused`.

    `why`: its answer, without keys. `temporary`: the reason is the store's own state, and may pass by itself.

    One per change, for each text of a refusal.
    """

    kind: RefusalKind
    why: str
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """A refusal is over. The fields are those of the `Refused` that it ends.

    One per change, for each text of a refusal.
    """

    kind: RefusalKind
    why: str
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class NotStored(AboutEntry):
    """A value was computed and served, but the store did not keep it. `kind`: as in `Refused`.

    Or `unsupported`: no bytes can hold the value. The log says what to write instead.

    One per value that was computed but that the store did not keep, or that cannot be stored.
    """

    kind: RefusalKind | Literal["unsupported"]


@dataclass(frozen=True, slots=True)
class Stored(AboutEntry):
    """A computed value is in the store. `size`: its bytes there, without the header of 51 bytes.

    One per computed value that the store keeps.
    """

    size: int


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """A sample: `seconds` from the sending of a command to its answer, as this process sees it.

    A busy event loop adds to it. Of the commands of one tick, the last is measured. `part`: as in `BreakerOpened`.
    Commands without an answer are in no sample.

    One per sample: a command of a tick of the event loop and its answer, up to 20 a second for each connection.
    """

    seconds: float
    part: str = ""


@dataclass(frozen=True, slots=True)
class L1Sized:
    """The copies of an event loop (`l1_ttl`) have about this many `bytes` in memory.

    `change`: the difference to the last such event of that event loop. The sum of all changes is the process's sum.

    One per change of the copies of an event loop by 6 % and at least 4 KiB, and their end.
    """

    bytes: int
    change: int


StoreEvent = BreakerOpened | BreakerClosed | Refused | Recovered | NotStored | Stored | RoundTrip | L1Sized
