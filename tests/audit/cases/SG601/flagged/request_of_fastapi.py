from fastapi import APIRouter, Request
from fastapi_cache.decorator import cache

router = APIRouter()


@router.get("/orders")
@cache(expire=60)
async def orders(request: Request):
    return await load(page=request.query_params.get("page"))


@router.get("/account")
@cache(expire=60)
async def account(asked: Request):
    return await load(asked.state.user.id)
