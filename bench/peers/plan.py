"""How large a run is, and how long it has patience with a peer that hangs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FULL", "QUICK", "Sizes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """`seconds`: how long the stand-in for a query sleeps. `long_seconds`: the same in the scenario of the long query.

    `interrupted_seconds`: how long it sleeps if a process is killed or a caller cancelled meanwhile. On a crowded
    machine, 0.45 s are over before all callers wait. `rounds`: how often the cold herd is timed. The rest are time
    limits: after so many seconds, a caller that still waits is abandoned, and the peer counts as hanging.
    """

    processes: int = 8
    callers: int = 50
    seconds: float = 0.45
    interrupted_seconds: float = 1.0
    long_seconds: float = 8.0
    rounds: int = 3
    patience: float = 20.0
    patience_after_kill: float = 40.0
    hit_repetitions: int = 15
    hit_calls: int = 500
    memory_calls: int = 20_000


FULL: Final = Sizes()
QUICK: Final = Sizes(
    long_seconds=3.0,
    rounds=1,
    patience=8.0,
    patience_after_kill=8.0,
    hit_repetitions=5,
    hit_calls=200,
    memory_calls=5_000,
)
