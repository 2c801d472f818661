"""Early refresh: whether a reader of a fresh value should start a refresh before it expires."""

from __future__ import annotations

import math

__all__ = ["due"]


def due(*, took_ms: int, ttl_ms: int, beta: float, fresh_ms_left: int, draw: float) -> bool:
    """XFetch: `-delta * beta * ln(u) >= remaining`.

    Vattani, Chierichetti, Lowenstein, "Optimal Probabilistic Cache Stampede Prevention", VLDB 2015, Figure 3. The
    exponential distribution is optimal: each reader decides for itself, rarely too early, and more likely the
    closer the end. `draw` is uniform in [0, 1); u = 1 - draw is never 0.

    delta is how long the computation of this value took, at most half of its fresh lifetime. Otherwise a
    computation as long as the lifetime would start a refresh as soon as each value is stored. With 0 (unknown, or
    too short to be measured), and with a `beta` of 0, nothing is ever due.
    """
    delta = min(took_ms, ttl_ms / 2)
    if delta <= 0 or beta <= 0:
        return False
    return -delta * beta * math.log(1.0 - draw) >= fresh_ms_left
