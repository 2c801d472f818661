"""Whether it is a master: a replica cannot store leases."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["check"]


def check(facts: Facts, server: ServerFacts) -> Iterator[Diagnosis]:
    role = (server.info or {}).get("role")
    if role is None:
        yield Diagnosis("role", "unknown", "INFO is not permitted")
    elif role != "master":
        mend = "give the master's address, or those of the sentinels (redis+sentinel://): a replica refuses every lease"
        yield Diagnosis("role", "fail", f"it is a {role}", mend)
    else:
        count = (server.info or {}).get("connected_slaves", "0")
        yield Diagnosis("role", "ok", f"master with {count} replicas")
