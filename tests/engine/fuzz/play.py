"""Plays a case, or a seed, from its beginning to its end, apart from whatever else the test process does."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
from unittest import mock

from stampede_guard.engine.modes.switches import Switches
from stampede_guard.values.ownerrors import OWN_ERRORS
from tests.engine.fuzz.case import Case
from tests.engine.fuzz.drawing import drawn
from tests.engine.fuzz.loops import Loops
from tests.engine.fuzz.scenario import Fleet
from tests.support.seeded import seeded

__all__ = ["play"]


def play(case: Case | int) -> Fleet:
    """The fleet after it has ended. The laws are not judged here."""
    case = drawn(case) if isinstance(case, int) else case
    loops = Loops(case.loops, case.seed)
    unraisable: list[str] = []
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        stack.callback(logging.disable, disabled)
        stack.enter_context(seeded(case.seed))
        stack.enter_context(
            mock.patch.object(sys, "unraisablehook", lambda told: unraisable.append(repr(told.exc_value)))
        )
        stack.enter_context(mock.patch.dict(Switches.__init__.__kwdefaults__, clock=loops.all[0].time))
        # Of earlier tests: the event loop would sweep until they are over.
        OWN_ERRORS.forget()
        fleet = Fleet(case, loops)
        for loop in loops.all:
            loop.set_exception_handler(
                lambda _, context: fleet.journal.problems.append(f"the event loop reports {context}")
            )
        try:
            asyncio.set_event_loop(loops.all[0])
            loops.run(fleet.run())
        finally:
            asyncio.set_event_loop(None)
            loops.close()
        fleet.tasks.clear()
        fleet.guards.clear()
        if case.seed % 20 == 0:
            gc.collect()
    fleet.journal.problems += unraisable
    return fleet
