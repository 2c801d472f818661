"""Orders, counted in several ways."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from fastapi_cache.decorator import cache

from examples.audited_app.work import db

router = APIRouter(prefix="/orders")
MINUTES = 5 * 60


@router.get("/open")
@cache(expire=MINUTES)
async def open_orders() -> int:
    return await db.fetch_val("open")


@router.get("/totals")
@cache(expire=MINUTES)
async def totals(currency: Literal["EUR", "USD"] = "EUR") -> dict[str, int]:
    return {currency: await db.fetch_val("totals", currency)}


@router.get("/by-country")
@cache(expire=MINUTES)
async def by_country() -> dict[str, int]:
    return {"PT": await db.fetch_val("by country")}


@router.get("/returned")
@cache(expire=MINUTES)
async def returned(weeks: int = 4) -> int:
    return await db.fetch_val("returned", weeks)


@router.get("/late")
@cache(expire=MINUTES)
async def late() -> list[int]:
    return [await db.fetch_val("late")]
