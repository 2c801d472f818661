"""Hits without a server around them: `python -m bench.http.inprocess URL CALLS ROUNDS PEER...` prints them as JSON.

All peers run in one process and on one event loop, in turn. The figure is the CPU time of the process per call of the
ASGI application: one call after the other, and 32 at once. What uvicorn adds is equal for all and hides the
differences.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from bench.herd import processes
from bench.http.peers import PEERS
from bench.http.settings import PATH
from bench.http.stage import settings_for

__all__ = ["AT_ONCE", "measure"]

AT_ONCE = 32
_LONG = 36_000

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


def _scope() -> Message:
    """As uvicorn makes it for a browser's request."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 40000),
        "scheme": "http",
        "root_path": "",
        "headers": [
            (b"host", b"127.0.0.1:8000"),
            (b"user-agent", b"bench"),
            (b"accept", b"*/*"),
            (b"accept-encoding", b"gzip, deflate"),
        ],
        "method": "GET",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "state": {},
    }


async def _receive() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("nobody sends anything")


async def _ask(app: App) -> int:
    statuses: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(_scope(), _receive, send)
    return statuses[0]


async def _calls(app: App, calls: int) -> None:
    for _ in range(calls):
        await _ask(app)


async def measure(
    url: str, *, calls: int, rounds: int, peers: list[str], folder: Path
) -> dict[str, dict[str, list[float]]]:
    """Seconds of CPU per call, by peer and by how many are at once, one per round."""
    apps: dict[str, App] = {}
    for name in peers:
        apps[name] = PEERS[name].make(settings_for(name, url, ttl=_LONG, seconds=0.0, folder=folder))
        for _ in range(5):
            if await _ask(apps[name]) != 200:
                raise RuntimeError(f"{name} does not answer with 200")
    found: dict[str, dict[str, list[float]]] = {name: {"alone": [], "together": []} for name in peers}
    for number in range(rounds + 1):
        for name, app in apps.items():
            for shape, at_once in (("alone", 1), ("together", AT_ONCE)):
                before = time.process_time()
                await asyncio.gather(*[_calls(app, calls // at_once) for _ in range(at_once)])
                if number > 0:  # the first warms up
                    spent = time.process_time() - before
                    found[name][shape].append(spent / (calls // at_once * at_once))
    return found


if __name__ == "__main__":
    given_url, given_calls, given_rounds, *given_peers = sys.argv[1:]
    given_folder = processes.temporary_directory("bench-http-")
    print(
        json.dumps(
            asyncio.run(
                measure(
                    given_url,
                    calls=int(given_calls),
                    rounds=int(given_rounds),
                    peers=given_peers,
                    folder=given_folder,
                )
            )
        )
    )
