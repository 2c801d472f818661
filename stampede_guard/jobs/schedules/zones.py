"""A time zone by its IANA name."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stampede_guard.errors import PolicyError

__all__ = ["zone_of"]


def zone_of(name: Any) -> ZoneInfo:
    """Raises `PolicyError` for an unknown name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise PolicyError(
            "tz",
            name,
            "a time zone's IANA name, such as 'Europe/Berlin' (is the package tzdata installed?)",
        ) from None
