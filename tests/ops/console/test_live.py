"""What viewers of one live page share, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.jobs.history.records import JobRecords
from stampede_guard.leases import MemoryLeases
from stampede_guard.ops.console.live import MOST_SHARED, SHARED_SECONDS, LiveAnswers
from tests.ops.console.conftest import a_browser, live


class Pages:
    """Counts how often each page was made. `clock` is the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made: list[str] = []
        self.go = asyncio.Event()
        self.go.set()
        self.begun = asyncio.Event()
        self.answers: LiveAnswers[str] = LiveAnswers(clock=lambda: self.now)

    def make(self, name: str) -> Callable[[], Awaitable[str]]:
        async def make() -> str:
            self.made.append(name)
            self.begun.set()
            await self.go.wait()
            return f"{name} {len(self.made)}"

        return make

    async def see(self, name: str) -> str:
        return await self.answers.get(name, self.make(name))


async def test_viewers_of_a_page_share_it_for_seconds() -> None:
    pages = Pages()
    assert await pages.see("jobs") == await pages.see("jobs") == "jobs 1"
    assert await pages.see("leases") == "leases 2"
    pages.now = SHARED_SECONDS
    assert await pages.see("jobs") == "jobs 3"
    pages.answers.forget()
    assert await pages.see("jobs") == "jobs 4", "something was done here"


async def test_a_page_that_takes_long_is_made_once_although_its_first_viewer_leaves() -> None:
    pages = Pages()
    pages.go.clear()
    first = asyncio.create_task(pages.see("jobs"))
    await pages.begun.wait()
    pages.now = 10 * SHARED_SECONDS
    second = asyncio.create_task(pages.see("jobs"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    pages.go.set()
    assert await second == "jobs 1" and pages.made == ["jobs"]


async def test_few_pages_are_shared_at_once() -> None:
    pages = Pages()
    for number in range(3 * MOST_SHARED):
        await pages.see(str(number))
    assert len(pages.answers) == MOST_SHARED


async def test_a_page_that_raises_is_made_again() -> None:
    pages = Pages()

    async def broken() -> str:
        raise LookupError("broken")

    with pytest.raises(LookupError):
        await pages.answers.get("jobs", broken)
    assert await pages.see("jobs") == "jobs 1"


async def test_live_pages_of_jobs_ask_the_leases_once_for_all_viewers(
    guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    views = JobRecords.views

    async def counted(self: JobRecords) -> Any:
        nonlocal asked
        asked += 1
        return await views(self)

    monkeypatch.setattr(JobRecords, "views", counted)
    async with MemoryLeases(namespace="shop") as leases, a_browser(guard, leases=leases) as browser:
        seen = [await live(browser.console, "/live/jobs") for _ in range(5)]
        assert asked == 1 and len({one.text for one in seen}) == 1
        # A page that is loaded shows what is so now.
        await browser.see("/jobs")
        assert asked == 2
