"""Numbers of a fleet over time: each slot of a series is one hash, to which all processes of a namespace add.

A field is a kind and a function's name: `hits:shop.quality`. A slot's number counts from 1970, by the server's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MINUTES", "MOST_FIELDS", "WATCHED", "Series"]


@dataclass(frozen=True, slots=True)
class Series:
    """`word`: its name in keys. `seconds`: the length of a slot. `kept`: seconds for which a slot is kept."""

    word: str
    seconds: int
    kept: int

    def name(self, namespace: str, slot: int) -> str:
        """The name of a slot. No entry uses its key, because the keys of entries have a suffix."""
        return f"{namespace}:{self.word}:{slot}"

    @property
    def kept_ms(self) -> int:
        return self.kept * 1000


MINUTES = Series("stats", 60, 25 * 3600)
"""For `stampede-guard stats`: kept for a day, and one hour more for a look back over a whole day."""
MOST_FIELDS = 20_000
"""Of a slot. Numbers of further fields are dropped."""
WATCHED = Series("watched", 5, 1800)
"""For open viewers. Without one, nothing is added."""
