"""An app for `gunicorn --preload`: its guard is made, and used, in the master before the workers are forked."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from fastapi import FastAPI

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.stores.redis import RedisStore
from tests.chaos.journal import Journal

journal = Journal(Path(os.environ["CHAOS_JOURNAL"]))
# A deadline that no busy machine reaches: an answer that is late is a fault, and each may cost a computation.
store = RedisStore.from_url(os.environ["CHAOS_URL"], deadline=20.0)
guard = StampedeGuard(store, namespace=os.environ["CHAOS_NAMESPACE"])
app = FastAPI()
guard.install(app)


@app.get("/slow/{key}")
@guard.locked_cache(ttl=600)
async def slow(key: str) -> str:
    journal.write(key, f"{os.getpid()}#{len(journal.lines(key))}", "started")
    await asyncio.sleep(0.5)
    return f"{os.getpid()}"


@app.get("/who")
async def who() -> int:
    return os.getpid()


asyncio.run(slow("warm"))
