"""A histogram of durations with few buckets, as numbers that can be added up.

The bounds grow by about three, so a quantile is right within a factor of about 1.8.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["BOUNDS", "BUCKETS", "bucket_of", "quantile"]

BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Upper bounds in seconds, each inclusive. One more bucket has no bound."""
BUCKETS = len(BOUNDS) + 1


def bucket_of(seconds: float) -> int:
    """The bucket of a duration."""
    return bisect_left(BOUNDS, seconds)


def quantile(counts: Sequence[int], share: float) -> float | None:
    """An estimate of the duration in seconds that this share of the observations does not exceed. None without any.

    Within a bucket, it assumes that logarithms are spread evenly. Above the last bound it returns that bound.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, before = share * total, 0
    for index, count in enumerate(counts):
        if count and before + count >= wanted:
            if index == len(BOUNDS):
                break
            high = BOUNDS[index]
            low = BOUNDS[index - 1] if index else high / 3
            part = max(0.0, wanted - before) / count
            return min(high, low * math.exp(math.log(high / low) * part))
        before += count
    return BOUNDS[-1]
