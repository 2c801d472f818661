"""Requests that the cache cannot help: distinct private URLs of one route.

    python -m bench.http.uncacheable redis://localhost:6379/0

prints as JSON, for a FastAPI application alone, behind the middleware, and excluded from it: microseconds of the
process's CPU per call without a server around it, and commands that Redis has carried out per call.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Iterator, MutableMapping
from typing import Any

import redis.asyncio
from fastapi import FastAPI, Response

from stampede_guard import StampedeGuard, StampedeMiddleware

__all__ = ["measure"]

Message = MutableMapping[str, Any]
_HEADERS = {"cache-control": "private"}


def _application() -> FastAPI:
    app = FastAPI()

    @app.get("/private/{number}")
    async def private(number: int) -> Response:
        return Response(b"x" * 221, media_type="application/json", headers=_HEADERS)

    return app


def _scope(path: str) -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8000"), (b"user-agent", b"bench"), (b"accept", b"*/*")],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }


async def _receive() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("nobody sends anything")


async def _send(message: Message) -> None:
    return None


async def _calls(app: Any, numbers: Iterator[int], count: int) -> float:
    """Seconds of CPU per call."""
    before = time.process_time()
    for number in itertools.islice(numbers, count):
        await app(_scope(f"/private/{number}"), _receive, _send)
    return (time.process_time() - before) / count


async def _commands(client: redis.asyncio.Redis) -> int:
    stats: dict[str, Any] = await client.info("commandstats")
    return sum(
        one["calls"]
        for name, one in stats.items()
        if name.startswith(("cmdstat_get", "cmdstat_eval", "cmdstat_fcall"))
    )


async def measure(url: str, *, calls: int = 500, rounds: int = 9) -> dict[str, dict[str, float]]:
    """The best of the rounds. `first`: before anything is remembered.

    Guards read the switches of their fleet now and then. That command is in one round only, a command per call in each.
    """
    application, later = _application(), 0.0
    guard = StampedeGuard.from_url(url, namespace="bench-uncacheable")
    middleware = StampedeMiddleware(application, guard=guard, clock=lambda: time.time() + later)
    apps = {
        "alone": application,
        "behind": middleware,
        "excluded": StampedeMiddleware(application, guard=guard, exclude=("/private/*",)),
    }
    numbers = itertools.count()
    worst = {"microseconds": float("inf"), "commands": float("inf")}
    found: dict[str, dict[str, float]] = {name: {**worst} for name in apps}
    client = redis.asyncio.Redis.from_url(url)
    async with guard, client:
        before = await _commands(client)
        found["first"] = {"microseconds": await _calls(middleware, numbers, 32) * 1e6}
        found["first"]["commands"] = (await _commands(client) - before) / 32
        # The template is remembered some seconds later.
        later = 11.0
        for _ in range(rounds):
            for name, app in apps.items():
                before = await _commands(client)
                spent = await _calls(app, numbers, calls) * 1e6
                found[name]["microseconds"] = min(found[name]["microseconds"], spent)
                sent = (await _commands(client) - before) / calls
                found[name]["commands"] = min(found[name]["commands"], sent)
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1])), indent=2))
