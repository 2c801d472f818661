"""A passenger: one caller that waits for a flight."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from stampede_guard.core.entry import Reading

if TYPE_CHECKING:
    from stampede_guard.plan import Run, Variables

__all__ = ["ON_ITS_OWN", "OUT_OF_PATIENCE", "Passenger"]

Instead = Literal["stale", "fallback", "collapsed", "timeout", "cancelled"]

OUT_OF_PATIENCE: Any = object()
"""What a passenger's future gives when the waiting is over and there is no outcome."""
ON_ITS_OWN: Any = object()
"""What it gives when the caller is to compute for itself, at once: the flight's value is somebody else's."""


class Passenger:
    """`future` is the passenger's own, so that cancelling one caller cancels nobody else.

    `number` counts joins of its flight from 1. `stale` is a value that it would rather have than wait, or than wait
    longer than its `soft_timeout` if it is `patient`. `gone`: its caller left. `bound`: its `run` uses things of its
    caller's request; `computing` is then the task that runs there. `busy`: it is used by a fallback, and a request's
    things are for one at a time. `led`: its own call was computed. `instead`: what it got in the place of an outcome,
    when its time was over or it left. `share`: it may have the same object as others who may.
    """

    __slots__ = (
        "bound",
        "busy",
        "computing",
        "future",
        "gone",
        "instead",
        "led",
        "number",
        "patient",
        "run",
        "share",
        "stale",
        "variables",
    )

    def __init__(
        self,
        number: int,
        future: asyncio.Future[Any],
        run: Run,
        variables: Variables,
        *,
        bound: bool,
        stale: Reading | None,
        patient: bool = False,
        share: bool = False,
    ) -> None:
        self.number = number
        self.share = share
        self.future = future
        self.run = run
        self.variables = variables
        self.bound = bound
        self.stale = stale
        self.patient = patient
        self.gone = False
        self.busy = False
        self.led = False
        self.instead: Instead | None = None
        self.computing: asyncio.Task[Any] | None = None

    def lose_patience(self) -> None:
        """Wake the caller without an outcome. What comes later comes to a new future.

        So that a caller can wait on its future itself: `asyncio.wait` with a time-out makes two more turns of the event
        loop of each wake-up, which count when fifty wake up at once.
        """
        if not self.future.done():
            waiting, self.future = self.future, self.future.get_loop().create_future()
            waiting.set_result(OUT_OF_PATIENCE)
