"""Whether the schedule that counts has been left by all who followed it, as a worker with another one sees it.

Old and new pods may be there at once, and one of the old is started again: its schedule counts, being the last that was
registered. When the old pods go, somebody must notice. So each worker whose schedule counts says so at every sweep,
half an `alive_for` apart, and each sign is good for twice `alive_for`: four signs, of which three may be late or lost.
A worker that says nothing for so long has lost its runs, too, by half of it.

Nobody is to lose a schedule for nothing, and two deployments that are both there must not take it from each other:

* The back end compares in one step, on its own clock, so a sign that comes in time always wins.
* But that clock may be set, and the back end, or everybody's machine, may have been away, so that no sign could be
  given. So a worker takes over only what it has seen quiet for as long itself: look after look was answered, none
  showed another sign, and each counts for no more than the time between two signs.
* Who has lost it so takes it back only by the same rule. As long as the other gives signs, he does not.

Schedules that another scheduler keeps are followed without signs (`seen_for` = 0): of those only slots without an
outcome tell, see `deadman.deserted`.
"""

from __future__ import annotations

from stampede_guard.leases.runs.words import JobView

__all__ = ["SEEN_FOR", "SIGNS", "Watch"]

SEEN_FOR = 2.0
"""Times `alive_for` for which a sign is good."""
SIGNS = 4
"""Signs in that time."""


class Watch:
    """`mine`: the fingerprint of the schedule that the worker has."""

    def __init__(self, mine: str) -> None:
        self._mine = mine
        self._sign: tuple[str, float] | None = None
        self._looked_at = 0.0
        self._quiet = 0.0

    def left(self, view: JobView, *, now: float) -> bool:
        """One look, `now` on the worker's clock: whether another schedule counts that was quiet for too long."""
        sign = (view.fingerprint, view.seen_at)
        if sign == self._sign:
            self._quiet += min(now - self._looked_at, self.pause(view))
        else:
            self._sign, self._quiet = sign, 0.0
        self._looked_at = now
        return view.fingerprint != self._mine and 0.0 < view.seen_for <= self._quiet

    def blind(self) -> None:
        """A look was not answered: nobody else may have come through with a sign, either."""
        self._sign = None

    @staticmethod
    def pause(view: JobView) -> float:
        """Seconds from one look to the next, in which there should have been a sign."""
        return view.seen_for / SIGNS
