from fastapi import APIRouter, Depends, Request
from fastapi_cache.decorator import cache

from tests.audit.computing import compute

router = APIRouter()


def get_db():
    return object()


@router.get("/namespaced")
@cache(namespace="orders", expire=60)
async def namespaced(day: int) -> int:
    return await compute(day)


@router.get("/untyped")
@cache(expire=60)
async def untyped(request: Request, db=Depends(get_db)):
    return {"orders": await compute()}


@router.get("/lasting")
@cache()
async def lasting() -> int:
    return await compute()
