"""The values that mode `shadow` keeps for comparison, each under its own name and with the grant of its entry."""

from __future__ import annotations

from typing import NamedTuple

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Granted
from stampede_guard.values.keys.explained import KEPT_FOR_COMPARISON

__all__ = ["KeptForComparison", "closed", "kept_name", "opened"]


def kept_name(name: str) -> str:
    """The name under which an entry's value is kept for comparison. No entry's own name ends in this mark."""
    return name + KEPT_FOR_COMPARISON


class KeptForComparison(NamedTuple):
    """A value kept for comparison, and the grant of the entry under which it was computed."""

    reading: Reading
    grant: Granted


def closed(body: bytes, grant: Granted) -> bytes:
    return b"%d %s\n%s" % (grant.token, grant.epoch.encode(), body)


def opened(reading: Reading) -> KeptForComparison | None:
    """The kept value. None for bytes that `closed` did not write."""
    head, line_end, body = reading.body.partition(b"\n")
    token, _, epoch = head.partition(b" ")
    try:
        return (
            KeptForComparison(reading._replace(body=body), Granted(int(token), epoch.decode()))
            if line_end
            else None
        )
    except ValueError:
        return None
