"""When a job is due: a cron expression in a time zone, or an interval from an anchor.

All workers must compute the same slots independently. So a slot follows from the schedule alone, and never from the
start of a worker or the end of a run.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol
from zoneinfo import ZoneInfo

from stampede_guard import durations
from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.jobs.schedules.realtime import first_match
from stampede_guard.jobs.schedules.zones import zone_of

__all__ = ["Cron", "Every", "Schedule", "fingerprint", "moment", "rhythm", "slot_of", "slots_after"]

DAY = 86_400
_LONGEST = 3_660 * DAY
_SAMPLE = 128
"""Slots that `rhythm` reads for the longest gap: more than four months of daily slots, or two years of weekly ones."""


class Schedule(Protocol):
    """A series of slots in ascending order. A slot is whole milliseconds since 1970 in UTC."""

    @property
    def text(self) -> str:
        """The schedule as text, for people and for `fingerprint`. Schedules with the same slots may differ in it."""

    def after(self, slot: int) -> int | None:
        """The first slot later than this moment; None = there is none."""


@dataclass(frozen=True, slots=True)
class Every:
    """A slot every `seconds`, counted from `anchor` (milliseconds since 1970)."""

    seconds: float
    anchor: int = 0

    if TYPE_CHECKING:
        # More types may be given than are read.
        def __init__(self, seconds: Duration, anchor: int = 0) -> None: ...

    def __post_init__(self) -> None:
        given = self.seconds
        object.__setattr__(self, "seconds", durations.seconds(given))
        if not _is_number(self.seconds) or not math.isfinite(self.seconds):
            rule = "seconds between two slots, such as 300"
            raise PolicyError("every", given, rule + durations.advice(given))
        if self.seconds < 1:
            raise PolicyError("every", self.seconds, "at least 1 second; for less, loop inside one run")
        if self.seconds > _LONGEST:
            raise PolicyError("every", self.seconds, f"seconds, at most {_LONGEST:g}, which is ten years")
        if self.seconds != self.step / 1000:
            raise PolicyError("every", self.seconds, f"whole milliseconds, such as {self.step / 1000!r}")

    @classmethod
    def of(cls, seconds: Duration, *, anchor: datetime | None = None) -> Every:
        """Without an anchor, slots count from midnight in UTC, and `seconds` must divide a day.

        Raises `PolicyError` if the interval is not a number, is below one second, or needs an anchor and has none.
        Raises it also for an anchor without a time zone.
        """
        made = cls(seconds)
        if anchor is None:
            if DAY * 1000 % made.step:
                raise PolicyError(
                    "anchor",
                    None,
                    f"every={made.seconds:g} does not divide a day, so its slots depend on where counting begins; "
                    "write anchor=datetime(2026, 1, 1, tzinfo=UTC)",
                )
            return cls(float(made.seconds))
        return cls(float(made.seconds), slot_of(_aware("anchor", anchor)))

    @property
    def text(self) -> str:
        since = f" from {moment(self.anchor).isoformat()}" if self.anchor else ""
        # All milliseconds: the text tells two schedules apart.
        return f"every {f'{self.seconds:.3f}'.rstrip('0').rstrip('.')} s{since}"

    @property
    def step(self) -> int:
        """Milliseconds between two slots. 1.001 s are 1000.9999999999999 ms for a float."""
        return round(self.seconds * 1000)

    def after(self, slot: int) -> int:
        return self.anchor + ((slot - self.anchor) // self.step + 1) * self.step


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields, or six with seconds first, as Debian's cron reads them. `zone` is an IANA time zone.

    When clocks are put forward, a slot in the missing hour runs just after that hour. When clocks are put back, a slot
    with a fixed hour runs once. A schedule with `*` in minute or hour follows real time: it skips and repeats nothing.
    """

    expression: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            from cronsim import CronSim, CronSimError
        except ImportError:
            raise Misuse(
                "cron expressions need one more package: pip install '.[jobs]' in a clone of the repository"
            ) from None
        zone = zone_of(self.zone)
        if not isinstance(self.expression, str):
            raise PolicyError("cron", self.expression, _CRON_RULE)
        try:
            next(CronSim(self.expression, datetime(2026, 1, 1, tzinfo=zone)))
        except CronSimError as error:
            raise PolicyError("cron", self.expression, f"{_CRON_RULE}; {error}") from None
        except StopIteration:
            raise PolicyError(
                "cron", self.expression, "an expression that matches some date; this one never does"
            ) from None

    @classmethod
    def of(cls, expression: str, *, tz: str | ZoneInfo = "UTC") -> Cron:
        """Raises `PolicyError` for an invalid expression, one that never matches, or an unknown time zone.

        Raises `Misuse` if the package `cronsim`, which reads expressions, is missing.
        """
        return cls(_words(expression), tz.key if isinstance(tz, ZoneInfo) else tz)

    @property
    def text(self) -> str:
        return f"{self.expression} {self.zone}"

    def after(self, slot: int) -> int | None:
        from cronsim import CronSim

        zone = ZoneInfo(self.zone)
        if self._follows_real_time:
            found = first_match(self._wall_after, zone, moment(slot))
            return None if found is None else slot_of(found)
        for named in CronSim(self.expression, moment(slot).astimezone(zone)):
            later = slot_of(named)
            if later > slot:
                return later
        return None

    @property
    def _follows_real_time(self) -> bool:
        """Whether minute or hour begins with `*`, or there are seconds. Debian's cron runs those by real time."""
        words = self.expression.split()
        return len(words) == 6 or words[0].startswith("*") or words[1].startswith("*")

    def _wall_after(self, wall: datetime) -> datetime | None:
        from cronsim import CronSim

        return next(CronSim(self.expression, wall), None)


_CRON_RULE = "minute hour day month weekday, such as '0 3 * * *' for three in the morning"


def fingerprint(schedule: Schedule) -> str:
    """A short text. It differs if the texts of two schedules differ."""
    return hashlib.sha256(schedule.text.encode()).hexdigest()[:16]


def slots_after(schedule: Schedule, slot: int) -> Iterator[int]:
    """The slots later than this moment, in order."""
    following = schedule.after(slot)
    while following is not None:
        yield following
        following = schedule.after(following)


def rhythm(schedule: Schedule, slot: int) -> float:
    """The longest gap between two slots after this moment, in seconds; 0 if fewer than two slots follow."""
    longest, earlier = 0, None
    for seen, found in enumerate(slots_after(schedule, slot)):
        if earlier is not None:
            longest = max(longest, found - earlier)
        earlier = found
        if seen >= _SAMPLE:
            break
    return longest / 1000


def slot_of(when: datetime) -> int:
    """A moment as a slot: whole milliseconds since 1970, computed without floats."""
    since = when.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * DAY + since.seconds) * 1000 + since.microseconds // 1000


def moment(slot: int) -> datetime:
    """A slot as a moment in UTC."""
    whole, rest = divmod(slot, 1000)
    return datetime.fromtimestamp(whole, tz=UTC).replace(microsecond=rest * 1000)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _words(expression: Any) -> Any:
    """Put one space between two words. Any object that is not text is returned unchanged, and refused later."""
    return " ".join(expression.split()) if isinstance(expression, str) else expression


def _aware(field: str, when: Any) -> datetime:
    if not isinstance(when, datetime) or when.tzinfo is None:
        raise PolicyError(
            field, when, "a datetime with a time zone, such as datetime(2026, 1, 1, tzinfo=UTC)"
        )
    try:
        when.astimezone(UTC)
    except OverflowError:
        raise PolicyError(field, when, "a datetime whose year is 1 to 9999 in UTC, too") from None
    return when
