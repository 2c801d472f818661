"""What a restart or a failover brings back."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["check"]


def check(facts: Facts, server: ServerFacts) -> Iterator[Diagnosis]:
    info = server.info
    if info is None:
        yield Diagnosis("persistence", "unknown", "INFO is not permitted")
        return
    if info.get("loading") == "1":
        yield Diagnosis(
            "persistence", "fail", "it is loading its data", "wait: until then it serves no commands"
        )
        return
    if info.get("aof_enabled") == "1":
        seen = "append-only file: a restart loses one second at most"
    else:
        saves = (server.config or {}).get("save")
        kept = "none" if saves == "" else "snapshots" if saves is not None else "snapshots or none"
        seen = (
            f"{kept}: a restart may bring back values from before an invalidation"
            if kept != "none"
            else ("none: after a restart the store is empty, and each key in use is computed once")
        )
    replicas = int(info.get("connected_slaves", "0") or 0)
    if replicas:
        seen += f"; {replicas} replicas, behind by moments: a failover may lose leases, values and fences"
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        mend = "check its log and disk; with stop-writes-on-bgsave-error it refuses every lease"
        yield Diagnosis("persistence", "fail", "the last snapshot failed; " + seen, mend)
    else:
        yield Diagnosis("persistence", "ok", seen)
