"""How long one read takes: every hit costs that."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["DEADLINE", "SLOW", "check"]

SLOW = 0.010
"""Seconds. Within one availability zone, a round trip takes under a millisecond."""
DEADLINE = 0.5
"""Seconds after which a guard gives up on a command: the same as in stores.settings."""


def check(facts: Facts, server: ServerFacts) -> Iterator[Diagnosis]:
    times = sorted(server.latencies)
    if not times:
        yield Diagnosis(
            "latency", "unknown", "no read was answered: " + server.errors.get("read", "not asked")
        )
        return
    median, worst = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
    seen = f"median {median * 1000:.2f} ms, P99 {worst * 1000:.2f} ms of {len(times)} reads"
    if worst > DEADLINE:
        mend = (
            f"a guard gives up after {DEADLINE:g} s: check for slow commands (SLOWLOG), swapping, a full CPU"
        )
        yield Diagnosis("latency", "fail", seen, mend)
    elif median > SLOW:
        yield Diagnosis(
            "latency", "warn", seen, "every hit costs this: put server and processes into one zone"
        )
    else:
        yield Diagnosis("latency", "ok", seen)
