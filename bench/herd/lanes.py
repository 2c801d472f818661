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

__all__ = ["Span", "drawn", "recorded"]

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

WIDTH, LANE, LEFT, TOP = 860, 22, 90, 46
PANEL = TOP + WORKERS * LANE + 34
SECONDS_OF_FILM = 6.0
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #333 }
  .title { font-weight: 600 } .small { font-size: 11px; fill: #777 }
  .lane { fill: #f3f3f3 } .wait { fill: #9db7d5 } .query { fill: #c0392b } .guard .query { fill: #1e8449 }
  .woken { fill: #1f4e79 } .head { stroke: #777; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .small { fill: #999 } .lane { fill: #2a2d34 } .wait { fill: #4f6d8f }
    .query { fill: #e06c5e } .guard .query { fill: #4fc07f } .woken { fill: #a9cdf3 } .head { stroke: #999 }
  }
  .still { display: none }
  @media (prefers-reduced-motion: reduce) { .still { display: inline } .moving { display: none } }
"""


def drawn(runs: dict[LaneMode, list[Span]]) -> str:
    """The picture, as SVG: a panel per run, on one scale."""
    longest = max(span.ended for spans in runs.values() for span in spans)
    scale = (WIDTH - LEFT - 20) / longest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {PANEL * len(runs)}" role="img" '
        f'aria-label="{_said(runs)}">',
        f"<style>{STYLE}</style>",
    ]
    for place, (mode, spans) in enumerate(runs.items()):
        parts += _panel(mode, spans, place * PANEL, scale, longest)
    return "\n".join([*parts, "</svg>", ""])


def _said(runs: dict[LaneMode, list[Span]]) -> str:
    """The picture in words, for those who do not see it."""
    return "; ".join(f"{TITLES[mode]}: {_counted(spans)}" for mode, spans in runs.items())


def _counted(spans: Iterable[Span]) -> str:
    count = sum(span.kind == "query" for span in spans)
    return f"{count} {'query' if count == 1 else 'queries'}"


def _panel(mode: LaneMode, spans: list[Span], top: int, scale: float, longest: float) -> list[str]:
    last = max(span.ended for span in spans)
    told = f"{TITLES[mode]}: {_counted(spans)}, all served after {last * 1000:.0f} ms"
    end = longest * scale
    lanes = [
        f'<rect class="lane" x="{LEFT}" y="{y}" width="{end:.0f}" height="{LANE - 4}"/>'
        f'<text class="small" x="10" y="{y + 13}">worker {lane + 1}</text>'
        for lane in range(WORKERS)
        for y in (top + TOP + lane * LANE,)
    ]
    ticks = [
        f'<text class="small" x="{LEFT + tick * scale / 10:.0f}" y="{top + PANEL - 16}">{tick * 100} ms</text>'
        for tick in range(0, int(longest * 10) + 1, 2)
    ]
    # The queries last: they lie above the callers that wait for them.
    marks = [_mark(span, top, scale) for span in sorted(spans, key=lambda span: span.kind == "query")]
    return [
        f'<g class="{mode}"><text class="title" x="10" y="{top + 26}">{told}</text>',
        *lanes,
        f'<defs><g id="marks-{mode}" class="{mode}">',
        *marks,
        "</g>",
        f'<clipPath id="film-{mode}"><rect x="{LEFT - 4}" y="{top}" width="{end + 8:.0f}" height="{PANEL}">',
        f"{_moving('width', 0, end + 8)}</rect></clipPath></defs>",
        f'<use class="still" href="#marks-{mode}"/>',
        f'<g class="moving"><g clip-path="url(#film-{mode})"><use href="#marks-{mode}"/></g>',
        f'<line class="head" y1="{top + TOP - 6}" y2="{top + TOP + WORKERS * LANE}">',
        f"{_moving('x1', LEFT, LEFT + end)}{_moving('x2', LEFT, LEFT + end)}</line></g>",
        *ticks,
        "</g>",
    ]


def _moving(attribute: str, start: float, end: float) -> str:
    """From start to end, then a moment to look at it, and again."""
    return (
        f'<animate attributeName="{attribute}" values="{start:.0f};{end:.0f};{end:.0f}" keyTimes="0;0.75;1" '
        f'dur="{SECONDS_OF_FILM:g}s" repeatCount="indefinite"/>'
    )


def _mark(span: Span, top: int, scale: float) -> str:
    x, width = LEFT + span.began * scale, max(1.0, (span.ended - span.began) * scale)
    y = top + TOP + span.worker * LANE
    if span.kind == "query":
        return (
            f'<rect class="query" x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{LANE - 10}" rx="2"/>'
        )
    return (
        f'<rect class="wait" x="{x:.1f}" y="{y + 7}" width="{width:.1f}" height="{LANE - 18}"/>'
        f'<circle class="woken" cx="{x + width:.1f}" cy="{y + LANE / 2 - 2:.1f}" r="3"/>'
    )


if __name__ == "__main__":
    found = {mode: recorded(mode) for mode in TITLES}
    Path(sys.argv[1]).write_text(drawn(found), "utf-8")
    print(_said(found))
