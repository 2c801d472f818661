"""What stands before the first colon of a user's own key is its kind: keys of one kind have values of the same types.

A kind is for the guard's own books. `report:7` begins with the name of a report, and `ann:report` with that of a user.
No rule about words tells these apart. So events, logs, metrics and errors call such keys `get_or_compute`, or what the
program says with `name=`.
"""

from __future__ import annotations

__all__ = ["UNNAMED", "kind_of"]

UNNAMED = "get_or_compute"
_LONGEST = 40


def kind_of(key: str) -> str:
    kind, colon, _ = key.partition(":")
    return kind[:_LONGEST] if colon else UNNAMED
