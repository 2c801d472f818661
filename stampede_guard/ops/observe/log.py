"""Log lines for operators, through `logging` or a structlog logger. No line per request."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any

from stampede_guard import events
from stampede_guard.events import Event
from stampede_guard.options import takes_options

__all__ = ["LogHook"]

_LEVELS: dict[type, int] = {
    events.Computed: logging.DEBUG,
    events.Collapsed: logging.INFO,
    events.Fallback: logging.WARNING,
    events.TimedOut: logging.WARNING,
    events.TakenOver: logging.WARNING,
    events.LeaseLapsed: logging.WARNING,
    events.BreakerOpened: logging.ERROR,
    events.BreakerClosed: logging.WARNING,
    events.Refused: logging.ERROR,
    events.Recovered: logging.WARNING,
    events.LeaseWon: logging.INFO,
    events.LeaseReleased: logging.INFO,
    events.LeaseSkipped: logging.INFO,
    events.JobStarted: logging.INFO,
    events.JobEnded: logging.INFO,
    events.JobOverdue: logging.ERROR,
    events.JobOnTime: logging.INFO,
    events.HoldLost: logging.ERROR,
}
_NEVER = ("entry",)
"""It contains values of parameters."""
_SUMMARIZED = (
    events.Computed,
    events.Collapsed,
    events.Fallback,
    events.TimedOut,
    events.TakenOver,
    events.LeaseLapsed,
)
"""There may be one of these per call."""
SUMMARY_SECONDS = 10.0
MOST_SUMMARIES = 1000


class LogHook:
    """`logger` is a structlog logger (anything with `bind`) or one of `logging`; default: `stampede_guard.events`.

    Each line is the event's name with its fields: as keywords for structlog, in `extra=` (and in the text) for
    `logging`. Levels: computations DEBUG (a failed one WARNING), herds INFO, faults WARNING, the opening breaker
    ERROR. Hits, stale hits, misses, waits, soft time-outs and invalidations are not logged. A caller whose
    `wait_timeout` ran out has a line of its own. A guard without hooks writes a line per herd; with this hook it
    does not.

    Some events may occur at every call. For these, one kind of event of one function is logged at most every
    `every` seconds (10 by default, 0 = each). The next line gives the number of lines left out since then in
    `suppressed`.
    """

    logs_herds = True

    @takes_options("LogHook")
    def __init__(
        self,
        logger: Any = None,
        *,
        every: float = SUMMARY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every = every
        self._clock = clock
        self._summaries: dict[tuple[Any, ...], _Summary] = {}
        self._logger: Any = logging.getLogger("stampede_guard.events") if logger is None else logger
        self._structured = hasattr(self._logger, "bind")

    def __call__(self, event: Event, /) -> None:
        level = _LEVELS.get(type(event))
        if level is None or (isinstance(event, events.TimedOut) and event.what == "soft_timeout"):
            # A soft time-out serves a stale value as configured, to each caller of a herd.
            return
        if isinstance(event, events.Computed) and event.error:
            level = logging.WARNING
        if not self._structured and not self._logger.isEnabledFor(level):
            return
        suppressed = self._suppressed(event, level) if self._every > 0 else 0
        if suppressed is None:
            return
        name = f"stampede_guard.{_snake(type(event).__name__)}"
        fields: dict[str, Any] = {
            field.name: getattr(event, field.name)
            for field in dataclasses.fields(event)
            if field.name not in _NEVER
        }
        if suppressed:
            fields["suppressed"] = suppressed
        if self._structured:
            self._logger.log(level, name, **fields)
        else:
            text = " ".join(f"{key}={value}" for key, value in fields.items() if value != "")
            self._logger.log(level, "%s %s", name, text, extra=fields)

    def _suppressed(self, event: Event, level: int) -> int | None:
        """How many similar events were left out since the last line. None if this event is left out, too."""
        if not isinstance(event, _SUMMARIZED):
            return 0
        like = (type(event), event.function, level, getattr(event, "what", ""))
        now, summary = self._clock(), self._summaries.get(like)
        if summary is None:
            if len(self._summaries) >= MOST_SUMMARIES:
                self._summaries.clear()
            summary = self._summaries[like] = _Summary(now - self._every)
        if now - summary.since < self._every:
            summary.left_out += 1
            return None
        left_out, summary.since, summary.left_out = summary.left_out, now, 0
        return left_out


@dataclasses.dataclass(slots=True)
class _Summary:
    """For the events of one kind and function: the time of the last line, and the number of events left out since
    then.
    """

    since: float
    left_out: int = 0


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
