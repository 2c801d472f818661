"""What stands before the first colon of a user's own key: its kind, and whether that may be shown.

`report:7` is a report. `ann@example.org:report` is somebody's, and no log, metric or error may say whose. So a kind is
a name only if it is a word as programs have them; everything that looks like a value is called `get_or_compute`.
"""

from __future__ import annotations

import re

__all__ = ["UNNAMED", "kind_of", "name_of_kind"]

UNNAMED = "get_or_compute"
_LONGEST = 40
# Words of letters, each followed by two digits at most: no address, number, identifier, token or date.
_WORDS = re.compile(r"[a-z]{1,24}[0-9]{0,2}(?:[._-][a-z]{1,24}[0-9]{0,2}){0,5}").fullmatch


def kind_of(key: str) -> str:
    """Keys of one kind have values of the same types."""
    kind, colon, _ = key.partition(":")
    return kind[:_LONGEST] if colon else UNNAMED


def name_of_kind(kind: str) -> str:
    """The kind itself, or `get_or_compute` for one that may be a value."""
    return kind if len(kind) < _LONGEST and _WORDS(kind) else UNNAMED
