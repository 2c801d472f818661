"""One middleware, event loops in several threads, as a test client or a server with threads has them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from stampede_guard import StampedeGuard, StampedeMiddleware
from stampede_guard.stores.memory import MemoryStore
from tests.http.asgi import request
from tests.http.fleet import cached, start


def test_what_one_loop_waits_for_is_told_by_that_loop() -> None:
    """1. Somebody known asks in one thread. 2. In another one waits, who is not the next to be asked for there."""
    called, go = threading.Event(), threading.Event()
    calls: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        calls.append(threading.get_ident())
        called.set()
        await asyncio.to_thread(go.wait, 20)
        await start(send, cached(content_length="4"))
        await send({"type": "http.response.body", "body": b"page"})

    middleware = StampedeMiddleware(app, guard=StampedeGuard(MemoryStore()))
    bodies: list[bytes] = []
    told: list[tuple[int, int]] = []

    def visit(*fields: tuple[str, str]) -> None:
        async def inside() -> None:
            here = threading.get_ident()
            loop = asyncio.get_running_loop()
            soon = loop.call_soon

            def watched(*args: Any, **options: Any) -> Any:
                told.append((here, threading.get_ident()))
                return soon(*args, **options)

            loop.call_soon = watched  # type: ignore[method-assign]
            bodies.append((await request(middleware, "GET", "/", fields=list(fields))).body)
            await middleware.cache.guard.aclose()

        asyncio.run(inside())

    threads = [
        threading.Thread(target=visit, args=[("authorization", "me")]),
        threading.Thread(target=visit),
    ]
    threads[0].start()
    assert called.wait(60)
    threads[1].start()
    while not (waiting := list(middleware.cache._waiting.values())) or sum(map(len, waiting)) < 2:
        threads[1].join(0.01)
    go.set()
    for thread in threads:
        thread.join(60)
    assert bodies == [b"page", b"page"]
    assert all(loop == thread for loop, thread in told)
