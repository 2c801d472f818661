#!/usr/bin/env python
# Rates, from far away.
from datetime import timedelta

from aiocache import Cache, cached

from tests.audit.computing import compute


@cached(ttl=timedelta(minutes=1).total_seconds(), cache=Cache.MEMORY)
async def odd(day: int) -> int:
    return await compute(day)


@cached(ttl=60)
async def rates(day: int) -> dict[str, float]:
    return {"EUR": float(await compute(day))}


@cached(60)
async def first(day: int) -> str | None:
    return str(await compute(day)) if day else None
