from fastapi import FastAPI
from stampede_guard import locked_cache

from tests.audit.computing import compute

app = FastAPI()


@app.get("/rates")
@locked_cache(ttl=60)
async def rates(day: int) -> int:
    return await compute(day)
