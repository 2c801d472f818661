"""How large a run is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FULL", "QUICK", "Sizes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Hits: `rounds` in which every peer has its turn, `round_seconds` long, over `connections`. Without a server,
    `calls` per turn. Expiries: `workers` with `users` connections each. These request every `pause` seconds an answer
    that is fresh for `ttl` seconds and takes the application `compute` seconds, until `expiries` have been seen."""

    rounds: int = 9
    round_seconds: float = 1.0
    connections: int = 32
    calls: int = 1600
    workers: int = 8
    users: int = 8
    pause: float = 0.1
    ttl: int = 2
    compute: float = 0.3
    expiries: int = 3

    @property
    def herd_seconds(self) -> float:
        """The answer was filled before; it expires `expiries` times, and the last herd ends."""
        return self.expiries * (self.ttl + self.compute + 0.3) + self.compute


FULL: Final = Sizes()
QUICK: Final = Sizes(rounds=3, round_seconds=0.5, calls=640, expiries=1)
