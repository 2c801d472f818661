"""Prices and quality, cached."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi_cache.decorator import cache
from pydantic import BaseModel

from tests.audit.computing import compute

MINUTES = 5 * 60

router = APIRouter(prefix="/v1")


class Quality(BaseModel):
    project: int
    good: int


# The dashboard asks for this one.
@router.get("/quality/{project}")
@cache(expire=300)  # as long as the dashboard's interval
async def quality(project: int, since: dt.date | None = None) -> Quality:
    # the expensive part
    return Quality(project=project, good=await compute(project))


@router.get(
    "/prices",
    tags=["prices"],
)
@cache(
    expire=MINUTES,
)
async def prices(
    currency: Literal["EUR", "USD"] = "EUR",
    pages: Annotated[list[int] | None, Query()] = None,
) -> dict[str, int]:
    return {currency: await compute(currency)}


@router.get("/names")
@cache(2 * MINUTES)
async def names() -> list[str]: return [str(await compute())]  # noqa: E704
