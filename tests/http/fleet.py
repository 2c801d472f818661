"""Several middlewares on one store, each with a guard of its own, as processes have; and an application to watch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

from stampede_guard import Policy, StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from stampede_guard.stores.memory import MemoryStore
from tests.http.asgi import request
from tests.http.suite.play import Answer
from tests.support.clock import Clock

__all__ = ["App", "Fleet", "cached", "status_of"]

Handler = Callable[[dict[str, Any], Any, Any, int], Awaitable[None]]


class App:
    """Answers with `headers` and its number of the call, when `go` is set. `calls` counts; `open` is how many run."""

    def __init__(self, headers: dict[str, str] | None = None, *, status: int = 200) -> None:
        self.headers = headers if headers is not None else {"cache-control": "max-age=60"}
        self.status = status
        self.calls = 0
        self.open = 0
        self.most_open = 0
        self.scopes: list[dict[str, Any]] = []
        self.go = asyncio.Event()
        self.go.set()
        self.called = asyncio.Event()
        self.handler: Handler | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1
        number = self.calls
        self.scopes.append(scope)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.called.set()
        try:
            if self.handler is not None:
                await self.handler(scope, receive, send, number)
                return
            await self.go.wait()
            await start(send, self.headers, self.status)
            await send({"type": "http.response.body", "body": f"answer {number}".encode()})
        finally:
            self.open -= 1


async def start(send: Any, headers: dict[str, str], status: int = 200) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


def cached(**more: str) -> dict[str, str]:
    return {"cache-control": "max-age=60"} | {name.replace("_", "-"): value for name, value in more.items()}


def status_of(answer: Answer) -> str:
    return answer.get("cache-status") or ""


class Fleet:
    """`on`: a URL, or a store; without, one in memory, on a clock that is moved by hand."""

    def __init__(
        self,
        app: Any,
        *,
        processes: int = 1,
        policy: Policy | None = None,
        on: Any = None,
        namespace: str = "web",
        **options: Any,
    ) -> None:
        self.clock = Clock(1_700_000_000.0)
        policy = policy or Policy()
        if isinstance(on, str):
            self.guards = [
                StampedeGuard.from_url(on, namespace=namespace, policy=policy) for _ in range(processes)
            ]
        else:
            store = MemoryStore(clock=self.clock) if on is None else on
            self.guards = [StampedeGuard(store, namespace=namespace, policy=policy) for _ in range(processes)]
        self.middlewares = [
            StampedeMiddleware(app, guard=guard, clock=self.clock, **options) for guard in self.guards
        ]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for middleware in self.middlewares:
            await middleware.cache.aclose()

    async def get(self, path: str = "/", *, process: int = 0, method: str = "GET", **fields: str) -> Answer:
        pairs = [(name.replace("_", "-"), value) for name, value in fields.items()]
        return await request(self.middlewares[process], method, path, fields=pairs)

    def herd(self, count: int, path: str = "/", **fields: str) -> list[asyncio.Task[Answer]]:
        processes = len(self.guards)
        return [asyncio.ensure_future(self.get(path, process=n % processes, **fields)) for n in range(count)]

    async def settled(self) -> None:
        for guard in self.guards:
            while flights := list(guard.engine.runtime().flights.values()):
                await asyncio.wait([flight.landed for flight in flights])
