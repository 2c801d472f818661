"""What the dashboard shows. The incident began here."""

from __future__ import annotations

from datetime import date

from fastapi import APIRouter
from fastapi_cache.decorator import cache
from pydantic import BaseModel

from examples.audited_app.work import db

router = APIRouter(prefix="/quality")


class Quality(BaseModel):
    project: int
    good: int


@router.get("/{project}")
@cache(expire=300)  # COUNT(*) FILTER (WHERE quality_score >= 80) over 1.4 M rows
async def quality(project: int) -> Quality:
    return Quality(project=project, good=await db.fetch_val("good", project))


@router.get("/{project}/daily")
@cache(expire=300)
async def daily(project: int, since: date | None = None) -> dict[str, int]:
    return {"good": await db.fetch_val("daily", project, since)}


@router.get("/{project}/worst")
@cache(expire=300)
async def worst(project: int, limit: int = 10) -> list[int]:
    return [await db.fetch_val("worst", project, limit)]


@router.get("/{project}/reviewers")
@cache(expire=300)
async def reviewers(project: int) -> dict[str, int]:
    return {"reviewers": await db.fetch_val("reviewers", project)}


@router.get("/{project}/trend")
@cache(expire=300)
async def trend(project: int, days: int = 30) -> list[int]:
    return [await db.fetch_val("trend", project, days)]
