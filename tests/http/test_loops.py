"""One middleware, event loops in several threads, as a test client or a server with threads has them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from stampede_guard import Misuse, StampedeGuard, StampedeMiddleware
from stampede_guard.stores.memory import MemoryStore
from tests.http.asgi import request, scope_of
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


@pytest.mark.parametrize("options", [{}, {"exclude": ["/other"]}])
def test_without_an_event_loop_of_asyncio_the_application_is_not_asked(options: dict[str, Any]) -> None:
    """As under a server on trio: a POST would change the application's data, and its invalidation would fail."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the application was asked")

    async def unused(*_: Any) -> Any:
        raise AssertionError("nothing is received or sent")

    middleware = StampedeMiddleware(app, guard=StampedeGuard(MemoryStore()), **options)
    for method, path in (("GET", "/"), ("POST", "/"), *([("POST", "/other")] if options else [])):
        with pytest.raises(Misuse, match="no event loop of asyncio here"):
            middleware(scope_of(method, path, []), unused, unused).send(None)


def test_without_an_event_loop_of_asyncio_the_end_of_the_lifespan_says_how_to_close() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.shutdown"}

    async def send(_: Any) -> None:
        raise AssertionError("nothing is sent")

    middleware = StampedeMiddleware(app, guard=StampedeGuard(MemoryStore()))
    assert middleware.cache is not None
    with pytest.raises(Misuse, match=r"no event loop of asyncio here.*guard\.close\(\)"):
        middleware({"type": "lifespan"}, receive, send).send(None)
