"""What a flight knows of its passengers, and who of them waits."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Aboard"]


class Aboard(NamedTuple):
    """The passengers without an outcome: how many, how many of them without a stale value, and whether one waits.

    A caller waits if it has no stale value, or if it is patient with its stale value.
    """

    callers: int = 0
    wanting: int = 0
    waits: bool = False

    def want(self, *, early: bool) -> bool:
        """A background refresh has no passengers. It waits too, so that stale hits send no commands in that time."""
        return self.waits or not (self.callers or early)

    def still_want(self, *, lingers: bool) -> bool:
        """A flight that lingers waits on after its last passenger gave up."""
        return self.waits or (lingers and not self.callers)
