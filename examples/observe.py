"""What happens, as events: a hook of one's own, and Prometheus metrics.

    pip install ".[prometheus]"
    python examples/observe.py

prints, the first time:

    Miss, Miss, Miss, Started, Computed, Stored, Collapsed, Waited, Waited, Waited
    Hit
    stampede_guard_calls_total{function="report",result="hit"} 1.0
    stampede_guard_calls_total{function="report",result="stale"} 0.0
    stampede_guard_calls_total{function="report",result="miss"} 3.0
    stampede_guard_collapsed_total{function="report"} 2.0
"""

from __future__ import annotations

import asyncio
import os

from prometheus_client import CollectorRegistry, generate_latest

from stampede_guard import StampedeGuard
from stampede_guard.events import Event, RoundTrip
from stampede_guard.observe.prometheus import PrometheusHook

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
registry = CollectorRegistry()  # an app leaves it out and serves the default registry under /metrics
seen: list[str] = []


def note(event: Event) -> None:
    if not isinstance(event, RoundTrip):  # a sample of the store's answers
        seen.append(type(event).__name__)


guard = StampedeGuard.from_url(URL, namespace="observe", hooks=(note, PrometheusHook(registry)))


@guard.locked_cache(ttl=300, name="report")
async def report(project: int) -> str:
    await asyncio.sleep(0.1)  # your query
    return f"report of {project}"


async def main() -> None:
    async with guard:
        await asyncio.gather(*[report(7) for _ in range(3)])
        print(", ".join(seen))
        seen.clear()
        await report(7)
        print(", ".join(seen))
    for line in generate_latest(registry).decode().splitlines():
        if line.startswith(("stampede_guard_calls_total", "stampede_guard_collapsed_total")):
            print(line)


if __name__ == "__main__":
    asyncio.run(main())
