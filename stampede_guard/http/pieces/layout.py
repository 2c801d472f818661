"""Which bytes are in which piece of a large body, and under which name each piece is stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stampede_guard.http.spec.ranges import ByteSpan

__all__ = ["PieceLayout", "nonce_of_piece"]

_PREFIX = "http3p:"
"""Begins the names of all pieces. They are no responses of a URL, so lists and purges by URL do not see them."""
_PIECE = re.compile(rf"(?:[A-Za-z0-9._-]{{1,64}}:)*{_PREFIX}(?P<nonce>[0-9a-f]{{32}})\.\d{{1,9}}")
"""After the namespace. A tenant's name may be in between."""


def nonce_of_piece(name: str, namespace: str) -> str | None:
    """The nonce in the complete name of a piece; None for other entries."""
    found = _PIECE.fullmatch(name.removeprefix(f"{namespace}:"))
    return None if found is None else found["nonce"]


class PieceLayout(NamedTuple):
    """`nonce`: random, per call of the application. It names the pieces, so they are reached only through the response
    that has this layout: pieces of two calls are never mixed. `size`: bytes of each piece but the last one. `length`:
    bytes of the body, at least 1.
    """

    nonce: str
    size: int
    length: int

    @property
    def total(self) -> int:
        return -(-self.length // self.size)

    @property
    def whole(self) -> ByteSpan:
        return ByteSpan(0, self.length - 1)

    def name(self, number: int) -> str:
        return f"{_PREFIX}{self.nonce}.{number}"

    def bytes_in(self, number: int) -> int:
        return min(self.size, self.length - number * self.size)

    def cuts(self, wanted: ByteSpan) -> Iterator[tuple[int, int, int]]:
        """Number, begin and end (within it) of each piece that has some of the wanted bytes."""
        for number in range(wanted.first // self.size, wanted.last // self.size + 1):
            begin = number * self.size
            yield number, max(0, wanted.first - begin), min(self.size, wanted.last + 1 - begin)
