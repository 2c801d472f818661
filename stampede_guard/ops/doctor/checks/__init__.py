"""One file per check: `check(facts)` or `check(facts, server)` returns findings. The order is that of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stampede_guard.ops.doctor.checks import (
    clock,
    cluster,
    eviction,
    latency,
    memory,
    numsub,
    persistence,
    reachability,
    rights,
    role,
    switches,
    tls,
    version,
    versions,
)
from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["OF_EACH_SERVER", "OF_THE_WHOLE"]

OF_THE_WHOLE: tuple[Callable[[Facts], Iterator[Diagnosis]], ...] = (
    reachability.check,
    cluster.check,
    tls.check,
    versions.check,
    switches.check,
)
OF_EACH_SERVER: tuple[Callable[[Facts, ServerFacts], Iterator[Diagnosis]], ...] = (
    latency.check,
    version.check,
    role.check,
    rights.check,
    numsub.check,
    eviction.check,
    memory.check,
    clock.check,
    persistence.check,
)
