"""The suite against other caches, through uvicorn: `python -m tests.http.suite.peers`.

Run it in the environment that `make bench-http` makes (`.venv-http/bin/python`), which has them.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from stampede_guard import StampedeGuard, StampedeMiddleware
from tests.http.suite.cases import load
from tests.http.suite.origin import Origin
from tests.http.suite.play import summary
from tests.http.suite.sockets import play_all, serving

__all__ = ["make"]

_NAME = "HTTP_CACHE_PEER"


def _ours(origin: Origin) -> Any:
    return StampedeMiddleware(origin, guard=StampedeGuard.from_url("memory://", namespace="suite"))


def _hishel(origin: Origin) -> Any:
    from hishel import AsyncSqliteStorage  # type: ignore[import-not-found]
    from hishel.asgi import ASGICacheMiddleware  # type: ignore[import-not-found]

    folder = tempfile.mkdtemp(prefix="suite-")
    return ASGICacheMiddleware(origin, storage=AsyncSqliteStorage(database_path=f"{folder}/cache.db"))


def _starlette_caches(origin: Origin) -> Any:
    from aiocache import Cache  # type: ignore[import-not-found]
    from starlette_caches.middleware import CacheMiddleware  # type: ignore[import-not-found]

    return CacheMiddleware(origin, cache=Cache(ttl=60))


PEERS: dict[str, Callable[[Origin], Any]] = {
    "ours": _ours,
    "hishel": _hishel,
    "starlette-caches": _starlette_caches,
}


def make() -> Any:
    return PEERS[os.environ[_NAME]](Origin(load().all))


async def _main() -> None:
    cases = load()
    for name in PEERS:
        os.environ[_NAME] = name
        async with serving("uvicorn", app="tests.http.suite.peers:make") as port:
            results = await play_all(cases.all, port, run=name)
        kinds = [line for line in summary(results).splitlines() if " of " in line]
        print(f"{name}: {'; '.join(kinds)} ({cases.path.name})", flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
