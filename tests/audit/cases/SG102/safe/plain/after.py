#!/usr/bin/env python
# Rates, from far away.
from datetime import timedelta

from stampede_guard import locked_cache

from tests.audit.computing import compute


@locked_cache(ttl=timedelta(minutes=1).total_seconds())
async def odd(day: int) -> int:
    return await compute(day)


@locked_cache(ttl=60)
async def rates(day: int) -> dict[str, float]:
    return {"EUR": float(await compute(day))}


@locked_cache(ttl=60, should_cache=lambda value: value is not None)
async def first(day: int) -> str | None:
    return str(await compute(day)) if day else None
