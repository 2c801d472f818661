"""Which result types a guard has used for its own keys, so that `invalidate(key)` without a type finds all entries.

The shape of a type is part of an entry's name. Kinds of keys (what stands before the first colon) may be any number,
one for each user; types are written in the program and are few. So types are remembered for each kind while there is
room. Beyond that, every type counts for every kind: more entries are dropped than there are, and none is missed. Of
types that are made without end not all can be known, and then an invalidation that names none is an error. All tenants
of a guard share this: what one has stored under a type, the next one will.
"""

from __future__ import annotations

from stampede_guard.errors import Misuse

__all__ = ["MOST_KINDS", "MOST_TYPES", "KeyTypes"]

MOST_KINDS = 4096
"""Pairs of a kind of key and a type."""
MOST_TYPES = 1024
"""Per guard, its tenants included."""


class KeyTypes:
    """Without a lock, so that a fork leaves none behind: each step on the dictionaries is done at once."""

    def __init__(self) -> None:
        # Dicts, for their order.
        self._all: dict[str, None] = {}
        self._by_kind: dict[str, dict[str, None]] = {}
        self._pairs = 0
        self._too_many = False

    def used(self, kind: str, shape: str) -> None:
        if shape in self._by_kind.get(kind, ()):
            return
        if shape not in self._all:
            if len(self._all) >= MOST_TYPES:
                self._too_many = True
                return
            self._all[shape] = None
        if self._pairs < MOST_KINDS:
            self._by_kind.setdefault(kind, {})[shape] = None
        # Also beyond the most, which says that some pair is missing.
        self._pairs += 1

    def of(self, kind: str) -> list[str]:
        """The shapes that entries of this kind of key may have. Raises `Misuse` where that is not known."""
        if self._too_many:
            raise Misuse(
                f"this guard has used more than {MOST_TYPES} result types, and cannot tell which ones this key was "
                "used with: name it, await guard.invalidate(key, type=...)"
            )
        if self._pairs > MOST_KINDS:
            return list(self._all)
        return list(self._by_kind.get(kind, ()))
