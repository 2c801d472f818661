from fastapi import APIRouter, Depends, Request
from stampede_guard import locked_cache

from tests.audit.computing import compute

router = APIRouter()


def get_db():
    return object()


@router.get("/namespaced")
@locked_cache(ttl=60)
async def namespaced(day: int) -> int:
    return await compute(day)


@router.get("/untyped")
@locked_cache(ttl=60, unkeyed=("request", "db"))
async def untyped(request: Request, db=Depends(get_db)):
    return {"orders": await compute()}


@router.get("/lasting")
@locked_cache(ttl=300)
async def lasting() -> int:
    return await compute()
