"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Diagnosis", "Level"]

Level = Literal["ok", "warn", "fail", "unknown"]
"""`unknown`: the check was not possible, usually because the user is not permitted to look."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`seen`: the observation. `mend`: what to do about it; empty if nothing needs to be done."""

    check: str
    level: Level
    seen: str
    mend: str = ""
    server: str = ""
