from fastapi import FastAPI
from fastapi_cache import FastAPICache
from fastapi_cache.backends.inmemory import InMemoryBackend
from stampede_guard import StampedeGuard

from tests.audit.computing import compute

app = FastAPI()
guard = StampedeGuard.from_url("memory://", namespace="names")


def start():
    FastAPICache.init(InMemoryBackend(), expire=45)


@app.get("/rates")
@guard.locked_cache(ttl=45)
async def rates(day: int) -> int:
    return await compute(day)
