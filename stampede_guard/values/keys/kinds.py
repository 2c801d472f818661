"""The kind of a user's own key is the text before its first colon. Keys of one kind have values of the same types.

The guard uses kinds internally only. `report:7` begins with the name of a report, but `ann:report` begins with the name
of a user. No rule can distinguish the two. So events, logs, metrics and errors use the program's `name=` for such keys,
or `get_or_compute`.
"""

from __future__ import annotations

__all__ = ["UNNAMED", "kind_of"]

UNNAMED = "get_or_compute"
_LONGEST = 40


def kind_of(key: str) -> str:
    kind, colon, _ = key.partition(":")
    return kind[:_LONGEST] if colon else UNNAMED
