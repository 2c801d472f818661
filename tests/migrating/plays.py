"""What is called of each pair: the same calls before and after, their answers, and the computations that they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import httpx

__all__ = ["CALLERS", "PLAYS", "Play"]

CALLERS = 8
NEW = 99
"""What nobody asked for yet."""


@dataclass(frozen=True, kw_only=True)
class Play:
    """`answers` and `computed` are the same before and after. `crowd_before`: of eight callers that miss at once, how
    many the old library lets compute. Afterwards it is one."""

    play: Callable[[ModuleType], Any]
    crowd: Callable[[ModuleType], Any]
    answers: list[Any]
    computed: list[int]
    crowd_before: int = CALLERS


# ------------------------------------------------------------------------------------------------------- asyncio


def _client(page: ModuleType) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(page.app), base_url="http://shop")


async def _fastapi_cache2(page: ModuleType) -> list[Any]:
    async with _client(page) as client:

        async def quality(query: str) -> Any:
            return (await client.get(f"/quality?{query}")).json()

        answers = [await quality("project=7"), await quality("project=7&trace=a"), await quality("project=8")]
        answers.append((await client.post("/import")).status_code)
        return [*answers, await quality("project=7")]


async def _fastapi_cache2_crowd(page: ModuleType) -> list[Any]:
    async with _client(page) as client:
        return [answer.json() for answer in await _at_once(lambda: client.get(f"/quality?project={NEW}"))]


async def _cashews(page: ModuleType) -> list[Any]:
    answers = [await page.report(7), await page.report(7, trace="a"), await page.report(7, 2)]
    answers.append(await page.report(8))
    await page.changed(7)
    answers += [await page.report(7), await page.report(8)]
    await page.all_changed()
    return [*answers, await page.report(8), await page.report(0), await page.report(0)]


async def _aiocache(page: ModuleType) -> list[Any]:
    answers = [await page.report(7), await page.report(7, "a"), await page.report(8)]
    answers += [await page.names([1, 2]), await page.names([2, 3])]
    await page.changed(7)
    answers += [await page.report(7), await page.report(8)]
    await page.all_changed()
    return [*answers, await page.report(8), await page.report(0), await page.report(0)]


async def _report_crowd(page: ModuleType) -> list[Any]:
    return await _at_once(lambda: page.report(NEW))


async def _at_once(ask: Callable[[], Awaitable[Any]]) -> list[Any]:
    async def caller() -> Any:
        return await ask()

    return list(await asyncio.gather(*(caller() for _ in range(CALLERS))))


# ------------------------------------------------------------------------------------------------------- threads


def _flask_caching(page: ModuleType) -> list[Any]:
    with page.app.app_context():
        answers = [page.total(7), page.total(7, "a"), page.total(8)]
        client = page.app.test_client()
        answers += [client.get(f"/projects/5?page={number}").text for number in (1, 1, 2)]
        page.changed(7)
        answers += [page.total(7), page.total(8)]
        page.all_changed()
        return [*answers, page.total(7), page.total(8)]


def _flask_caching_crowd(page: ModuleType) -> list[Any]:
    def ask() -> Any:
        with page.app.app_context():
            return page.total(NEW)

    return _in_threads(ask)


def _django(page: ModuleType) -> list[Any]:
    answers = [page.answer(), page.answer(), page.total(7), page.total(7), page.total(8)]
    page.changed(7)
    return [*answers, page.total(7), page.total(8)]


def _lru_cache(page: ModuleType) -> list[Any]:
    answers = [page.rates(7), page.rates(7), page.rates(8)]
    page.all_changed()
    return [*answers, page.rates(7), page.rates(8), page.rates(8)]


def _in_threads(ask: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(CALLERS) as threads:
        return [asked.result(60) for asked in [threads.submit(ask) for _ in range(CALLERS)]]


PLAYS = {
    "From fastapi-cache2": Play(
        play=_fastapi_cache2,
        crowd=_fastapi_cache2_crowd,
        answers=[70, 70, 80, 200, 70],
        computed=[7, 8, 7],
    ),
    "From cashews": Play(
        play=_cashews,
        crowd=_report_crowd,
        answers=[70, 70, 70, 80, 70, 80, 80, 0, 0],
        computed=[7, 7, 8, 7, 8, 0, 0],
        crowd_before=1,
    ),
    "From aiocache": Play(
        play=_aiocache,
        crowd=_report_crowd,
        answers=[70, 70, 80, {1: 10, 2: 20}, {2: 20, 3: 30}, 70, 80, 80, 0, 0],
        computed=[7, 8, 1, 2, 3, 7, 8, 0, 0],
    ),
    "From lru_cache with a time bucket": Play(
        play=_lru_cache,
        crowd=lambda page: _in_threads(lambda: page.rates(NEW)),
        answers=[70, 70, 80, 70, 80, 80],
        computed=[7, 8, 7, 8],
    ),
    "From Flask-Caching": Play(
        play=_flask_caching,
        crowd=_flask_caching_crowd,
        answers=[70, 70, 80, "50 on page 1", "50 on page 1", "50 on page 2", 70, 80, 70, 80],
        computed=[7, 8, 5, 5, 7, 7, 8],
    ),
    "From Django's own cache": Play(
        play=_django,
        crowd=lambda page: _in_threads(lambda: page.total(NEW)),
        answers=[40, 40, 70, 70, 80, 70, 80],
        computed=[4, 7, 8, 7],
    ),
}
