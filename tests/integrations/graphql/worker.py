"""A worker process of gunicorn with the shop, and a journal."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from stampede_guard import StampedeGuard
from tests.chaos.journal import Journal
from tests.integrations.graphql.shop import shop

journal = Journal(Path(os.environ["SHOP_JOURNAL"]))
SECONDS = 0.3
"""Long enough that a burst of requests arrives meanwhile."""


async def compute(what: str) -> None:
    journal.write(what, os.getpid(), "started")
    await asyncio.sleep(SECONDS)


guard = StampedeGuard.from_url(os.environ["SHOP_URL"], namespace=os.environ["SHOP_NAMESPACE"])
app = shop(guard, compute)


@app.get("/who")
async def who() -> int:
    return os.getpid()
