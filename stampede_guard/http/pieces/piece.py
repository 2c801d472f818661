"""What is stored for one piece, for how long, and the error of a piece that will never come."""

from __future__ import annotations

from stampede_guard.engine.plan import Plan
from stampede_guard.errors import StampedeError, Undecodable
from stampede_guard.policy import Policy

__all__ = ["NOT_COMING", "PIECE_BYTES", "PieceCodec", "PieceGone", "PieceUnread", "plan_of_pieces"]

PIECE_BYTES = 256 * 1024
"""A waiter gets its first byte when so many have been made. Readers and writers have a few of them in memory."""
NOT_COMING = b""
"""Computed instead of a piece that nobody makes. It is not stored, and no failure of the application."""
_MAGIC = b"HP1"
_OVERHEAD = 1024


class PieceGone(StampedeError):
    """A piece is not stored, and nobody writes it: its writer ended or died, or the store dropped it.
    `number`: of the piece; 0 if it is not known.
    """

    def __init__(self, message: str, *, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


class PieceUnread(StampedeError):
    """One reader did not get a piece, which others may still get. `is_away`: the store is away for this process."""

    def __init__(self, message: str, *, is_away: bool = False) -> None:
        super().__init__(message)
        self.is_away = is_away


class PieceCodec:
    fingerprint = "piece1"
    shareable: bool | None = True

    def encode(self, value: bytes) -> bytes:
        return _MAGIC + value

    def decode(self, data: bytes) -> bytes:
        if data[:3] != _MAGIC:
            raise Undecodable("not a piece of this version")
        return bytes(data[3:])


def plan_of_pieces(policy: Policy, *, ttl: float, size: int = PIECE_BYTES) -> Plan:
    """`ttl`: seconds that a piece is stored. Within `compute_timeout`, the application must make the next one."""
    policy = policy.replace(
        ttl=ttl,
        stale_ttl=0.0,
        soft_timeout=0.0,
        early_beta=0.0,
        # Bodies that are too large for one value are too large for the memory of each process.
        l1_ttl=0.0,
        max_value_bytes=max(policy.inline_bytes, size + _OVERHEAD),
        # Whoever waits longer finds out that nobody writes, and needs no computation of its own for that.
        wait_timeout=policy.compute_timeout,
        fallback_limit=0,
    )
    plan = Plan(title="http pieces", policy=policy, codec=PieceCodec())
    plan.policy_for = lambda value: None if value == NOT_COMING else policy
    return plan
