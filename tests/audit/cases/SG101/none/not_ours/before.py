from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from fastapi_cache.decorator import cache

from tests.audit.computing import compute

router = APIRouter()


@router.post("/orders")
@cache(expire=60)
async def ordered(day: int) -> int:
    return await compute(day)


@router.api_route("/both", methods=["GET", "POST"])
@cache(expire=60)
async def both(day: int) -> int:
    return await compute(day)


@router.get("/page")
@cache(expire=60)
async def page():
    return JSONResponse({"orders": await compute()})


@router.get("/headers")
@cache(expire=60)
async def headers(response: Response) -> int:
    response.headers["X-Day"] = "7"
    return await compute()


@cache(expire=60)
def awaited_by_its_callers(day: int) -> int:
    return day


class Orders:
    @cache(expire=60)
    async def latest(self) -> int:
        return await compute()


@cache(expire=60)
async def forgotten() -> int:
    return await compute()


async def forget():
    forgotten.cache_clear()
