"""A process that writes the first pieces of a body and then waits until it is killed: `writer.py URL NAMESPACE`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from stampede_guard import StampedeGuard
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.pieces.writing import PieceWriter
from tests.http.pieces.test_pieces import BODY, plan_of


async def main(url: str, namespace: str) -> None:
    async with StampedeGuard.from_url(url, namespace=namespace) as guard:
        writer = PieceWriter(guard.engine, plan_of(guard), PieceLayout("dead", 100, len(BODY)))
        assert await writer.ready()
        print("ready", flush=True)

        async def chunks() -> AsyncIterator[bytes]:
            yield BODY[:250]
            print("sent", flush=True)
            await asyncio.Event().wait()

        await writer.write(chunks())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
