"""What the server evicts when it is full."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["check"]


def check(facts: Facts, server: ServerFacts) -> Iterator[Diagnosis]:
    policy = (server.config or {}).get("maxmemory-policy") or (server.info or {}).get("maxmemory_policy")
    limit = (server.info or {}).get("maxmemory", "")
    if policy is None:
        yield Diagnosis("eviction", "unknown", "neither CONFIG GET nor INFO is permitted")
    elif limit == "0":
        seen = f"{policy}, without a limit of memory"
        yield Diagnosis(
            "eviction",
            "warn",
            seen,
            "set maxmemory: without it, the operating system decides which process to kill",
        )
    elif policy == "noeviction":
        seen = "noeviction: when it is full, new values are not stored; leases and invalidations still work"
        yield Diagnosis("eviction", "ok", seen)
    elif policy.endswith("-random"):
        seen = f"{policy}: leases and fences in use may be evicted, too; each costs one more computation"
        yield Diagnosis("eviction", "warn", seen, "CONFIG SET maxmemory-policy allkeys-lfu, or -lru")
    elif policy.endswith("-ttl"):
        seen = f"{policy}: keys with the shortest lifetime are evicted first, and these are the leases"
        yield Diagnosis("eviction", "warn", seen, "CONFIG SET maxmemory-policy allkeys-lfu, or -lru")
    else:
        seen = f"{policy}: the least used keys are evicted first; an evicted lease or value costs one more computation"
        yield Diagnosis("eviction", "ok", seen)
