"""How full the server's memory is."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["check"]

FULL = 0.9


def check(facts: Facts, server: ServerFacts) -> Iterator[Diagnosis]:
    info = server.info or {}
    used, limit = info.get("used_memory", ""), info.get("maxmemory", "")
    if not used.isdigit() or not limit.isdigit():
        yield Diagnosis("memory", "unknown", "INFO is not permitted")
        return
    megabytes = int(used) / 1024**2
    if int(limit) == 0:
        yield Diagnosis("memory", "ok", f"{megabytes:.1f} MiB used, no limit")
        return
    share = int(used) / int(limit)
    seen = f"{megabytes:.1f} MiB used of {int(limit) / 1024**2:.1f} MiB ({share:.0%})"
    if share >= FULL and (info.get("maxmemory_policy") == "noeviction"):
        yield Diagnosis(
            "memory",
            "fail",
            seen,
            "nothing is evicted, and soon nothing can be stored: raise maxmemory, or shorten ttl",
        )
    elif share >= FULL:
        yield Diagnosis(
            "memory", "warn", seen, "values are evicted before they expire: raise maxmemory, or shorten ttl"
        )
    else:
        yield Diagnosis("memory", "ok", seen)
