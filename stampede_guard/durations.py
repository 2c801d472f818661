"""Durations as people write them: `300`, `"5m"`, `"1h30m"`, `timedelta(minutes=5)`. Inside, all are seconds.

A text is numbers with units, the largest unit first: `w`, `d`, `h`, `m` (minutes), `s`, `ms`. A number may have up to
three decimals. A number without a unit is refused as text: in one program it would be seconds, in another milliseconds.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

__all__ = ["Duration", "advice", "seconds"]

Duration = float | str | timedelta

_UNITS = {
    "weeks": "w", "days": "d", "hours": "h", "minutes": "m", "seconds": "s", "milliseconds": "ms",
}  # fmt: skip
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,3})?"
_PATTERN = re.compile("".join(f"(?:(?P<{name}>{_NUMBER}){unit})?" for name, unit in _UNITS.items()))
_LONGEST = 64
_BARE = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


def seconds(given: Any) -> Any:
    """The seconds of a text or a timedelta. Anything else is returned unchanged, also a text that is no duration.

    The caller then checks for a number in its range. Its error adds `advice(given)`.
    """
    if isinstance(given, timedelta):
        return given.total_seconds()
    if not isinstance(given, str) or not 0 < len(given) <= _LONGEST:
        return given
    found = _PATTERN.fullmatch(given)
    if found is None:
        return given
    try:
        # A timedelta counts whole microseconds, so that "1.1h" is 3960 seconds exactly.
        return timedelta(
            **{name: float(number or 0) for name, number in found.groupdict().items()}
        ).total_seconds()
    except OverflowError:
        return given


def advice(given: object) -> str:
    """What to write instead of something that is not a duration: the end of an error's rule. Empty for durations."""
    if isinstance(given, bool) or not isinstance(given, str | int | float | timedelta):
        return '; or a text such as "10m", or a timedelta'
    if not isinstance(given, str) or seconds(given) is not given:
        return ""
    bare = given.strip()
    if _BARE.fullmatch(bare):
        return f'; a text needs a unit: write {bare} or "{bare}s"'
    units = ", ".join(reversed(_UNITS.values()))
    return f'; a text is numbers with the units {units}, the largest first: "250ms", "10m", "1h30m"'
