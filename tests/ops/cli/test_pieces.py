"""keys: the pieces of a large response are one line, below their response."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from stampede_guard.http.middleware import StampedeMiddleware
from tests.ops.cli.conftest import Operator, Shop

SIZE = 700_000
MARK = b"HP1"
"""Begins each stored piece."""


async def export(scope: Any, receive: Any, send: Any) -> None:
    fields = [(b"cache-control", b"max-age=600"), (b"content-length", b"%d" % SIZE)]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": b"x" * SIZE})


Get = Callable[[str], Awaitable[int]]


@pytest.fixture
async def get(shop: Shop) -> AsyncIterator[Get]:
    """Requests an export through the HTTP cache."""
    cached: Any = StampedeMiddleware(export, guard=shop.guard, max_body_bytes=1000, max_pieces_bytes=10**6)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(cached), base_url="http://shop") as client:

        async def get(path: str) -> int:
            return len((await client.get(path)).content)

        yield get


async def test_pieces_are_counted_below_their_response(operator: Operator, get: Get) -> None:
    assert [await get("/exports/7"), await get("/exports/8")] == [SIZE, SIZE]
    told = (await operator.call("keys", "http*")).out
    lines = [line for line in told.splitlines() if "exports/" in line or "pieces" in line]
    for at in (0, 2):
        assert "/exports/" in lines[at]
        assert re.match(r"    3 pieces +fresh +\d+ min +683\.6 KiB", lines[at + 1]), told
    assert "http3p" not in told
    assert re.search(r"2 entries: 2 fresh; \d+ B of values; 6 pieces of large responses, 1\.3 MiB", told), (
        told
    )


async def test_pieces_take_no_place_of_the_limit(operator: Operator, get: Get) -> None:
    assert [await get("/exports/7"), await get("/exports/8")] == [SIZE, SIZE]
    told = (await operator.call("keys", "http*", "--limit", "2", "--json")).json
    assert (len(told["entries"]), told["more"]) == (2, False)
    assert [(each["count"], each["bytes"]) for each in told["pieces"]] == [(3, SIZE + 3 * len(MARK))] * 2
    assert {each["of"] for each in told["pieces"]} == {entry["name"] for entry in told["entries"]}


async def test_pieces_whose_response_is_gone_are_shown_apart(
    operator: Operator, get: Get, shop: Shop
) -> None:
    assert await get("/exports/7") == SIZE
    (entry,) = (await operator.call("keys", "http*", "--json")).json["entries"]
    await operator.call("invalidate", entry["name"])
    told = (await operator.call("keys", "http*")).out
    assert re.search(r"of responses dropped or not listed\s*\n\s+3 pieces", told), told
    found = (await operator.call("keys", "http*", "--json")).json
    assert [each["of"] for each in found["pieces"]] == [None]
    assert [each["state"] for each in found["entries"]] == ["empty"]
