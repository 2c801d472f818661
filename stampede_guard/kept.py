"""What mode `shadow` keeps of an entry to compare with: under a name of its own, with the grant of its entry."""

from __future__ import annotations

from typing import NamedTuple

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Granted
from stampede_guard.keys.explained import KEPT_FOR_COMPARISON

__all__ = ["Compared", "closed", "kept_name", "opened"]


def kept_name(name: str) -> str:
    """Where values of an entry are kept that are there to be compared. No entry's name ends in this mark."""
    return name + KEPT_FOR_COMPARISON


class Compared(NamedTuple):
    """What was kept for comparison, and the grant of the entry that it was computed with."""

    reading: Reading
    grant: Granted


def closed(body: bytes, grant: Granted) -> bytes:
    return b"%d %s\n%s" % (grant.token, grant.epoch.encode(), body)


def opened(reading: Reading) -> Compared | None:
    """None for bytes that no look has kept."""
    head, line_end, body = reading.body.partition(b"\n")
    token, _, epoch = head.partition(b" ")
    try:
        return (
            Compared(reading._replace(body=body), Granted(int(token), epoch.decode())) if line_end else None
        )
    except ValueError:
        return None
