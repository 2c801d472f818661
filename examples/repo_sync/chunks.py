"""Texts in pieces that overlap, and vectors of them without a model."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator

__all__ = ["DIMENSIONS", "LENGTH", "OVERLAP", "chunks", "embedded", "likeness"]

LENGTH = 7_000
OVERLAP = 1_500
"""Characters that a chunk shares with the one before it, so that no sentence is cut in both."""
DIMENSIONS = 256
_GRAM = 4


def chunks(text: str) -> Iterator[str]:
    """At least one; the last may be shorter, but never all overlap."""
    begin = 0
    while True:
        yield text[begin : begin + LENGTH]
        if begin + LENGTH >= len(text):
            return
        begin += LENGTH - OVERLAP


def embedded(text: str) -> list[float]:
    """A vector of length one: how often each group of letters comes, groups told apart by a hash (feature hashing,
    Weinberger et al., 2009). It knows words and not meanings, and needs no download."""
    vector = [0.0] * DIMENSIONS
    folded = " ".join(text.lower().split())
    grams = Counter(folded[at : at + _GRAM] for at in range(max(1, len(folded) - _GRAM + 1)))
    for gram, count in grams.items():
        number = zlib.crc32(gram.encode())
        vector[number % DIMENSIONS] += math.log1p(count) if number & 0x8000_0000 else -math.log1p(count)
    norm = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / norm for value in vector]


def likeness(one: list[float], other: list[float]) -> float:
    """The cosine of two vectors of length one."""
    return sum(a * b for a, b in zip(one, other, strict=True))
