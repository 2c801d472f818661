"""What most events say: which function and which entry they are about."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AboutEntry"]


@dataclass(frozen=True, slots=True)
class AboutEntry:
    function: str
    entry: str
