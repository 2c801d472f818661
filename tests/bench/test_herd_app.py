"""The demo's service behind the HTTP cache: one query for all, and everybody is told who answered and how."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import httpx
import pytest

from bench.herd import app as herd_app
from bench.herd.modes import MODES
from bench.herd.plots import COLOURS
from bench.herd.settings import AppSettings
from bench.herd.story import ABOUT


class FakeDatabase:
    """`begun` counts its queries; each ends when the test says so."""

    def __init__(self, url: str) -> None:
        self.begun = 0
        self.asked = asyncio.Event()
        self.may_end = asyncio.Event()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def quality(self, project: int) -> list[dict[str, Any]]:
        self.begun += 1
        self.asked.set()
        await self.may_end.wait()
        return [{"category": "books", "items": project, "good": 1, "average": None}]


async def test_behind_the_middleware_one_query_serves_all_and_the_others_say_collapsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = FakeDatabase("")
    monkeypatch.setattr(herd_app, "Database", lambda url: database)
    settings = AppSettings(
        mode="middleware", database_url="", redis_url="memory://", namespace="n", ttl=60.0, stale_ttl=0.0
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    transport = httpx.ASGITransport(herd_app.create_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://herd") as client:
        herd = [asyncio.ensure_future(client.get("/quality?project=1")) for _ in range(8)]
        async with asyncio.timeout(60):
            await database.asked.wait()
        database.may_end.set()
        answers = await asyncio.gather(*herd)
        later = await client.get("/quality?project=1")
    assert database.begun == 1
    assert sum("collapsed" in answer.headers["cache-status"] for answer in answers) == 7
    assert "; hit; " in later.headers["cache-status"]
    assert {answer.headers["x-worker-pid"] for answer in (*answers, later)} == {str(os.getpid())}
    assert {answer.text for answer in (*answers, later)} == {answers[0].text}


def test_every_mode_has_its_words_and_its_colour() -> None:
    assert set(MODES) == set(ABOUT) == set(COLOURS)
