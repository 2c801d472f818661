"""The console: pages about a running fleet, mounted in an application. Closed and read-only unless you say otherwise.

    python examples/console.py

prints, the first time:

    without allow=: 403
    a visitor: 403
    an operator: 200
    an operator, as JSON: 200, 0 switches
    a switch by the operator, not allowed by name: 403
    a switch by the operator, allowed by name: 200
    as JSON: quality is in mode bypass
"""

from __future__ import annotations

import asyncio
import logging
import os
import re

import httpx
from starlette.applications import Starlette
from starlette.requests import Request

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
SITE = "http://localhost"
guard = StampedeGuard.from_url(URL, namespace="console-example")
# Each action leaves a WARNING of this logger: who, from where, what, and the outcome.
logging.getLogger("stampede_guard.console").addHandler(logging.NullHandler())


def operator(request: Request) -> str | None:
    """The user's name for the audit records; None refuses. Yours asks the login of your application."""
    return request.headers.get("x-operator")


app = Starlette()
app.mount("/closed", guard.console())
app.mount("/look", guard.console(allow=operator))
app.mount("/ops", guard.console(allow=operator, actions=("mode",)))


async def switch(browser: httpx.AsyncClient, mount: str) -> int:
    """What a browser does with the form of a page: it sends the token, and says which site the form comes from."""
    page = (await browser.get(f"{mount}/functions")).text
    token = re.search(r'name="token" value="(\w+)"', page)
    form = {"token": token[1] if token else "", "function": "quality", "to": "bypass"}
    return (await browser.post(f"{mount}/act/mode", data=form, headers={"origin": SITE})).status_code


async def main() -> None:
    transport = httpx.ASGITransport(app=app)
    async with guard, httpx.AsyncClient(transport=transport, base_url=SITE) as visitor:
        print("without allow=:", (await visitor.get("/closed/")).status_code)
        print("a visitor:", (await visitor.get("/ops/")).status_code)
        async with httpx.AsyncClient(
            transport=transport, base_url=SITE, headers={"x-operator": "ada"}
        ) as ada:
            print("an operator:", (await ada.get("/look/")).status_code)
            told = await ada.get("/look/api/functions")
            print(f"an operator, as JSON: {told.status_code}, {len(told.json()['switches'])} switches")
            print("a switch by the operator, not allowed by name:", await switch(ada, "/look"))
            print("a switch by the operator, allowed by name:", await switch(ada, "/ops"))
            told = await ada.get("/ops/api/functions")
            print("as JSON: quality is in mode", told.json()["switches"]["quality"]["mode"])


asyncio.run(main())
