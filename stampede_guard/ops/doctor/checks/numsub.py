"""Whether scripts may count subscribers. This is how a killed holder is noticed within a second."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["check"]


def check(facts: Facts, server: ServerFacts) -> Iterator[Diagnosis]:
    if server.numsub is None:
        yield Diagnosis(
            "sign of life", "unknown", "no script could be run: " + server.errors.get("numsub", "")
        )
    elif not server.numsub:
        seen = "scripts may not call PUBSUB NUMSUB"
        mend = "permit +pubsub|numsub; without it a killed holder is replaced after lease_ttl only"
        yield Diagnosis("sign of life", "warn", seen, mend)
    else:
        yield Diagnosis("sign of life", "ok", "scripts can check whether a lease's holder is still alive")
