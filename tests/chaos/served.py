"""An app for whichever server runs several processes of it. Its answers name the computation that they come from.

The journal has a line when a process is up, one when its lifespan has ended, and two for each computation.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.stores.redis import RedisStore
from tests.chaos.journal import Journal

TTL = float(os.environ["CHAOS_TTL"])
"""Seconds that `/hot` and `/stale` are fresh; `/stale` is then served stale, and computed anew in the background."""
COMPUTING = 0.4
"""Seconds that a computation takes."""
FILLER = "0123456789" * 2_000
"""Larger than what goes out at once, so that an answer can be torn."""

journal = Journal(Path(os.environ["CHAOS_JOURNAL"]))
# A deadline that no busy machine reaches: an answer that is late is a fault, and each may cost a computation.
store = RedisStore.from_url(os.environ["CHAOS_URL"], deadline=20.0)
guard = StampedeGuard(store, namespace=os.environ["CHAOS_NAMESPACE"])
numbers = itertools.count(1)


@contextlib.asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    journal.write("process", f"{os.getpid()}", "up")
    yield
    journal.write("process", f"{os.getpid()}", "down")


async def computed(key: str) -> dict[str, Any]:
    name = f"{os.getpid()}#{next(numbers)}"
    journal.write(key, name, "started")
    await asyncio.sleep(COMPUTING)
    journal.write(key, name, "ended")
    return {"computation": name, "filler": FILLER}


cold = guard.locked_cache(name="cold", ttl=600)(computed)
hot = guard.locked_cache(name="hot", ttl=TTL)(computed)
stale = guard.locked_cache(name="stale", ttl=TTL, stale_ttl=600)(computed)


async def answer(request: Request) -> JSONResponse:
    journal.write("requests", f"{os.getpid()}", "arrived")
    cached = {"cold": cold, "hot": hot, "stale": stale}[request.path_params["kind"]]
    return JSONResponse(await cached(request.path_params["kind"]))


app = Starlette(routes=[Route("/{kind}", answer)], lifespan=lifespan)
guard.install(app)
