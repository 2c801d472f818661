"""Whether every master answers."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts

__all__ = ["check"]

_MEND = "check address, port, password and network; while it is away every process computes for itself"


def check(facts: Facts) -> Iterator[Diagnosis]:
    if facts.failure:
        yield Diagnosis("reachability", "fail", f"{facts.url}: {facts.failure}", _MEND)
        return
    lost = [server for server in facts.servers if not server.reached]
    for server in lost:
        yield Diagnosis(
            "reachability", "fail", f"{server.address}: {server.errors.get('connect', '')}", _MEND
        )
    if not lost:
        masters = f"all {len(facts.servers)} masters answer" if facts.kind == "cluster" else "it answers"
        yield Diagnosis("reachability", "ok", f"{facts.url}: {masters}")
