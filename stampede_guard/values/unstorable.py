"""A value that no bytes can hold, in the place of its bytes: it goes to the callers of one flight, and nowhere else."""

from __future__ import annotations

from typing import Any

from stampede_guard.values.annotations import live_kind
from stampede_guard.values.errorcopies import NoCopy, data_copy_of, is_for_one

__all__ = ["NoCopy", "Unstorable"]


class Unstorable(bytes):
    """The value, beside bytes that are empty or hold the versions of its tags."""

    value: Any
    _is_given = False
    _has_copies = True

    @classmethod
    def of(cls, value: Any, data: bytes = b"") -> Unstorable:
        made = cls(data)
        made.value = value
        return made

    @property
    def is_for_one(self) -> bool:
        """Whether a second caller could not use the object. One that only holds such an object has no copies."""
        kind = type(self.value)
        return live_kind(kind) is not None or is_for_one(kind)

    def another(self) -> Any:
        """The value for one more caller. Lists, dictionaries and records in it are copied, other objects are shared.

        Raises `NoCopy` if they are too many or too deep, or if one of them cannot be copied or is for one caller.
        """
        if not self._is_given:
            self._is_given = True
            return self.value
        if not self._has_copies:
            raise NoCopy
        # An attempt costs time, and thousands of callers may ask.
        self._has_copies = False
        copied = data_copy_of(self.value)
        self._has_copies = True
        return copied
