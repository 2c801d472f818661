from fastapi import APIRouter, Depends, Request
from fastapi_cache.decorator import cache

from shop.models import Filters, by_user, current_shop

router = APIRouter()


@router.get("/mine")
@cache(expire=60)
async def mine(request: Request) -> int:
    return len(request.headers)


@router.get("/filtered")
@cache(expire=60)
async def filtered(filters: Filters) -> int:
    return 80


@router.get("/of")
@cache(expire=60)
async def of_the_shop(shop=Depends(current_shop)) -> int:
    return 80


@router.get("/built")
@cache(expire=60, key_builder=by_user)
async def built(request: Request) -> int:
    return 80
