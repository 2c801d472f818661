"""A stable share of entries, for a gradual start: the same entries in every process, at all times."""

from __future__ import annotations

import hashlib

__all__ = ["sampled"]

_WHOLE = 2**64


def sampled(name: str, share: float) -> bool:
    """Whether an entry belongs to this share (0 to 1) of all. An entry in a share is in every larger share, too.

    By BLAKE2b (RFC 7693) of the name, so that names that differ in one digit are spread like any others.
    """
    if share >= 1.0:
        return True
    drawn = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=b"sample").digest()
    return int.from_bytes(drawn, "big") < share * _WHOLE
