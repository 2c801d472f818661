"""A process with metrics on a port: real calls, and the events that a healthy process never has, told to the hook."""

from __future__ import annotations

import asyncio
import sys

from prometheus_client import start_http_server

from stampede_guard import StampedeGuard, events
from stampede_guard.ops.observe.prometheus import PrometheusHook

hook = PrometheusHook()
guard = StampedeGuard.from_url(sys.argv[1], namespace="shop", hooks=(hook,))
FAULTS: tuple[events.Event, ...] = (
    events.TakenOver("shop.quality", "entry"),
    events.LeaseLapsed("shop.quality", "entry"),
    events.Fallback("shop.quality", "entry", "served"),
    events.TimedOut("shop.quality", "entry", "wait_timeout"),
    events.NotStored("shop.quality", "entry", "unsupported"),
    events.Compared("shop.quality", "entry", "same"),
    events.BreakerOpened(),
    events.Refused("permission", "NOPERM"),
    events.LeaseWon("election", "entry", 1, 0.1),
    events.JobEnded("report", "entry", 1, "failed", 0.1, 1),
    events.JobOverdue("report", "entry", 7.0),
    events.L1Sized(700, 700),
)


@guard.locked_cache(ttl=0.2, name="shop.quality")
async def quality(project: int) -> int:
    await asyncio.sleep(0.02)
    return project


@guard.locked_cache(ttl=60, error_ttl=0, name="shop.broken")
async def broken() -> int:
    raise LookupError("broken")


async def work() -> None:
    server, _ = start_http_server(0, addr="127.0.0.1")
    print(server.server_port, flush=True)
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    async with guard:
        while not ended.done():
            await asyncio.gather(quality(1), quality(1), quality(2))
            await asyncio.gather(broken(), return_exceptions=True)
            await quality.refresh(2)
            await quality.invalidate(1)
            for event in FAULTS:
                guard.engine.hooks.tell(event)
            await asyncio.wait({ended}, timeout=0.1)


asyncio.run(work())
