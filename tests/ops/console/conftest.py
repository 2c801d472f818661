"""A guard on a real server, its console mounted in an application, and a browser without JavaScript."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from stampede_guard import StampedeGuard
from stampede_guard.ops.console.access import COOKIE, token_of
from stampede_guard.ops.console.app import ConsoleApp
from stampede_guard.ops.console.fleet import Fleet
from tests.support.sessions import patient

BASE = "http://console.test"
ACTIONS = ("mode",)


class Browser(httpx.AsyncClient):
    """Follows no redirects. `path` are below the mount path."""

    console: ConsoleApp
    fleet: Fleet

    def __init__(self, app: Any, mount: str = "/ops") -> None:
        super().__init__(transport=httpx.ASGITransport(app=app), base_url=BASE)
        self.mount = mount

    async def see(self, path: str = "/", **query: str) -> httpx.Response:
        return await self.get(self.mount + path, params=query or None)

    async def submit(
        self, action: str, *, origin: str = BASE, page: str = "/", **fields: str
    ) -> httpx.Response:
        """The action's form, with the token of a page."""
        if "token" not in fields:
            fields["token"] = token_in((await self.see(page)).text)
        return await self.post(f"{self.mount}/act/{action}", data=fields, headers={"origin": origin})

    async def token(self, user: str = "ada") -> str:
        """Of this session. Also for a user whose pages show no form now."""
        await self.see("/")
        return token_of(self.cookies[COOKIE], user, await self.console._secrets.newest())


def token_in(text: str) -> str:
    found = re.search(r'name="token" value="(\w+)"', text)
    return found[1] if found else ""


@pytest.fixture
async def guard(valkey_url: str, namespace: str) -> AsyncIterator[StampedeGuard]:
    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as made:
        yield made


@contextmanager
def mounted(app: Any, path: str = "/ops") -> Iterator[Browser]:
    outer = Starlette()
    outer.mount(path, app)
    yield Browser(outer, path)


async def by_name(request: Request) -> str:
    return "ada"


@pytest.fixture
async def browser(guard: StampedeGuard) -> AsyncIterator[Browser]:
    """Of a user who may look."""
    async with a_browser(guard) as found:
        yield found


@pytest.fixture
async def acting(guard: StampedeGuard) -> AsyncIterator[Browser]:
    """Of a user who may do everything, and is called ada."""
    async with a_browser(guard, actions=ACTIONS) as found:
        yield found


@asynccontextmanager
async def a_browser(guard: StampedeGuard, **options: Any) -> AsyncIterator[Browser]:
    console = guard.console(allow=by_name, **options)
    assert isinstance(console, ConsoleApp)
    with mounted(console) as found:
        found.console, found.fleet = console, console.fleet
        async with found:
            yield found
    await console.fleet.aclose()


@dataclass
class Stream:
    """What a stream has sent before its page was closed."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""


async def live(app: Any, path: str) -> Stream:
    """The first event. Then the page is closed."""
    told, closed = Stream(), asyncio.Event()

    async def receive() -> dict[str, Any]:
        await closed.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            told.status = message["status"]
            told.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            told.text += message.get("body", b"").decode()
            if told.text:
                closed.set()

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [],
    }
    await asyncio.wait_for(app(scope, receive, send), 60)
    return told
