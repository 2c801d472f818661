"""Calls an ASGI application without a server or a client library: one GET, and the lifespan around many."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from stampede_guard.errors import Misuse

__all__ = ["Response", "get", "lifespan"]

App = Callable[[dict[str, Any], Callable[[], Any], Callable[[Any], Any]], Any]


@dataclass(frozen=True, slots=True)
class Response:
    """`headers` have lower-case names. The attributes have the names of an httpx response."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.content)


async def get(app: App, path: str, state: dict[str, Any], headers: dict[str, str]) -> Response:
    """The application's response to a GET of this path, which may have a query."""
    parts = urlsplit(path)
    host = parts.netloc or "testserver"
    raw = parts.path or "/"
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": parts.scheme or "http",
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [
            (name.lower().encode("latin-1"), text.encode("latin-1"))
            for name, text in {"host": host, **headers}.items()
        ],
        "client": ("testclient", 50000),
        "server": (host, 80),
        "state": dict(state),
    }
    exchange = _Exchange()
    await app(scope, exchange.receive, exchange.send)
    exchange.over.set()
    if not exchange.status:
        raise AssertionError(f"the application gave no answer to GET {path}")
    return Response(exchange.status, exchange.headers, bytes(exchange.body))


class _Exchange:
    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.over = asyncio.Event()
        self._asked = False

    async def receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {
                name.decode("latin-1").lower(): text.decode("latin-1")
                for name, text in message.get("headers", ())
            }
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")
            if not message.get("more_body", False):
                self.over.set()


@contextlib.asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[dict[str, Any]]:
    """Starts the application and gives its state. An application without lifespan support is used as it is.

    Raises `Misuse` if its start-up fails.
    """
    state: dict[str, Any] = {}
    to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}

    async def run() -> None:
        await app(scope, to_app.get, from_app.put)

    task = asyncio.get_running_loop().create_task(run(), name="stampede_guard lifespan")
    try:
        to_app.put_nowait({"type": "lifespan.startup"})
        answer = await _answer(task, from_app)
        if answer.get("type") == "lifespan.startup.failed":
            await asyncio.wait({task}, timeout=1.0)
            cause = task.exception() if task.done() and not task.cancelled() else None
            # Starlette sends a whole traceback; its last line is the error.
            said = str(answer.get("message", "")).strip().rpartition("\n")[2]
            raise Misuse(f"the application did not start: {said}") from cause
        yield state
        if not task.done():
            to_app.put_nowait({"type": "lifespan.shutdown"})
            await _answer(task, from_app)
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            # Reported above, or the exception of an application without lifespan support.
            task.exception()


async def _answer(task: asyncio.Task[None], from_app: asyncio.Queue[dict[str, Any]]) -> dict[str, Any]:
    answer = asyncio.ensure_future(from_app.get())
    try:
        await asyncio.wait({task, answer}, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else {}
    finally:
        answer.cancel()
