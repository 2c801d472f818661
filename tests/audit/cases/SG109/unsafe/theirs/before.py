from fastapi import FastAPI
from fastapi_cache.decorator import cache

from tests.audit.computing import compute

app = FastAPI()


@cache(expire=60)
@app.get("/rates")
async def rates(day: int) -> int:
    return await compute(day)
