"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Level"]

Level = Literal["ok", "warn", "fail", "unknown"]
"""`unknown`: it could not be looked at, most often because the user is not permitted to."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`seen`: what is so. `mend`: what to do about it; empty where nothing is to be done."""

    check: str
    level: Level
    seen: str
    mend: str = ""
    server: str = ""
