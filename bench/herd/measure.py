"""From raw observations to figures. Pure: the same recording always gives the same figures.

An expiry is recognised in the database, not in the cache: the aggregate was quiet, then it ran again. All of its calls
until it is quiet again belong to that expiry. The number of calls is a difference of pg_stat_statements' counter: from
just before the burst to just before the next one. So a call that no sample saw running is counted too.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bench.herd.recording import DatabaseSample, Recording, Request

__all__ = ["AFTER_EXPIRY", "Burst", "Figures", "Latency", "find_bursts", "measure", "percentile"]

AFTER_EXPIRY = 3.0
_SLOW = 2.0
_LEADERS_START = 0.1  # the request that finds the entry missing began a little before its query


@dataclass(frozen=True, slots=True)
class Burst:
    """The aggregate ran, from the first call's start to the last call's end (as far as samples saw it)."""

    start: float
    end: float
    queries: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in seconds. All are nan if there was no request."""

    count: int
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Latency:
        ordered = sorted(seconds)
        if not ordered:
            return cls(0, math.nan, math.nan, math.nan, math.nan)
        p50, p95, p99 = (percentile(ordered, share) for share in (0.50, 0.95, 0.99))
        return cls(len(ordered), p50, p95, p99, ordered[-1])


@dataclass(frozen=True, slots=True)
class Figures:
    """One mode's figures, from the moment all users were there. Times in seconds, CPU in percent of the machine."""

    expiries: list[float]
    queries_per_expiry: list[int]
    redis_commands_per_expiry: list[int] | None
    redis_commands_per_request: float | None
    peak_concurrent_queries: int
    db_cpu_peak: float | None
    db_cpu_mean: float | None
    others_cpu_mean: float
    others_cpu_peak: float
    latency: Latency
    latency_after_expiry: Latency
    share_over_2s: float
    requests: int
    requests_per_second: float
    errors: int
    workers: int
    collapsed_per_expiry: list[int] = field(default_factory=list)


def measure(recording: Recording, *, quiet: float) -> Figures:
    """The figures of one trial. `quiet` seconds without the aggregate separate one expiry from the next."""
    begin, end = recording.ramped, recording.stopped
    counted = [
        burst
        for burst in find_bursts(recording.database, quiet=quiet)
        if begin <= burst.start <= end - AFTER_EXPIRY
    ]
    requests = [request for request in recording.requests if request.start >= begin]
    after = [
        request.seconds
        for request in requests
        if any(-_LEADERS_START <= request.start - burst.start < AFTER_EXPIRY for burst in counted)
    ]
    cpu = [sample for sample in recording.cpu if begin <= sample.time <= end]
    database_cpu = [100 * sample.database for sample in cpu if sample.database is not None]
    others_cpu = [100 * sample.others for sample in cpu]
    per_expiry, per_request = _redis_commands(recording, counted, len(requests))
    return Figures(
        expiries=[burst.start - begin for burst in counted],
        queries_per_expiry=[burst.queries for burst in counted],
        redis_commands_per_expiry=per_expiry,
        redis_commands_per_request=per_request,
        peak_concurrent_queries=max(
            (len(sample.running) for sample in recording.database if sample.time >= begin), default=0
        ),
        db_cpu_peak=max(database_cpu, default=None),
        db_cpu_mean=_mean(database_cpu),
        others_cpu_mean=_mean(others_cpu) or 0.0,
        others_cpu_peak=max(others_cpu, default=0.0),
        latency=Latency.of(request.seconds for request in requests),
        latency_after_expiry=Latency.of(after),
        share_over_2s=sum(request.seconds > _SLOW for request in requests) / max(1, len(requests)),
        requests=len(requests),
        requests_per_second=len(requests) / max(0.001, end - begin),
        errors=sum(request.failed for request in recording.requests),
        workers=len({request.worker for request in recording.requests} - {0}),
        collapsed_per_expiry=[_collapsed(requests, burst) for burst in counted],
    )


def _collapsed(requests: Sequence[Request], burst: Burst) -> int:
    """Those that came while the application was at it, and say that they were served by its one call."""
    return sum(
        request.collapsed and -_LEADERS_START <= request.start - burst.start <= burst.end - burst.start
        for request in requests
    )


def find_bursts(samples: Sequence[DatabaseSample], *, quiet: float) -> list[Burst]:
    """The runs of the aggregate, in order of time, with the calls that each of them cost."""
    spans: list[tuple[float, float]] = []
    for start, end in sorted(_executions(samples)):
        if spans and start - spans[-1][1] < quiet:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((start, end))
    times = [sample.time for sample in samples]

    def calls_before(moment: float) -> int:
        return samples[max(0, bisect.bisect_left(times, moment) - 1)].calls

    borders = [calls_before(start) for start, _ in spans] + [samples[-1].calls if samples else 0]
    return [
        Burst(start, end, after - before)
        for (start, end), (before, after) in zip(spans, itertools.pairwise(borders), strict=True)
    ]


def percentile(ordered: Sequence[float], share: float) -> float:
    """Linear between the two nearest ranks of an ordered, non-empty sequence."""
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _executions(samples: Sequence[DatabaseSample]) -> list[tuple[float, float]]:
    last_seen: dict[tuple[int, float], float] = {}
    for sample in samples:
        for execution in sample.running:
            last_seen[execution] = sample.time
    ended = [  # also finds a call so short, or a sampler so starved, that no sample saw it running
        (earlier.time, later.time)
        for earlier, later in itertools.pairwise(samples)
        if later.calls > earlier.calls
    ]
    return [*((since, seen) for (_, since), seen in last_seen.items()), *ended]


def _redis_commands(
    recording: Recording, bursts: Sequence[Burst], requests: int
) -> tuple[list[int] | None, float | None]:
    """Commands while each herd lasted (its hits and misses alike), and per request in the whole trial."""
    if recording.redis_commands is None:
        return None, None
    times = sorted(recording.redis_commands)

    def between(start: float, end: float) -> int:
        return bisect.bisect_right(times, end) - bisect.bisect_left(times, start)

    per_expiry = [between(burst.start - _LEADERS_START, burst.end + _LEADERS_START) for burst in bursts]
    return per_expiry, between(recording.ramped, math.inf) / max(1, requests)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
