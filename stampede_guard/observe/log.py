"""A log line for what an operator would want to know, through `logging` or a structlog logger. Nothing per request."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from stampede_guard import events
from stampede_guard.events import Event

__all__ = ["LogHook"]

_LEVELS: dict[type, int] = {
    events.Computed: logging.DEBUG,
    events.Collapsed: logging.INFO,
    events.Fallback: logging.WARNING,
    events.TimedOut: logging.WARNING,
    events.TakenOver: logging.WARNING,
    events.LeaseLost: logging.WARNING,
    events.BreakerOpened: logging.ERROR,
    events.BreakerClosed: logging.WARNING,
    events.LeaseWon: logging.INFO,
    events.LeaseReleased: logging.INFO,
    events.LeaseSkipped: logging.INFO,
    events.JobStarted: logging.INFO,
    events.JobEnded: logging.INFO,
    events.HoldLost: logging.ERROR,
}
_NEVER = ("entry",)
"""Holds values of parameters."""


class LogHook:
    """`logger` is a structlog logger (anything with `bind`) or one of `logging`; default: `stampede_guard.events`.

    Each line is the event's name with its fields: as keywords for structlog, in `extra=` (and in the text) for
    `logging`. Computations are of level DEBUG (a failed one WARNING), herds INFO, faults WARNING, the breaker's opening
    ERROR; hits, stale hits, misses, waits, soft time-outs and invalidations are not logged. A caller that waited
    `wait_timeout` in vain is a line of its own. The line that a guard without hooks writes for a herd is left out.
    """

    logs_herds = True

    def __init__(self, logger: Any = None) -> None:
        self._logger: Any = logging.getLogger("stampede_guard.events") if logger is None else logger
        self._structured = hasattr(self._logger, "bind")

    def __call__(self, event: Event, /) -> None:
        level = _LEVELS.get(type(event))
        if level is None or (isinstance(event, events.TimedOut) and event.what == "soft_timeout"):
            # A soft time-out is a stale value that was served as asked, to each caller of a herd.
            return
        if isinstance(event, events.Computed) and event.error:
            level = logging.WARNING
        name = f"stampede_guard.{_snake(type(event).__name__)}"
        fields = {
            field.name: getattr(event, field.name)
            for field in dataclasses.fields(event)
            if field.name not in _NEVER
        }
        if self._structured:
            self._logger.log(level, name, **fields)
        elif self._logger.isEnabledFor(level):
            text = " ".join(f"{key}={value}" for key, value in fields.items() if value != "")
            self._logger.log(level, "%s %s", name, text, extra=fields)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
