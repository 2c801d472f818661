"""A cached application behind uvicorn in a process of its own: `site.py URL NAMESPACE PORT`. It prints its port.

Its body comes from a server of the test on this PORT, as fast as that sends it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvicorn

from stampede_guard import StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from tests.http.fleet import cached, start
from tests.http.large.content import LARGE, OPTIONS


async def main(url: str, namespace: str, port: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        await start(send, cached(content_length=str(LARGE)))
        while part := await reader.read(64 * 1024):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        writer.close()

    async with StampedeGuard.from_url(url, namespace=namespace) as guard:
        site = StampedeMiddleware(app, guard=guard, **OPTIONS)
        server = uvicorn.Server(uvicorn.Config(site, port=0, log_level="critical", lifespan="off", ws="none"))
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        await serving


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
