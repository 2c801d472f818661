"""The result types that a guard has used for its own keys, so that `invalidate(key)` without a type finds all entries.

The shape of a type is part of an entry's name. There may be any number of kinds of keys (the text before the first
colon), for example one for each user. Types are written in the program and are few. So the types of each kind are
remembered while there is room. Beyond that, every type counts for every kind: an invalidation then also drops names
that do not exist, but it misses none. A program may make new types without end, so that not all can be remembered. Then
an invalidation without a type raises an error. All tenants of a guard share this memory, because tenants store values
of the same types.
"""

from __future__ import annotations

from stampede_guard.errors import Misuse

__all__ = ["MOST_KINDS", "MOST_SET", "MOST_TYPES", "KeyTypes"]

MOST_KINDS = 4096
"""Pairs of a kind of key and a type."""
MOST_SET = 1024
"""Keys that were set last, for a warning about a `get` with another type."""
MOST_TYPES = 1024
"""Per guard, its tenants included."""


class KeyTypes:
    """It has no lock, which a fork could leave locked. It needs none: each step on the dictionaries is atomic."""

    def __init__(self) -> None:
        # Dictionaries, because they keep their order.
        self._all: dict[str, None] = {}
        self._by_kind: dict[str, dict[str, None]] = {}
        self._pairs = 0
        self._too_many = False
        self._set: dict[str, tuple[str, str]] = {}

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
        # Count on beyond the limit: a count above it shows that a pair is missing.
        self._pairs += 1

    def of(self, kind: str) -> list[str]:
        """The shapes that entries of this kind of key may have. Raises `Misuse` if that is not known."""
        if self._too_many:
            raise Misuse(
                f"this guard has used more than {MOST_TYPES} result types, and does not know which of them this key "
                "was used with: name the type, await guard.invalidate(key, type=...)"
            )
        if self._pairs > MOST_KINDS:
            return list(self._all)
        return list(self._by_kind.get(kind, ()))

    def note_set(self, key: str, shape: str, title: str) -> None:
        """The shape and the title of the type under which `set` has stored a value. The newest keys are remembered."""
        self._set.pop(key, None)
        self._set[key] = (shape, title)
        if len(self._set) > MOST_SET:
            self._set.pop(next(iter(self._set)), None)

    def set_as_another(self, key: str, shape: str) -> str | None:
        """The title of the type, if `set` has stored this key under another type than the asked one."""
        found = self._set.get(key)
        return None if found is None or found[0] == shape else found[1]
