"""A stable share of entries, for a gradual start: the same ones in every process, at every moment."""

from __future__ import annotations

import hashlib

__all__ = ["sampled"]

_WHOLE = 2**64


def sampled(name: str, share: float) -> bool:
    """Whether an entry belongs to this share (0 to 1) of all. What belongs to a share belongs to every larger one.

    By BLAKE2b (RFC 7693) of the name, so that entries whose names differ in one digit are spread as any others.
    """
    if share >= 1.0:
        return True
    drawn = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=b"sample").digest()
    return int.from_bytes(drawn, "big") < share * _WHOLE
