"""Whether all slots are served, and what happens if a master is lost."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts

__all__ = ["check"]

SLOTS = 16384


def check(facts: Facts) -> Iterator[Diagnosis]:
    if facts.kind != "cluster":
        for server in facts.servers:
            if (server.info or {}).get("cluster_enabled") == "1":
                mend = "write redis+cluster:// or rediss+cluster://: entries on other nodes are refused otherwise"
                yield Diagnosis("cluster", "fail", f"{server.address} is one node of a cluster", mend)
        return
    covered = facts.slots_covered or 0
    if covered < SLOTS:
        mend = "CLUSTER NODES shows which; each process computes the entries in those slots by itself"
        yield Diagnosis("cluster", "fail", f"{SLOTS - covered} of {SLOTS} slots are not served", mend)
        return
    seen = f"{len(facts.servers)} masters serve all {SLOTS} slots, {facts.replicas} replicas"
    if facts.replicas == 0:
        yield Diagnosis(
            "cluster",
            "warn",
            seen,
            "without a replica, a lost master's entries are unavailable until it is back",
        )
    else:
        yield Diagnosis("cluster", "ok", seen)
