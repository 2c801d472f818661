"""Whether all workers that followed the schedule in force are gone. A worker with another schedule finds that out.

Old and new pods may run at once. If an old pod restarts, it registers last, so its schedule is in force. When the old
pods go, a new pod must notice. So each worker whose schedule is in force sends a sign at every sweep, half an
`alive_for` apart. A sign is valid for twice `alive_for`, the time of four signs: three of them may be late or lost. A
worker that is silent for so long has lost its runs as well, after half that time.

No deployment may lose its schedule without cause, and two live deployments must not take it from each other:

* The back end compares in one step, on its own clock. So a sign that comes in time always wins.
* But an operator may set that clock. Or the back end, or all workers, were away, and no worker could send a sign. So a
  worker takes over only after it has itself seen silence for as long: the back end answered its looks, and no answer
  showed a new sign. Each look counts at most for the time between two signs.
* A worker that lost the schedule in this way takes it back only by the same rule. It does not do so while workers of
  the other schedule send signs.

Schedules that another scheduler keeps are followed without signs (`seen_for` = 0). Only their slots without an outcome
show that their workers are gone, see `deadman.deserted`.
"""

from __future__ import annotations

from stampede_guard.jobs.messages import JobView

__all__ = ["SEEN_FOR", "SIGNS", "Watch"]

SEEN_FOR = 2.0
"""A sign is valid for this many times `alive_for`."""
SIGNS = 4
"""Signs that a worker sends in that time."""


class Watch:
    """`mine`: the fingerprint of this worker's schedule."""

    def __init__(self, mine: str) -> None:
        self._mine = mine
        self._sign: tuple[str, float] | None = None
        self._looked_at = 0.0
        self._quiet = 0.0

    def left(self, view: JobView, *, now: float) -> bool:
        """Take in one look, at `now` on the worker's clock.

        Returns whether another schedule is in force that got no sign for too long.
        """
        sign = (view.fingerprint, view.seen_at)
        if sign == self._sign:
            self._quiet += min(now - self._looked_at, self.pause(view))
        else:
            self._sign, self._quiet = sign, 0.0
        self._looked_at = now
        return view.fingerprint != self._mine and 0.0 < view.seen_for <= self._quiet

    def blind(self) -> None:
        """A look got no answer. Other workers may also have failed to send their signs, so count anew."""
        self._sign = None

    @staticmethod
    def pause(view: JobView) -> float:
        """Seconds from one look to the next. A live worker sends a sign in that time."""
        return view.seen_for / SIGNS
