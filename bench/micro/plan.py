"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from bench.micro.away import AwaySizes
from bench.micro.herd import HerdSizes
from bench.micro.hits import HitSizes

__all__ = ["FULL", "LOOPS", "TINY", "Loop", "Sizes"]

Loop = Literal["asyncio", "uvloop"]
LOOPS: Final[tuple[Loop, ...]] = ("asyncio", "uvloop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    hits: HitSizes = field(default_factory=HitSizes)
    away: AwaySizes = field(default_factory=AwaySizes)
    herd: HerdSizes = field(default_factory=HerdSizes)
    keys: int = 200_000


FULL: Final = Sizes()
TINY: Final = Sizes(
    hits=HitSizes(repetitions=2, calls=64),
    away=AwaySizes(repetitions=2, hits=20, misses=5),
    herd=HerdSizes(processes=2, callers=3, seconds=0.1, rounds=1, counted=1),
    keys=400,
)
"""Enough to see that it works; its figures mean nothing."""
