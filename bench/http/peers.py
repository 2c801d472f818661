"""The caches: each one's way of putting itself in front of the same application, as its documentation has it.

The application takes its time, says `Cache-Control: max-age=...` and returns 221 bytes of JSON. A peer's library is
imported where its application is made: the report names every peer, installed or not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.http import nginx
from bench.http.settings import KEY, PATH, AppSettings
from bench.journal import Journal
from bench.micro.value import VALUE, VALUE_AS_JSON
from bench.peers.adapter import About

__all__ = ["BARE", "HISHEL", "NGINX", "NOTHING", "ORIGIN", "OURS", "PEERS", "Peer", "application"]

NOTHING: Final = "nothing"
"""An endpoint that does nothing: what Starlette costs without any store."""
BARE: Final = "bare"
OURS: Final = "ours"
NGINX: Final = "nginx"
ORIGIN: Final = "origin"
"""The application without a cache: what stands behind nginx."""
HISHEL: Final = ("hishel, Redis", "hishel, SQLite")

App = Any
_SCRIPT = "return redis.call('GET', KEYS[1])"


@dataclass(frozen=True, slots=True)
class Peer:
    """`caches`: it has expiries. `in_python`: its hits can be asked for without a server around them."""

    about: About
    make: Callable[[AppSettings], App]
    caches: bool = True
    in_python: bool = True

    def missing(self) -> str:
        """Why it cannot run here, or nothing."""
        return self.about.missing().replace("bench-peers", "bench-http") or (
            "" if self.in_python else nginx.missing()
        )

    @property
    def version(self) -> str:
        return self.about.version if self.in_python else nginx.version()


async def _report(settings: AppSettings) -> None:
    """One call of the application."""
    Journal(settings.journal).write(KEY, os.getpid(), "started")
    await asyncio.sleep(settings.seconds)


def origin(settings: AppSettings) -> App:
    async def report(request: Request) -> Response:
        await _report(settings)
        headers = {"cache-control": f"max-age={settings.ttl}"}
        return Response(VALUE_AS_JSON, media_type="application/json", headers=headers)

    return Starlette(routes=[Route(PATH, report)])


def nothing(settings: AppSettings) -> App:
    async def report(request: Request) -> Response:
        return Response(VALUE_AS_JSON, media_type="application/json")

    return Starlette(routes=[Route(PATH, report)])


def bare(settings: AppSettings) -> App:
    """What a hit would cost at least: a Starlette endpoint that gets its 221 bytes with one script of Redis."""
    client = Redis.from_url(settings.redis_url)
    key = f"{settings.namespace}:bare"
    known: list[Any] = []

    async def report(request: Request) -> Response:
        if not known:
            await client.set(key, VALUE_AS_JSON)
            known.append(await client.script_load(_SCRIPT))
        body = await client.evalsha(known[0], 1, key)
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route(PATH, report)])


def ours(settings: AppSettings) -> App:
    from stampede_guard import StampedeGuard, StampedeMiddleware

    guard = StampedeGuard.from_url(settings.redis_url, namespace=settings.namespace)
    return StampedeMiddleware(origin(settings), guard=guard)


def hishel_redis(settings: AppSettings) -> App:
    from hishel import AsyncRedisStorage  # type: ignore[import-not-found]
    from hishel.asgi import ASGICacheMiddleware  # type: ignore[import-not-found]

    storage = AsyncRedisStorage(Redis.from_url(settings.redis_url), key_prefix=settings.namespace)
    return ASGICacheMiddleware(origin(settings), storage=storage)


def hishel_sqlite(settings: AppSettings) -> App:
    from hishel import AsyncSqliteStorage
    from hishel.asgi import ASGICacheMiddleware

    path = f"{settings.folder}/{settings.namespace}.sqlite"
    return ASGICacheMiddleware(origin(settings), storage=AsyncSqliteStorage(database_path=path))


def fastapi_cache2(settings: AppSettings) -> App:
    from fastapi import FastAPI
    from fastapi_cache import FastAPICache  # type: ignore[import-not-found]
    from fastapi_cache.backends.redis import RedisBackend  # type: ignore[import-not-found]
    from fastapi_cache.decorator import cache  # type: ignore[import-not-found]

    FastAPICache.reset()
    FastAPICache.init(RedisBackend(Redis.from_url(settings.redis_url)), prefix=settings.namespace)
    app = FastAPI()

    @app.get(PATH)
    @cache(expire=settings.ttl)  # type: ignore[untyped-decorator]
    async def report() -> dict[str, Any]:
        await _report(settings)
        return VALUE

    return app


def starlette_caches(settings: AppSettings) -> App:
    from aiocache import Cache  # type: ignore[import-not-found]
    from starlette_caches.middleware import CacheMiddleware  # type: ignore[import-not-found]

    server = urlsplit(settings.redis_url)
    cache = Cache(
        Cache.REDIS,
        endpoint=server.hostname,
        port=server.port,
        namespace=settings.namespace,
        ttl=settings.ttl,
    )
    return CacheMiddleware(origin(settings), cache=cache)


_HISHEL = "https://hishel.com/dev/integrations/asgi"

PEERS: Final[dict[str, Peer]] = {
    peer.about.name: peer
    for peer in (
        Peer(
            About(
                name=NOTHING,
                distribution="",
                page="peers.py",
                option="Starlette, the same bytes each time",
                note="asks no Redis: no cache can answer from a store at this cost",
            ),
            nothing,
            caches=False,
        ),
        Peer(
            About(name=BARE, distribution="", page="peers.py", option="Starlette, one EVALSHA by redis-py"),
            bare,
            caches=False,
        ),
        Peer(
            About(
                name=OURS,
                distribution="",
                page="../../docs/http.md",
                option="StampedeMiddleware(guard=guard)",
            ),
            ours,
        ),
        Peer(
            About(
                name=HISHEL[0],
                distribution="hishel",
                page=_HISHEL,
                option="ASGICacheMiddleware(storage=AsyncRedisStorage(client))",
            ),
            hishel_redis,
        ),
        Peer(
            About(
                name=HISHEL[1],
                distribution="hishel",
                page=_HISHEL,
                option="ASGICacheMiddleware(storage=AsyncSqliteStorage())",
                note="its default; one file for all workers of a machine",
            ),
            hishel_sqlite,
        ),
        Peer(
            About(
                name="fastapi-cache2",
                distribution="fastapi-cache2",
                page="https://github.com/long2ice/fastapi-cache#quick-start",
                option="@cache(expire=...), RedisBackend",
                note="caches return values of endpoints; knows no HTTP but Cache-Control: no-cache",
            ),
            fastapi_cache2,
        ),
        Peer(
            About(
                name="starlette-caches",
                distribution="starlette-caches",
                page="https://mattmess1221.github.io/starlette-caches/usage",
                option="CacheMiddleware(cache=Cache(Cache.REDIS, ttl=...))",
            ),
            starlette_caches,
        ),
        Peer(
            About(
                name=NGINX,
                distribution="",
                page="https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_cache_lock",
                option="proxy_cache_lock on, proxy_cache_use_stale updating",
                note="a program in front of the workers of one machine: a hit reaches neither Python nor Redis. Who "
                "comes while an expired answer is renewed is served it stale; without that, all of them ask",
            ),
            origin,
            in_python=False,
        ),
    )
}


def application(settings: AppSettings) -> App:
    return origin(settings) if settings.peer == ORIGIN else PEERS[settings.peer].make(settings)
