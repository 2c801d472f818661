"""Words for numbers of things."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, one: str, many: str = "") -> str:
    """`1 caller`, `2 callers`; `many` for words with another plural: `2 entries`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
