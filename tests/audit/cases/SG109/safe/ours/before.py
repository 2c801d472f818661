from fastapi import FastAPI
from stampede_guard import locked_cache

from tests.audit.computing import compute

app = FastAPI()


# What the shop asks for.
@locked_cache(ttl=60)
# the route
@app.get("/rates")
async def rates(day: int) -> int:
    return await compute(day)
