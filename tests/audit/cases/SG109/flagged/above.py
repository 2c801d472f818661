from fastapi import FastAPI
from fastapi_cache.decorator import cache

app = FastAPI()


@cache(expire=60)
@app.get("/rates")
async def rates(): ...
