"""Whether an operator has switched a mode and forgotten it."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts

__all__ = ["check"]


def check(facts: Facts) -> Iterator[Diagnosis]:
    if facts.failure or not any(server.reached for server in facts.servers):
        return
    if facts.switches is None:
        yield Diagnosis("modes", "unknown", "the fleet's modes cannot be read", "permit +hgetall")
    elif facts.switches:
        told = ", ".join(f"{title} {mode}" for title, mode in sorted(facts.switches.items())[:5])
        more = len(facts.switches) - 5
        seen = f"switched for the fleet: {told}" + (f" and {more} more" if more > 0 else "")
        yield Diagnosis("modes", "warn", seen, "stampede-guard mode NAME default removes a switch")
    else:
        yield Diagnosis("modes", "ok", f"nothing is switched for the fleet in namespace {facts.namespace!r}")
