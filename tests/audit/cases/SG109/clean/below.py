from fastapi import FastAPI
from fastapi_cache.decorator import cache

app = FastAPI()


@app.get("/rates")
@cache(expire=60)
async def rates(): ...
