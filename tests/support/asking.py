"""What tests of stores ask again and again. Every answer that is not the expected one fails the test."""

from __future__ import annotations

import psutil

from stampede_guard.core.scripts import Granted, Held
from stampede_guard.policy import Policy
from stampede_guard.stores.protocol import Session

__all__ = ["POLICY", "established", "fail", "fill", "grant", "held", "publish", "put"]

# All of these are ages that a test brings about, never times it waits for.
POLICY = Policy(ttl=20, stale_ttl=10, error_ttl=6, lease_ttl=10, takeover_gap=2)


async def grant(session: Session, name: str, flight: str = "holder") -> Granted:
    answer = await session.acquire(name, flight=flight, policy=POLICY)
    assert isinstance(answer, Granted), answer
    return answer


async def held(session: Session, name: str, flight: str = "waiter") -> Held:
    answer = await session.acquire(name, flight=flight, policy=POLICY)
    assert isinstance(answer, Held), answer
    return answer


async def publish(
    session: Session,
    name: str,
    granted: Granted,
    body: bytes = b"body",
    *,
    flight: str = "holder",
    trace: str = "",
) -> bool:
    return await session.publish(
        name, flight=flight, grant=granted, outcome="value", body=body, policy=POLICY, trace=trace
    )


async def fail(
    session: Session,
    name: str,
    granted: Granted,
    *,
    flight: str = "holder",
    policy: Policy = POLICY,
    trace: str = "",
) -> bool:
    return await session.publish(
        name, flight=flight, grant=granted, outcome="failure", body=b"why", policy=policy, trace=trace
    )


async def fill(session: Session, name: str, body: bytes = b"body") -> Granted:
    granted = await grant(session, name)
    assert await publish(session, name, granted, body)
    return granted


async def put(session: Session, name: str, granted: Granted, body: bytes = b"put") -> bool:
    """Store a value under a token without a lease."""
    return await publish(session, name, granted, body, flight="putter")


def established(port: int) -> int:
    """How many connections of this process lead there."""
    return sum(
        1
        for connection in psutil.Process().net_connections("tcp")
        if connection.raddr and connection.raddr.port == port and connection.status == psutil.CONN_ESTABLISHED
    )
