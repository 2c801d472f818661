"""Warm a list of URLs: ask an application for each, as a client would, before clients come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from stampede_guard.engine.tasks import running_loop
from stampede_guard.errors import Misuse
from stampede_guard.http.spec.fields import token
from stampede_guard.options import takes_options

__all__ = ["Warmed", "warm"]

_SAFE = "/:@!$&'()*+,;=~-._%"
_PORTS = {"http": 80, "https": 443}


class Warmed(NamedTuple):
    """`status` is 0 if the application raised `error`, or took too long (`TimeoutError`). `cache_status`: that field of
    the response, such as `stampede_guard; fwd=uri-miss; stored`.
    """

    url: str
    status: int
    cache_status: str = ""
    error: Exception | None = None


@takes_options("warm")
async def warm(
    app: Any,
    *,
    urls: Iterable[str],
    headers: Mapping[str, str] | None = None,
    at_once: int = 4,
    timeout: float = 60.0,
) -> list[Warmed]:
    """Ask an ASGI application for each URL with GET, at most `at_once` at the same time. Returns what became of each.

    `app`: the application with its `StampedeMiddleware`, or the middleware itself. What is stored and fresh is not
    computed again. `urls`: absolute, with scheme and host as the server sees them, because both are in the key.
    `headers`: of each request, such as Accept-Encoding, or what a proxy adds. `timeout`: seconds for one URL.

    The lifespan of the application is not run: call it inside. Raises `Misuse` for invalid arguments, before the first
    request.
    """
    if isinstance(urls, str):
        raise Misuse("warm: urls= takes a list of URLs")
    if isinstance(at_once, bool) or not 1 <= at_once <= 1000:
        raise Misuse(f"warm: at_once={at_once!r}: it must be a whole number between 1 and 1000")
    fields = _fields(headers or {})
    scopes = {url: _scope(url, fields) for url in urls}
    running_loop()
    left, found = iter(scopes.items()), dict.fromkeys(scopes, Warmed("", 0))
    await asyncio.gather(*(_work(app, left, found, timeout) for _ in range(min(at_once, len(scopes)))))
    return list(found.values())


async def _work(
    app: Any, left: Iterator[tuple[str, dict[str, Any]]], found: dict[str, Warmed], seconds: float
) -> None:
    for url, scope in left:
        found[url] = await _asked(app, url, scope, seconds)


async def _asked(app: Any, url: str, scope: dict[str, Any], seconds: float) -> Warmed:
    complete = asyncio.Event()
    told: dict[str, Any] = {"status": 0, "headers": ()}
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await complete.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            told.update(message)
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            complete.set()

    try:
        async with asyncio.timeout(seconds):
            await app(scope, receive, send)
    except Exception as error:
        return Warmed(url, 0, error=error)
    lines = [value.decode("latin-1") for name, value in told["headers"] if name.lower() == b"cache-status"]
    return Warmed(url, told["status"], ", ".join(lines))


def _fields(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    found = []
    for name, value in headers.items():
        raw = (name.encode("ascii", "replace").lower(), value.encode("latin-1", "replace").strip())
        if not token(raw[0]) or any(byte in raw[1] for byte in b"\r\n\0") or raw[0] == b"host":
            raise Misuse(f"warm: {name!r} in headers= is not allowed (the host is that of the URL)")
        found.append(raw)
    return found


def _scope(url: str, fields: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError, TypeError):
        raise Misuse(f"warm: {url!r} is not a URL") from None
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc or not parts.netloc.isascii():
        raise Misuse(
            f"warm: {url!r}: write it with scheme and host, such as 'https://shop.example/reports/7'"
        )
    path, query = quote(parts.path or "/", safe=_SAFE), quote(parts.query, safe=_SAFE + "?")
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET",
        "scheme": parts.scheme, "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(),
        "root_path": "", "headers": [(b"host", parts.netloc.encode()), *fields], "client": None,
        "server": (host, port or _PORTS[parts.scheme]), "state": {},
    }  # fmt: skip
