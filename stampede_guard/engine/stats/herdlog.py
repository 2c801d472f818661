"""The log line for collapsed callers: one for the first herd, then at most one every `SUMMARY_SECONDS` for all."""

from __future__ import annotations

import asyncio
import logging

from stampede_guard.engine.threads.levels import enabled

__all__ = ["SUMMARY_SECONDS", "HerdLog"]

log = logging.getLogger("stampede_guard")

SUMMARY_SECONDS = 10.0
MOST_NAMED = 5
"""The most functions that a summary names. It only counts the others."""
MOST_FUNCTIONS = 1000
"""The most functions that have their own count within a summary."""


class HerdLog:
    """The first herd is logged at once. Herds in the next `SUMMARY_SECONDS` then share one line."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._flights = 0
        self._callers: dict[str, int] = {}

    def landed(self, function: str, callers: int) -> None:
        """A flight of this function served so many callers, two or more."""
        if not enabled(log, logging.INFO):
            return
        if self._timer is None:
            extra = {"function": function, "callers": callers, "collapsed": callers - 1}
            log.info("%s: %d callers were served by one flight", function, callers, extra=extra)
            self._begin()
            return
        self._flights += 1
        if function not in self._callers and len(self._callers) >= MOST_FUNCTIONS:
            function = "other functions"
        self._callers[function] = self._callers.get(function, 0) + callers

    def close(self) -> None:
        """Log the herds that were counted and not yet logged."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._summarize()

    def _begin(self) -> None:
        self._timer = self._loop.call_later(SUMMARY_SECONDS, self._end)

    def _end(self) -> None:
        self._timer = None
        if self._flights:
            self._summarize()
            self._begin()

    def _summarize(self) -> None:
        flights, callers = self._flights, self._callers
        if not flights:
            return
        self._flights, self._callers = 0, {}
        most = sorted(callers, key=lambda function: (-callers[function], function))
        named = ", ".join(f"{function} {callers[function]}" for function in most[:MOST_NAMED])
        rest = f" and {len(most) - MOST_NAMED} more functions" if len(most) > MOST_NAMED else ""
        total = sum(callers.values())
        extra = {"callers": total, "flights": flights, "collapsed": total - flights}
        log.info("%d callers were served by %d flights: %s%s", total, flights, named, rest, extra=extra)
