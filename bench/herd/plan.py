"""How long, how many, which modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.herd.load import Load
from bench.herd.measure import AFTER_EXPIRY
from bench.herd.modes import MODES, Mode

__all__ = ["FULL", "QUICK", "SMOKE", "Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run: `modes` in turn under the same `load`, entries fresh for `ttl` seconds."""

    modes: tuple[Mode, ...]
    ttl: float
    load: Load
    workers: int = 8

    def __post_init__(self) -> None:
        if self.load.seconds < self.ttl + AFTER_EXPIRY:
            raise ValueError(
                f"{self.load.seconds:g} s of load show no expiry of a ttl of {self.ttl:g} s and what follows it; "
                f"give at least {self.ttl + AFTER_EXPIRY:g} s"
            )

    @property
    def stale_ttl(self) -> float:
        """Ten lifetimes: longer than the run, as an hour is against the story's five minutes."""
        return 10 * self.ttl

    @property
    def quiet(self) -> float:
        """Seconds without the aggregate that separate two expiries: less than the ttl, more than a stall."""
        return self.ttl / 2


# Eighty users on eight sockets: the kernel spreads connections by hash, and with 80 no socket stays empty but
# once in five thousand runs. A user's period keeps the machine's other work small against the queries.
_LOAD: Final = Load(users=80, spawn_rate=40, period=0.75, seconds=18)

QUICK: Final = Plan(modes=("local", "incident-fix", "guard"), ttl=4.0, load=_LOAD)
FULL: Final = Plan(modes=MODES, ttl=24.0, load=Load(users=80, spawn_rate=40, period=0.75, seconds=75))
SMOKE: Final = Plan(
    modes=("local", "guard"), ttl=3.0, load=Load(users=80, spawn_rate=40, period=0.75, seconds=12)
)
