"""A body of several pieces."""

from __future__ import annotations

from typing import Any

from stampede_guard.http.pieces.piece import PIECE_BYTES

__all__ = ["LARGE", "OPTIONS", "is_whole", "whole"]

LARGE = 3 * PIECE_BYTES + 1000
OPTIONS: dict[str, Any] = {"max_body_bytes": 1000, "max_pieces_bytes": LARGE}


def whole(number: int = 1, size: int = LARGE) -> bytes:
    """The body of the call with this number: no piece of it is in another call's."""
    text = b"%08d|" % number
    return (text * (size // len(text) + 1))[:size]


def is_whole(body: bytes, number: int = 1) -> bool:
    """A function, because the report of a failed comparison would be as long as the bodies."""
    return body == whole(number)
