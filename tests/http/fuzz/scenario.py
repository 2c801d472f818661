"""One seed: an application that says what its responses depend on, two processes of a cache, and their clients.

The application notes each call, and the clients each answer. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import re
from dataclasses import dataclass
from typing import Any

from stampede_guard import Policy
from stampede_guard.http.spec.dates import format_date
from tests.http.asgi import scope_of
from tests.http.fleet import Fleet
from tests.http.fuzz.drawing import LANG, MINE, Ask, Case, Said, meaning, place_of
from tests.leases.simulation.loop import VirtualLoop
from tests.support.seeded import seeded

__all__ = ["Call", "Site", "Visit", "play", "sent"]

LONGEST = 600.0
"""Virtual seconds after which whoever still waits waits for ever."""


@dataclass(frozen=True)
class Call:
    """One call of the application. `body`: of the whole response. `maker`: the number of the request it was for."""

    number: int
    ask: Ask
    maker: int
    said: Said
    step: int
    at: float
    body: bytes
    etag: str
    modified: float
    status: int = 200


@dataclass(frozen=True)
class Visit:
    """One request and its answer. `ask` has the fields as they were sent."""

    number: int
    ask: Ask
    step: int
    at: float
    status: int
    fields: dict[str, str]
    body: bytes
    complete: bool
    failing: bool
    """Whether the application answered with errors."""

    @property
    def call(self) -> int | None:
        """The number of the call that its fields are from."""
        found = re.search(r"number=(\d+)", self.fields.get("cache-control", ""))
        return int(found[1]) if found else None


class Site:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.calls: list[Call] = []
        self.visits: list[Visit] = []
        self.fences: list[tuple[int, str, str]] = []
        """Steps of invalidations that returned, with a kind (url, prefix, group) and its value."""
        self.errors: list[str] = []
        self.step = 0
        self._said: dict[str, Said] = {}
        self._versions: dict[str, tuple[int, float]] = {}
        self._seen: dict[str, tuple[str, str]] = {}
        self._numbers = itertools.count(1)

    async def play(self) -> None:
        policy = Policy(l1_ttl=self.case.near) if self.case.near else Policy()
        async with Fleet(self.app, processes=2, policy=policy, **self.case.options) as fleet:
            self.fleet = fleet
            for number, step in enumerate(self.case.steps):
                self.step = number
                await self._play(step)
                await fleet.settled()

    # --- the application ---------------------------------------------------------------------------

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        fields = {name.decode(): value.decode() for name, value in scope["headers"]}
        method, query = scope["method"], scope["query_string"].decode()
        url = scope["path"] + (f"?{query}" if query else "")
        body = (await receive()).get("body", b"") if method == "QUERY" else b""
        if method not in ("GET", "HEAD", "QUERY"):
            self._change(url)
            group = fields.get("changes", "")
            told = {"cache-group-invalidation": f'"{group}"'} if group else {}
            if fields.get("answered"):
                # What a GET would get from now on (RFC 9110, 9.3.3).
                call = self._call(Ask("POST", url, 0), scope["client"][1])
                told |= self._fields(call) | {"content-location": url}
            await _send(send, 200, told, call.body if fields.get("answered") else b"done")
            return
        if self._said[place_of(url)].fails:
            await _send(send, 503, {"content-length": "0"}, b"")
            return
        ask = Ask(method, url, 0, tuple(fields.items()), body)
        call = self._call(ask, scope["client"][1])
        content, told = call.body, self._fields(call)
        await asyncio.sleep(0)
        if call.etag and sent(fields.get("if-none-match", "")) & {call.etag}:
            self.calls[call.number - 1] = dataclasses.replace(call, status=304)
            await _send(send, 304, told, b"")
            return
        status, wanted = 200, fields.get("range", "")
        if call.said.ranges and wanted and fields.get("if-range", call.etag) == call.etag and method == "GET":
            begin, _, end = wanted.removeprefix("bytes=").partition("-")
            first = int(begin) if begin else max(0, len(content) - int(end))
            last = min(len(content) - 1, int(end)) if begin and end else len(content) - 1
            if first <= last:
                told["content-range"] = f"bytes {first}-{last}/{len(content)}"
                status, content = 206, content[first : last + 1]
        told["content-length"] = str(len(content))
        await _send(send, status, told, b"" if method == "HEAD" else content)

    def _call(self, ask: Ask, maker: int) -> Call:
        place, now = place_of(ask.url), self.fleet.clock.now
        said = self._said[place]
        version, modified = self._versions.get(place, (0, self.fleet.clock.now - 1000))
        self._versions[place] = version, modified
        depends = [ask.body.decode(), ask.field("content-type") if ask.body else ""]
        if said.depends == "cookie":
            depends.append(ask.field("cookie"))
        elif said.depends == "language":
            depends.append(ask.field("accept-language"))
        elif said.depends == "private":
            depends += [ask.field("x-user"), ask.field("cookie"), ask.field("authorization")]
        if ask.url == MINE:
            depends += [self.case.user(ask)]
        if ask.url == LANG:
            depends.append(ask.cookie("lang"))
        told = f"{meaning(ask.url, said.search)} {version} {depends}"
        # Each version has a length of its own, which a HEAD shows without a validator.
        body = (told + "." * (40 + version)).encode()
        etag = f'"{told.encode().hex()}"' if said.etag else ""
        number = len(self.calls) + 1
        self.calls.append(Call(number, ask, maker, said, self.step, now, body, etag, modified))
        return self.calls[-1]

    def _fields(self, call: Call) -> dict[str, str]:
        said = call.said
        told = {"content-type": "text/plain"}
        # In a field that a 304 has, too.
        control = [f"number={call.number}"]
        control += [f"max-age={said.max_age}"] if said.max_age is not None else []
        control += [said.flag] if said.flag else []
        control += [said.stale] if said.stale else []
        control += ["private"] if said.depends == "private" else []
        more = {
            "cache-control": ", ".join(control),
            "vary": {"cookie": "cookie", "language": "accept-language"}.get(said.depends, ""),
            "etag": call.etag,
            "no-vary-search": said.search if place_of(call.ask.url) == "/s" else "",
            "last-modified": format_date(call.modified).decode() if said.modified else "",
            "set-cookie": f"token={call.number}" if said.cookie else "",
            "age": str(said.age) if said.age else "",
            "cache-groups": ", ".join(f'"{group}"' for group in said.groups),
        }
        return told | {name: value for name, value in more.items() if value}

    def _change(self, url: str) -> None:
        place = place_of(url)
        self._versions[place] = self._versions.get(place, (0, 0.0))[0] + 1, self.fleet.clock.now

    # --- its clients -------------------------------------------------------------------------------

    async def _play(self, step: Any) -> None:
        match step:
            case ("say", url, said):
                self._said[url] = said
            case ("clock", seconds):
                self.fleet.clock.advance(seconds)
            case ("change", url):
                self._change(url)
            case ("unsafe", method, url, group, process):
                told = (("changes", group),) if group else ()
                if method == "ANSWERED":
                    method, told = "POST", (*told, ("answered", "yes"))
                await self._visit(Ask(method, url, process, told))
                self.fences.append((self.step, "url", url))
                if group:
                    self.fences.append((self.step, "group", group))
            case ("purge", kind, value, process):
                told = f"http://example.test{value}" if kind != "tag" else value
                await self.fleet.middlewares[process].purge(**{kind: told})
                self.fences.append((self.step, {"tag": "group"}.get(kind, kind), value))
            case ("both", purge, asks):
                await asyncio.gather(self._play(purge), *map(self._visit, asks))
            case ("ask", asks):
                await asyncio.gather(*map(self._visit, asks))

    async def _visit(self, ask: Ask) -> None:
        etag, modified = self._seen.get(ask.url, ("", ""))
        now = self.fleet.clock.now
        condition = {
            "etag": {"if-none-match": f'"other", {etag}'} if etag else {},
            "old-etag": {"if-none-match": '"old"'},
            "any": {"if-none-match": "*"},
            "since": {"if-modified-since": modified or format_date(now).decode()},
            "before": {"if-modified-since": format_date(now - 5000).decode()},
            "if-range": {"if-range": etag} if etag else {},
            "if-range-old": {"if-range": '"old"'},
        }.get(ask.condition, {})
        length = {"content-length": str(len(ask.body))} if ask.body else {}
        ask = dataclasses.replace(ask, fields=tuple((dict(ask.fields) | condition | length).items()))
        number, step, messages = next(self._numbers), self.step, []

        async def send(message: Any) -> None:
            messages.append(message)

        bodies = [{"type": "http.request", "body": ask.body, "more_body": False}]

        async def receive() -> Any:
            return bodies.pop() if bodies else await asyncio.Event().wait()

        scope = scope_of(ask.method, ask.url, list(ask.fields)) | {"client": ("127.0.0.1", number)}
        try:
            await self.fleet.middlewares[ask.process](scope, receive, send)
        except Exception as error:
            self.errors.append(f"{ask}: {error!r}")
            return
        fields = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in messages[1:])
        complete = not messages[-1].get("more_body", False)
        status = messages[0]["status"]
        failing = place_of(ask.url) in self._said and self._said[place_of(ask.url)].fails
        self.visits.append(Visit(number, ask, step, now, status, fields, body, complete, failing))
        if "etag" in fields or "last-modified" in fields:
            self._seen[ask.url] = fields.get("etag", ""), fields.get("last-modified", "")


def sent(value: str) -> set[str]:
    """The validators of an If-None-Match."""
    return {part.strip() for part in value.split(",")} - {""}


async def _send(send: Any, status: int, fields: dict[str, str], body: bytes) -> None:
    headers = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if body:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


def play(case: Case) -> Site:
    """In virtual time, and the same for each seed."""
    site, loop = Site(case), VirtualLoop()
    with seeded(case.seed):
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(asyncio.wait_for(site.play(), LONGEST))
        finally:
            asyncio.set_event_loop(None)
            loop.close()
    return site
