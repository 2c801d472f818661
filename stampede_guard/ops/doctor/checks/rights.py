"""Whether the user has all rights that a guard needs."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["check"]

SPARED = {
    "pubsub|numsub": "a killed holder is replaced after lease_ttl, not within a second",
    "publish": "waiters are not woken; they find values at their next poll",
    "subscribe": "waiters are not woken; they find values at their next poll",
    "ping": "idle subscriptions are opened again",
    "hgetall": "the fleet's modes cannot be read",
}
"""Optional rights, and the cost of their absence."""


def check(facts: Facts, server: ServerFacts) -> Iterator[Diagnosis]:
    who = f"user {server.user!r}" if server.user else "this user"
    if server.denied is None:
        yield Diagnosis("rights", "unknown", f"{who} could not be tried: {server.errors.get('rights', '')}")
        return
    spared = [right for right in server.denied if _cost(right)]
    needed = [right for right in server.denied if right not in spared]
    if needed:
        grants = " ".join(right if right[0] in "~&" else f"+{right}" for right in server.denied)
        mend = f"ACL SETUSER {server.user or 'NAME'} {grants}    (docs/redis.md, Rights)"
        yield Diagnosis("rights", "fail", f"{who} may not: {', '.join(needed)}", mend)
    elif spared:
        costs = "; ".join(f"without {right} {_cost(right)}" for right in spared)
        grants = " ".join(right if right[0] == "&" else f"+{right}" for right in spared)
        yield Diagnosis("rights", "warn", costs, f"ACL SETUSER {server.user or 'NAME'} {grants}")
    else:
        yield Diagnosis(
            "rights", "ok", f"{who} has all rights that a guard needs in namespace {facts.namespace!r}"
        )


def _cost(right: str) -> str:
    if right.startswith("&stampede_guard:changes:"):
        return "processes keep no copies (l1_ttl)"
    return SPARED.get(right, "")
