"""The shop's catalog."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi_cache.decorator import cache

from examples.audited_app.work import db, model, rates

router = APIRouter(prefix="/catalog")


@router.get("/recommended/{customer}")
@cache(expire=300)
async def recommended(customer: int) -> list[int]:
    return await model.predict(customer)


@router.get("/prices")
@cache(expire=300)
async def prices() -> dict[str, float]:
    return await rates.get_json("https://rates.example.org/latest")


@router.get("/categories")
@cache(expire=300)
async def categories() -> list[int]:
    return [await db.fetch_val("categories")]


@router.get("/bestsellers")
@cache(expire=300)
async def bestsellers(category: str, limit: int = 10) -> list[int]:
    return [await db.fetch_val("bestsellers", category, limit)]
