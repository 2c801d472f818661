"""Expiries under load: how often each has the application called, with all workers asked all the time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.http.client import ask
from bench.http.plan import Sizes
from bench.http.settings import KEY, PATH
from bench.http.stage import Stage
from bench.journal import Journal, Line

__all__ = ["calls_per_expiry", "measure_expiries"]

_COMING = 5
"""Pauses between two requests of a user, after which all users have requested an expired answer."""


async def measure_expiries(peer: str, redis_url: str, sizes: Sizes) -> tuple[list[int], int]:
    """Calls of the application, one count per expiry, and how many answers were errors.

    Raises `RuntimeError`, `OSError`.
    """
    async with Stage(peer, redis_url, workers=sizes.workers, ttl=sizes.ttl, seconds=sizes.compute) as stage:
        await stage.fill(requests=2)
        until = time.monotonic() + sizes.herd_seconds - _COMING * sizes.pause
        answers = await ask(
            stage.port,
            PATH,
            users=sizes.workers * sizes.users,
            seconds=sizes.herd_seconds,
            pause=sizes.pause,
            tolerant=True,
        )
    started = Journal(stage.settings.journal).lines(KEY, "started")
    return calls_per_expiry(started, quiet=sizes.ttl / 2, until=until), answers.errors


def calls_per_expiry(started: Sequence[Line], *, quiet: float, until: float) -> list[int]:
    """Calls with less than `quiet` seconds between neighbours belong to one expiry. The first one is the fill. An
    expiry that begins after `until` does not count, because not all users requested it."""
    counts: list[int] = []
    last = float("-inf")
    for line in sorted(started, key=lambda line: line.at):
        if line.at - last >= quiet:
            if line.at > until:
                break
            counts.append(0)
        counts[-1] += 1
        last = line.at
    return counts[1:]
