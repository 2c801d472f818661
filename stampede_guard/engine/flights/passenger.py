"""A passenger: one caller that waits for a flight."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from stampede_guard.core.entry import Reading
from stampede_guard.engine.told import Told, age_of

if TYPE_CHECKING:
    from stampede_guard.engine.plan import Run, Variables
    from stampede_guard.events import WaitOutcome

__all__ = ["ON_ITS_OWN", "OUT_OF_PATIENCE", "Passenger"]

Instead = Literal["stale", "fallback", "collapsed", "timeout", "cancelled"]

OUT_OF_PATIENCE: Any = object()
"""The result of a passenger's future when its waiting ends without an outcome."""
ON_ITS_OWN: Any = object()
"""The result when the caller must compute for itself at once: the flight's value is private to another caller."""


class Passenger:
    """Each passenger has its own `future`, so that cancelling one caller does not affect other callers.

    `number` counts the joins of its flight from 1. `stale` is a value that it prefers to waiting. If it is `patient`,
    it waits for `soft_timeout` first. `gone`: its caller left. `bound`: its `run` uses objects of its caller's request;
    `computing` is then the task that runs in that request. `busy`: a fallback uses it. The objects of a request serve
    one computation at a time. `led`: its own call was computed. `instead`: the replacement of an outcome, when its time
    was over or it left. `share`: it may get the same object as other callers with `share`.
    `age`: seconds since the value that it got was stored. `refreshes`: a value from before its call does not answer it.
    """

    __slots__ = (
        "age",
        "bound",
        "busy",
        "computing",
        "future",
        "gone",
        "instead",
        "led",
        "number",
        "patient",
        "refreshes",
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
        self.age = 0.0
        self.share = share
        self.future = future
        self.run = run
        self.variables = variables
        self.bound = bound
        self.stale = stale
        self.patient = patient
        self.refreshes = False
        self.gone = False
        self.busy = False
        self.led = False
        self.instead: Instead | None = None
        self.computing: asyncio.Task[Any] | None = None

    def outcome(self) -> WaitOutcome | None:
        """How its wait for this flight ended. None if it continues to wait, for a computation of its own."""
        if self.instead is not None:
            return self.instead
        if not self.future.done() or self.future.exception() is not None:
            return "error"
        return None if self.future.result() is ON_ITS_OWN else "computed" if self.led else "collapsed"

    def tell(self, told: Told, *, bypassed: bool, waited: float) -> None:
        """Note how this caller was served, after a wait of so many seconds."""
        if bypassed:
            told.note("bypass")
        elif self.instead == "stale" and self.stale is not None:
            told.note("stale", age_of(self.stale) + waited)
        elif self.instead == "fallback":
            told.note("fallback")
        elif self.led and self.instead is None:
            told.note("computed")
        else:
            told.note("collapsed", self.age)

    def lose_patience(self) -> None:
        """Wake the caller without an outcome. A later outcome goes to a new future.

        So a caller can wait on its future directly. `asyncio.wait` with a time-out adds two turns of the event loop to
        each wake-up. This is noticeable when fifty callers wake up at once.
        """
        if not self.future.done():
            waiting, self.future = self.future, self.future.get_loop().create_future()
            waiting.set_result(OUT_OF_PATIENCE)
