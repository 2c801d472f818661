"""The FastAPI service of the story: one endpoint, one aggregate, six ways to cache it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from fastapi import FastAPI
from pydantic import BaseModel
from redis.asyncio import Redis

from bench.herd.database import AGGREGATE, SESSION
from bench.herd.modes import HAND_WRITTEN, HandWritten
from bench.herd.settings import AppSettings

__all__ = ["CategoryQuality", "create_app"]

_POOL_LEAST = 2
_POOL_MOST = 10


class CategoryQuality(BaseModel):
    """One line of the report that all users request."""

    category: str
    items: int
    good: int
    average: float | None


class Database:
    """The worker's connection pool and the only query that it runs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: asyncpg.Pool | None = None

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(
            self._url, min_size=_POOL_LEAST, max_size=_POOL_MOST, server_settings=SESSION
        )

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    async def quality(self, project: int) -> list[dict[str, Any]]:
        if self._pool is None:
            raise RuntimeError("the pool opens with the application's lifespan")
        return [dict(row) for row in await self._pool.fetch(AGGREGATE, project)]


def create_app() -> FastAPI:
    """The service in the mode that the environment names."""
    settings = AppSettings.from_environment()
    database = Database(settings.database_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await database.open()
        yield
        await database.close()

    app = FastAPI(lifespan=lifespan)
    strategy = HAND_WRITTEN.get(settings.mode)
    if strategy is not None:
        _add_hand_written(app, settings, database, strategy)
    elif settings.mode == "middleware":
        _add_behind_middleware(app, settings, database)
    else:
        _add_guarded(app, settings, database)
    app.add_middleware(WorkerHeader)  # outermost: the worker's number must not be cached
    return app


def _add_hand_written(app: FastAPI, settings: AppSettings, database: Database, strategy: HandWritten) -> None:
    redis = Redis.from_url(settings.redis_url)

    @app.get("/quality")
    async def quality(project: int = 1) -> list[CategoryQuality]:
        key = f"{settings.namespace}:quality:{project}"
        value: list[CategoryQuality] = await strategy(
            redis, key, settings.ttl, lambda: database.quality(project)
        )
        return value


def _add_guarded(app: FastAPI, settings: AppSettings, database: Database) -> None:
    from bench.herd.metrics import add_metrics
    from stampede_guard import StampedeGuard  # the other modes must run without the engine

    guard = StampedeGuard.from_url(settings.redis_url, namespace=settings.namespace)
    guard.install(app)
    stale_ttl = settings.stale_ttl if settings.mode == "guard-stale" else 0.0

    @app.get("/quality")
    @guard.locked_cache(ttl=settings.ttl, stale_ttl=stale_ttl, name="herd.quality")
    async def quality(project: int = 1) -> list[CategoryQuality]:
        return [CategoryQuality(**row) for row in await database.quality(project)]

    @app.delete("/quality", status_code=204)
    async def forget(project: int = 1) -> None:
        await quality.invalidate(project)

    @app.post("/quality", status_code=204)
    async def renew(project: int = 1) -> None:
        await quality.refresh(project)

    add_metrics(app, guard)


def _add_behind_middleware(app: FastAPI, settings: AppSettings, database: Database) -> None:
    from bench.herd.metrics import add_metrics
    from stampede_guard import CacheRoute, StampedeGuard, StampedeMiddleware

    guard = StampedeGuard.from_url(settings.redis_url, namespace=settings.namespace)
    app.add_middleware(StampedeMiddleware, guard=guard, routes=[CacheRoute("/quality", ttl=settings.ttl)])

    @app.get("/quality")
    async def quality(project: int = 1) -> list[CategoryQuality]:
        return [CategoryQuality(**row) for row in await database.quality(project)]

    add_metrics(app, guard)


_Message = dict[str, Any]
_Send = Callable[[_Message], Awaitable[None]]
_Receive = Callable[[], Awaitable[_Message]]


class WorkerHeader:
    """Says with every response which worker answered: a herd of one worker would prove nothing."""

    def __init__(self, app: Callable[[_Message, _Receive, _Send], Awaitable[None]]) -> None:
        self._app = app
        self._header = (b"x-worker-pid", str(os.getpid()).encode())

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        async def send_with_header(message: _Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], self._header]
            await send(message)

        await self._app(scope, receive, send_with_header)
