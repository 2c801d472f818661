"""The durations of a lease, and the conditions that make it safe and prevent an unnecessary loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TypedDict, Unpack

from stampede_guard.durations import Duration, advice, seconds
from stampede_guard.errors import PolicyError

__all__ = ["JOB_TTL", "LEADER_TTL", "Timing", "TimingOptions", "job_timing", "leader_timing"]

JOB_TTL = 60.0
LEADER_TTL = 15.0
RHO = 0.01
SHORTEST_TTL = 0.2
RETRIES = 4
"""Retries of a failed renewal between two regular renewals, but at most one per second."""
SLOWEST_POLL = 4
"""If calls do not arrive: a waiter multiplies `poll_every` by its position in the queue, at most by this."""
FARTHEST_POLL = 40
"""If calls arrive: the same, at most by this. The back end calls the waiter in time."""
WATCHING = 20
"""So many waiters also ask when the lease should end: a dead holder releases nothing, so no waiter would be called."""
TURN = 3
"""How long a called place lasts, as a multiple of `poll_every`, if calls arrive."""
JITTER = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All values are in seconds, except `rho`. Raises `PolicyError`, which names the field and the rule.

    | field | meaning |
    |---|---|
    | `lease_ttl` | the back end may grant the lease to others this long after the last renewal |
    | `renew_every` | from one renewal to the next |
    | `request_timeout` | the time-out of each request |
    | `grace` | the body gets the signal to stop this long before belief ends |
    | `poll_every` | a waiter asks this often; a release wakes it earlier |
    | `rho` | the clocks of a holder and of the back end differ at most by this rate |
    | `margin` | subtracted for errors that no rate covers: a clock's tick, a late event loop |
    """

    lease_ttl: float
    renew_every: float
    request_timeout: float
    grace: float
    poll_every: float = 1.0
    rho: float = RHO
    margin: float = 0.25

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise PolicyError(field.name, value, "write a number of seconds")
            least = 0.0 if field.name in ("grace", "rho", "margin") else None
            if value < 0 or (value == 0 and least is None):
                raise PolicyError(field.name, value, "it must be greater than 0")
        if self.lease_ttl < SHORTEST_TTL:
            raise PolicyError("lease_ttl", self.lease_ttl, f"it must be at least {SHORTEST_TTL:g} s")
        if self.rho >= 0.5:
            raise PolicyError("rho", self.rho, "it is a difference in rate, below 0.5; 0.01 is 1 %")
        if self.renew_every >= self.lease_ttl:
            raise PolicyError(
                "renew_every", self.renew_every, f"it must be below lease_ttl={self.lease_ttl:g}"
            )
        if self.renew_every + self.request_timeout >= self.trusted - self.grace:
            raise PolicyError(
                "grace",
                self.grace,
                f"renew_every + request_timeout + grace must be below lease_ttl * (1 - rho) - margin = "
                f"{self.trusted:g}, or one slow renewal would end the lease",
            )

    @property
    def trusted(self) -> float:
        """Seconds of belief from one answer, counted from before its request was sent."""
        return self.lease_ttl * (1 - self.rho) - self.margin

    def deadline(self, sent_at: float) -> float:
        """The end of belief after an answer to a request sent at `sent_at`, on the holder's own clock."""
        return sent_at + self.trusted

    @property
    def retry_every(self) -> float:
        return min(1.0, self.renew_every / RETRIES)

    @property
    def place(self) -> float:
        """The seconds that a new place in the queue is requested for."""
        return self.place_for(-1, hears=False)

    def place_for(self, ahead: int, *, hears: bool) -> float:
        """How long a place in the queue lasts: one lost request must not lose the place.

        A waiter that watches for the lease's end keeps its place at most for `lease_ttl`. Otherwise, if a pod with the
        lease and a place died, the others would wait for the end of the lease and then for the end of the place.
        `ahead` -1: unknown. `hears`: whether calls arrive.
        """
        behind = self._behind(ahead if ahead >= 0 else SLOWEST_POLL, hears)
        needed = 1.5 * (self.poll_every * behind * (1 + JITTER) + self.request_timeout)
        if ahead >= WATCHING and hears:
            return needed
        return min(self.lease_ttl, needed)

    def turn(self, *, hears: bool) -> float:
        """How long a place lasts once it was called; 0 = unchanged."""
        return self.poll_every * TURN + self.request_timeout if hears else 0.0

    def next_question(
        self, remaining: float, ahead: int, draw: float, *, place: float | None = None, hears: bool = False
    ) -> float:
        """Seconds until the next request. `draw` is a random number from 0 to 1, so that waiters do not ask together.

        `place`: the seconds that the last request asked its place for.
        """
        regular = self.poll_every * self._behind(ahead, hears) * (1 + JITTER * draw)
        # At most half the time of a place, so that one lost request does not lose the place.
        latest = min(regular, (self.place if place is None else place) / 2)
        if ahead >= WATCHING and hears:
            return latest
        return min(max(remaining, 0.0) + JITTER * draw * min(1.0, self.poll_every), latest)

    @staticmethod
    def _behind(ahead: int, hears: bool) -> int:
        return min(max(ahead, 0) + 1, FARTHEST_POLL if hears else SLOWEST_POLL)

    def after_waking(self, ahead: int, draw: float) -> float:
        """Seconds from a release until the request: the next waiter asks at once, the others after it in order."""
        behind = ahead if ahead >= 0 else SLOWEST_POLL
        return min(behind, SLOWEST_POLL) * 0.05 * self.poll_every * (0.5 + draw)


class TimingOptions(TypedDict, total=False):
    """Durations that follow from `lease_ttl` if they are not given: see `Timing`."""

    grace: Duration | None
    renew_every: Duration | None
    request_timeout: Duration | None
    poll_every: Duration | None


def job_timing(lease_ttl: Duration = JOB_TTL, **given: Unpack[TimingOptions]) -> Timing:
    """For work that runs once: 60 s, renewed every 20 s, 3 s per request. Shorter leases in proportion."""
    return _timing(lease_ttl, 3.0, **given)


def leader_timing(lease_ttl: Duration = LEADER_TTL, **given: Unpack[TimingOptions]) -> Timing:
    """For a leader, which should be replaced soon after a crash: 15 s, renewed every 5 s, 2 s per request."""
    return _timing(lease_ttl, 2.0, **given)


def _timing(
    lease_ttl: Duration,
    most_timeout: float,
    *,
    grace: Duration | None = None,
    renew_every: Duration | None = None,
    request_timeout: Duration | None = None,
    poll_every: Duration | None = None,
) -> Timing:
    ttl = _checked("lease_ttl", lease_ttl)
    usual_timeout = min(most_timeout, ttl / 7.5)
    return Timing(
        lease_ttl=ttl,
        renew_every=ttl / 3 if renew_every is None else _checked("renew_every", renew_every),
        request_timeout=usual_timeout
        if request_timeout is None
        else _checked("request_timeout", request_timeout),
        grace=ttl / 12 if grace is None else _checked("grace", grace),
        poll_every=min(1.0, ttl / 15) if poll_every is None else _checked("poll_every", poll_every),
        margin=min(0.25, ttl / 60),
    )


def _checked(field: str, given: Duration) -> float:
    value = seconds(given)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PolicyError(field, given, f"write a number of seconds{advice(given)}")
    return value
