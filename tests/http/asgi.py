"""An ASGI client: one request to an application in this process."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.http.suite.play import Answer

__all__ = ["request", "scope_of"]


def scope_of(method: str, path: str, fields: list[tuple[str, str]]) -> dict[str, Any]:
    raw, _, query = path.partition("?")
    headers = [(name.lower().encode("latin-1"), value.strip().encode("latin-1")) for name, value in fields]
    if not any(name == b"host" for name, _ in headers):
        headers.insert(0, (b"host", b"example.test"))
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": raw, "raw_path": raw.encode("latin-1"), "query_string": query.encode("latin-1"), "root_path": "",
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip


async def request(
    app: Any,
    method: str,
    path: str,
    *,
    fields: list[tuple[str, str]] | None = None,
    body: bytes = b"",
    gone: asyncio.Event | None = None,
    announced: bool = True,
) -> Answer:
    """Raises what the application raises. `gone` is set when the client leaves. `announced`: with Content-Length."""
    given = list(fields or ())
    if body and announced:
        given.append(("content-length", str(len(body))))
    sent: list[dict[str, Any]] = []
    bodies = [{"type": "http.request", "body": body, "more_body": False}]
    gone = gone or asyncio.Event()

    async def receive() -> dict[str, Any]:
        if bodies:
            return bodies.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope_of(method, path, given), receive, send)
    start, *parts = sent
    assert start["type"] == "http.response.start", sent
    assert parts, "a response has a body, be it empty"
    assert not parts[-1].get("more_body", False), "the response was broken off"
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
    return Answer(start["status"], headers, b"".join(part.get("body", b"") for part in parts))
