"""`def f(page, /, **filters)`: a keyword that is called `page` is one of the filters."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard import StampedeGuard
from tests.support.gate import Gate, soon


async def test_a_keyword_with_the_name_of_a_positional_only_parameter_is_another_argument() -> None:
    async with StampedeGuard.from_url("memory://", namespace="n") as guard:

        @guard.locked_cache(ttl=60)
        async def search(page: int, /, **filters: str) -> str:
            return f"page {page}, filters {filters}"

        expected = "page 1, filters {'page': '2'}"
        assert await search(1, page="2") == expected
        assert await search.refresh(1, page="2") == expected
        await search.set("new", 1, page="2")
        assert await search(1, page="2") == "new"
        await search.invalidate(1, page="2")
        assert await search(1, page="2") == expected
        await search.invalidate(1, page="x")
        # An invalidation also means the other form of the page, and of that alone.
        await search("1", page="2")  # type: ignore[arg-type]
        await search.invalidate(1, page="2")
        assert (await search.with_info("1", page="2")).source == "computed"  # type: ignore[arg-type]


async def test_a_keyword_of_the_name_of_one_that_is_left_out_is_copied() -> None:
    gate = Gate()
    async with StampedeGuard.from_url("memory://", namespace="n") as guard:

        @guard.locked_cache(ttl=60, unkeyed=("session",))
        async def rows(session: Any, /, **filters: Any) -> str:
            await gate.hold()
            return f"{session} {filters}"

        mine = [1]
        call = asyncio.create_task(rows("db", session=mine))
        await gate.arrival()
        mine.append(2)
        gate.open()
        assert await soon(call) == await rows("db", session=[1]) == "db {'session': [1]}"


async def test_a_default_of_its_own_is_watched_beside_a_keyword_of_its_name() -> None:
    gate, shared = Gate(), [1]
    async with StampedeGuard.from_url("memory://", namespace="n") as guard:

        @guard.locked_cache(ttl=60)
        async def rows(ids: list[int] = shared, /, **filters: Any) -> str:
            await gate.hold()
            return f"{ids} {filters}"

        call = asyncio.create_task(rows(ids="x"))
        await gate.arrival()
        shared.append(2)
        gate.open()
        await soon(call)
        shared.pop()
        assert await rows(ids="x") == "[1] {'ids': 'x'}"
