"""One expiry, seen from inside eight workers: who computes, who waits, and who is woken when. A picture that moves.

    python -m bench.herd.lanes docs/herd-lanes.svg

Eight real processes call at once, on a real Valkey: first with the lock of the incident's fix, then with the guard.
They write down what happens when, on one clock. The picture replays it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Literal, NamedTuple

from redis.asyncio import Redis

from bench.herd.modes import incident_fix
from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.ops.fleet.herds import HerdMark, HerdSpan
from stampede_guard.ops.fleet.lanes import DrawnLane, Panel, drawn

__all__ = ["Span", "pictured", "recorded"]

WORKERS = 8
CALLERS = 3
QUERY = 0.45
"""Seconds, as long as the aggregate of the incident."""
TTL = 60.0
LaneMode = Literal["incident-fix", "guard"]
TITLES: dict[LaneMode, str] = {
    "incident-fix": "A lock in Redis, written by hand",
    "guard": "stampede_guard",
}


class Span(NamedTuple):
    """What one worker did, in seconds since the first call: a query of the database, or a caller that waited."""

    worker: int
    kind: Literal["query", "wait"]
    began: float
    ended: float


def recorded(mode: LaneMode) -> list[Span]:
    """One expiry with eight processes of three callers each."""
    context = multiprocessing.get_context("spawn")
    with ValkeyServer() as server, context.Pool(WORKERS, _remember, (context.Barrier(WORKERS),)) as pool:
        found = pool.starmap(_worker, [(number, mode, server.url) for number in range(WORKERS)], chunksize=1)
    spans = [span for one in found for span in one]
    first = min(span.began for span in spans)
    return [span._replace(began=span.began - first, ended=span.ended - first) for span in spans]


_barrier: Barrier


def _remember(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _worker(number: int, mode: LaneMode, url: str) -> list[Span]:
    return asyncio.run(_calls(number, mode, url))


async def _calls(number: int, mode: LaneMode, url: str) -> list[Span]:
    spans: list[Span] = []

    async def query() -> dict[str, int]:
        began = time.monotonic()
        await asyncio.sleep(QUERY)
        spans.append(Span(number, "query", began, time.monotonic()))
        return {"rows": 1_400_000}

    async with Redis.from_url(url) as redis, StampedeGuard.from_url(url, namespace="lanes") as guard:
        ways: dict[LaneMode, Callable[[], Any]] = {
            "incident-fix": lambda: incident_fix(redis, "key", TTL, query),
            "guard": lambda: guard.get_or_compute("key", query, ttl=TTL),
        }
        await redis.ping()
        await guard.check_health()
        # Each worker is connected. Now all call in the same instant.
        await asyncio.to_thread(_barrier.wait)

        async def call() -> None:
            began = time.monotonic()
            await ways[mode]()
            spans.append(Span(number, "wait", began, time.monotonic()))

        await asyncio.gather(*(call() for _ in range(CALLERS)))
    return spans


# --- the picture ---------------------------------------------------------------------------------


def pictured(runs: dict[LaneMode, list[Span]]) -> str:
    """The picture, as SVG that moves: a panel per run, on one scale."""
    panels = [_panel(mode, spans) for mode, spans in runs.items()]
    return drawn(panels, told=_said(runs), moving=True, legend=False)


def _said(runs: dict[LaneMode, list[Span]]) -> str:
    """The picture in words, for those who do not see it."""
    return "; ".join(f"{TITLES[mode]}: {_counted(spans)}" for mode, spans in runs.items())


def _counted(spans: Iterable[Span]) -> str:
    count = sum(span.kind == "query" for span in spans)
    return f"{count} {'query' if count == 1 else 'queries'}"


def _panel(mode: LaneMode, spans: list[Span]) -> Panel:
    last = max(span.ended for span in spans)
    title = f"{TITLES[mode]}: {_counted(spans)}, all served after {last * 1000:.0f} ms"
    lanes = [_lane(number, [span for span in spans if span.worker == number]) for number in range(WORKERS)]
    return Panel(title, lanes, last, bad=mode != "guard")


def _lane(number: int, spans: list[Span]) -> DrawnLane:
    bars = [HerdSpan("compute" if one.kind == "query" else "wait", one.began, one.ended) for one in spans]
    marks = [HerdMark(one.ended, "woken", "is served") for one in spans if one.kind == "wait"]
    return DrawnLane(f"worker {number + 1}", bars, marks)


if __name__ == "__main__":
    found = {mode: recorded(mode) for mode in TITLES}
    Path(sys.argv[1]).write_text(pictured(found), "utf-8")
    print(_said(found))
