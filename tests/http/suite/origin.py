"""The origin of the test cases, as an ASGI application: it answers each request as its case says, and notes it.

`/case/{run}/{id}[/filename]` is a case's URL, `/state/{run}/{id}` what was seen there.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

from stampede_guard.http.spec.dates import format_date
from tests.http.suite.cases import Case

__all__ = ["DATES", "Disconnected", "Origin", "http_date"]

DATES = frozenset({"date", "expires", "last-modified", "if-modified-since", "if-unmodified-since"})
VALIDATORS = (("etag", "if-none-match"), ("last-modified", "if-modified-since"))


class Disconnected(RuntimeError):
    """The origin closes the connection without an answer."""


def http_date(moment: float, *, rfc850: bool = False) -> str:
    if rfc850:
        return time.strftime("%A, %d-%b-%y %H:%M:%S GMT", time.gmtime(moment))
    return format_date(moment).decode()


class Origin:
    """`sleep` lets the seconds of a `response_pause` go by."""

    def __init__(
        self,
        cases: dict[str, Case],
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cases = cases
        self._sleep = sleep
        self._clock = clock
        self.seen: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        _, kind, run, name, *_ = scope["path"].split("/")
        name = unquote(name)
        if kind == "state":
            await _send(send, 200, [("Cache-Control", "no-store")], json.dumps(self.seen[run, name]).encode())
            return
        await self._case(scope, receive, send, run, self._cases[name])

    async def _case(self, scope: Any, receive: Any, send: Any, run: str, case: Case) -> None:
        fields = [(key.decode("latin-1").lower(), value.decode("latin-1")) for key, value in scope["headers"]]
        number = int(dict(fields).get("req-num", "1"))
        seen, config = self.seen[run, case.id], case.requests[number - 1]
        while (await receive()).get("more_body"):
            pass
        now = self._clock()
        base = f"/case/{run}/{case.id}"
        headers = self._headers(config, now, base)
        note = {"number": number, "method": scope["method"], "fields": fields, "sent": headers}
        seen.append(note)
        if "response_pause" in config:
            await self._sleep(config["response_pause"])
        if config.get("disconnect"):
            raise Disconnected("as the case says")
        status = config.get("response_status", [200])[0]
        if str(config.get("expected_type", "")).endswith("validated"):
            status = self._validated(case.requests[number - 2], seen, number, dict(fields), status)
        extra = [
            ("Server-Base-Url", base),
            ("Server-Request-Count", str(len(seen))),
            ("Client-Request-Count", str(number)),
            ("Server-Now", str(round(now * 1000))),
            ("Request-Numbers", " ".join(str(one["number"]) for one in seen)),
        ]
        if not any(key.lower() == "content-type" for key, _ in headers):
            extra.append(("Content-Type", "text/plain"))
        body = config.get("response_body", f"{run}/{case.id}") or ""
        await _send(send, status, [*headers, *extra], body.encode(), head=scope["method"] == "HEAD")

    def _headers(self, config: dict[str, Any], now: float, base: str) -> list[tuple[str, str]]:
        found = []
        old = [name.lower() for name in config.get("rfc850date", ())]
        for name, value, *_ in config.get("response_headers", ()):
            if isinstance(value, int) and name.lower() in DATES:
                value = http_date(now + value, rfc850=name.lower() in old)
            if name.lower() in ("location", "content-location") and config.get("magic_locations"):
                value = f"{base}/{value}" if value else base
            found.append((name, str(value)))
        return found

    def _validated(
        self, before: dict[str, Any], seen: list[dict[str, Any]], number: int, fields: Any, status: int
    ) -> int:
        """304 if the request has the validator that the previous answer gave."""
        sent = next((dict(_lower(one["sent"])) for one in seen if one["number"] == number - 1), {})
        sent = sent or {name.lower(): str(value) for name, value, *_ in before.get("response_headers", ())}
        for validator, condition in VALIDATORS:
            if condition in fields and fields[condition] == sent.get(validator):
                return 304
        return 999


def _lower(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in pairs]


async def _send(
    send: Any, status: int, headers: list[tuple[str, str]], body: bytes, *, head: bool = False
) -> None:
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    if status in (204, 304) or head:
        body = b""
    elif not any(name == b"content-length" for name, _ in raw):
        raw.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Any, send: Any) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        assert message["type"] == "lifespan.startup"
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
