"""The page of keys: found by function, state and tag, in pages, without values of parameters, and invalidated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from stampede_guard import StampedeGuard
from stampede_guard.ops.console.app import ConsoleApp
from stampede_guard.ops.fleet import searching
from stampede_guard.ops.fleet.searching import Wanted, search
from stampede_guard.stores.connections.wire import value_key
from stampede_guard.stores.console import console as consoles
from stampede_guard.stores.fleet.stream import hashed
from tests.ops.console.conftest import Browser, by_name, mounted
from tests.support.gate import soon

ACTIONS = ("invalidate", "invalidate_tag", "invalidate_function")


@pytest.fixture
async def shop(guard: StampedeGuard, valkey: redis.asyncio.Redis) -> Any:
    """Three functions with entries: `shop.quality` (fresh, tagged), `shop.report` (stale), `shop.broken` (failed)."""

    @guard.locked_cache(ttl=60, name="shop.quality", tags=("project:{project}",))
    async def quality(project: int) -> int:
        return project

    @guard.locked_cache(ttl=60, stale_ttl=60, name="shop.report")
    async def report(country: str) -> str:
        return country

    @guard.locked_cache(ttl=60, error_ttl=60, name="shop.broken")
    async def broken() -> int:
        raise LookupError

    await asyncio.gather(*(quality(project) for project in (7, 8, 9)), report("visitor"))
    await asyncio.gather(broken(), return_exceptions=True)
    await valkey.pexpire(value_key(report.key("visitor")), 30_000)
    return quality


@pytest.fixture
async def named(guard: StampedeGuard) -> AsyncIterator[Browser]:
    """A console that shows names and allows all actions of this page."""
    console = guard.console(allow=by_name, actions=ACTIONS, shows_names=True)
    assert isinstance(console, ConsoleApp)
    with mounted(console) as found:
        async with found:
            yield found
    await console.fleet.aclose()


@pytest.fixture
async def hiding(guard: StampedeGuard) -> AsyncIterator[Browser]:
    console = guard.console(allow=by_name, actions=ACTIONS)
    assert isinstance(console, ConsoleApp)
    with mounted(console) as found:
        async with found:
            yield found
    await console.fleet.aclose()


async def entries(browser: Browser, **query: str) -> list[dict[str, Any]]:
    answer = await browser.see("/api/keys", **query)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    assert told["following"] == ""
    found: list[dict[str, Any]] = told["entries"]
    return found


async def test_entries_are_found_by_function_state_and_tag(named: Browser, shop: Any) -> None:
    everything = await entries(named)
    assert sorted((one["function"], one["state"]) for one in everything) == [
        ("shop.broken", "failed"),
        *[("shop.quality", "fresh")] * 3,
        ("shop.report", "stale"),
    ]
    assert [one["function"] for one in await entries(named, state="stale")] == ["shop.report"]
    assert {one["function"] for one in await entries(named, function="quality")} == {"shop.quality"}
    (tagged,) = await entries(named, tag="project:8")
    assert tagged["entry"] == shop.key(8)
    assert 0 < tagged["fresh_left"] <= 60 and tagged["size"] > 0 and tagged["waiters"] == 0
    assert await entries(named, tag="project:70") == []
    assert {one["state"] for one in await entries(named, state="tag")} == {"tag"}


async def test_values_of_parameters_are_shown_only_if_names_may_be(
    named: Browser, hiding: Browser, shop: Any
) -> None:
    (report,) = await entries(hiding, function="shop.report")
    assert report["entry"].startswith("#") and len(report["entry"]) == 17
    for path in ("/keys", "/api/keys"):
        for query in ({}, {"entry": report["entry"]}, {"state": "tag"}):
            text = (await hiding.see(path, **query)).text
            assert "visitor" not in text and "project:" not in text.replace("project:7", "")
    (shown,) = await entries(named, function="shop.report")
    assert hashed(shown["entry"]) == report["entry"]
    one = (await named.see("/api/keys", entry=shown["entry"])).json()["one"]
    assert [(part["label"], part["text"]) for part in one["parts"]] == [("country", "'visitor'")]
    hidden = (await hiding.see("/api/keys", entry=report["entry"])).json()["one"]
    assert [(part["label"], part["text"]) for part in hidden["parts"]] == [("country", None)]
    assert (await hiding.see("/api/keys", entry="#0123456789abcdef")).status_code == 404
    unknown = await hiding.submit("invalidate_tag", page="/keys", tag="#0123456789abcdef")
    assert unknown.status_code == 400 and "load the list again" in unknown.text


async def test_the_holder_and_those_who_wait_are_shown(
    named: Browser, guard: StampedeGuard, valkey: Any
) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @guard.locked_cache(ttl=60, name="shop.slow")
    async def slow() -> int:
        began.set()
        await go.wait()
        return 7

    call = asyncio.ensure_future(slow())
    await soon(began.wait())
    (one,) = await entries(named, state="computing")
    assert one["function"] == "shop.slow" and one["lease"]["alive"] is True
    assert one["lease"]["pid"] > 0 and str(one["lease"]["pid"]) in one["lease"]["holder"]
    assert one["lease"]["host"] in (await named.see("/keys", entry=one["entry"])).text
    go.set()
    await soon(call)


async def test_pages_have_each_entry_once_and_look_at_a_bounded_number(
    guard: StampedeGuard, named: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consoles, "PAGE_COUNT", 10)
    monkeypatch.setattr(searching, "STEPS", 3)
    await asyncio.gather(*(guard.set(f"report:{number}", number, ttl=60) for number in range(100)))
    seen: list[str] = []
    cursor, pages = "", 0
    while True:
        told = (await named.see("/api/keys", cursor=cursor)).json()
        seen += [one["entry"] for one in told["entries"]]
        cursor, pages = told["following"], pages + 1
        if not cursor:
            break
        text = (await named.see("/keys")).text
        assert 'rel="next"' in text and "cursor=" in text
    assert len(seen) == len(set(seen)) == 100 and pages > 3


@pytest.mark.parametrize("cursor", ["x", "0", "7.0", "0.-1", "0." + "9" * 25, "0.1\n"])
async def test_a_cursor_of_another_shape_is_refused(named: Browser, cursor: str) -> None:
    assert (await named.see("/api/keys", cursor=cursor)).status_code == 404


async def test_a_key_a_tag_and_a_function_are_invalidated(named: Browser, hiding: Browser, shop: Any) -> None:
    done = await named.submit("invalidate", page="/keys", entry=shop.key(7))
    assert done.status_code == 200 and "is invalidated" in done.text
    assert {one["entry"] for one in await entries(named, function="quality")} == {shop.key(8), shop.key(9)}
    (mark,) = [one["entry"] for one in await entries(hiding, tag="project:8")]
    assert (await hiding.submit("invalidate", page="/keys", entry=mark)).status_code == 200
    assert {one["entry"] for one in await entries(named, function="quality")} == {shop.key(9)}
    assert (await named.submit("invalidate_tag", page="/keys", tag="project:9")).status_code == 200
    assert await entries(named, tag="project:9") == []
    done = await named.submit("invalidate_function", page="/keys", function="report")
    assert "1 entry of report is invalidated" in done.text
    assert await entries(named, function="shop.report") == []


async def test_entries_of_other_namespaces_are_out_of_reach(named: Browser, shop: Any) -> None:
    for action, fields in (
        ("invalidate", {"entry": "other:=report:7"}),
        ("invalidate", {"entry": "no name"}),
        ("invalidate_function", {"function": "other.function"}),
    ):
        answer = await named.submit(action, page="/keys", **fields)
        assert answer.status_code == 400, fields
    assert (await named.see("/api/keys", entry="other:=report:7")).status_code == 404


async def test_an_empty_namespace_names_no_other_one(named: Browser, valkey: redis.asyncio.Redis) -> None:
    async with StampedeGuard(valkey, namespace="stranger") as other:
        await other.set("report", 7, ttl=60)
        answer = await named.submit("invalidate_function", page="/keys?function=report", function="report")
    assert answer.status_code == 400
    assert "no entries in namespace" in answer.text and "stranger" not in answer.text


async def test_names_are_text_and_never_markup(guard: StampedeGuard, named: Browser) -> None:
    await guard.set("<script>alert(1)</script>", 7, ttl=60)
    await guard.set('"><img src=x onerror=alert(1)>', 7, ttl=60, tags=("<b>tag</b>",))
    for query in ({}, {"function": '"><script>'}, {"tag": "<b>tag</b>"}, {"state": "tag"}):
        text = (await named.see("/keys", **query)).text
        assert "<script>alert" not in text and "<img" not in text and "<b>tag" not in text
    for one in await entries(named):
        text = (await named.see("/keys", entry=one["entry"])).text
        assert "<script>alert" not in text and "<img" not in text


async def test_without_rights_there_is_no_button_and_an_open_page_asks_nothing(
    guard: StampedeGuard, shop: Any
) -> None:
    console = guard.console(allow=by_name)
    assert isinstance(console, ConsoleApp)
    with mounted(console) as browser:
        text = (await browser.see("/keys")).text
        assert "shop.quality" in text and "Invalidate" not in text and "data-stream" not in text
        assert (await browser.see("/live/keys")).status_code == 204
        assert (await browser.see("/keys", state="flying")).status_code == 400
    await console.fleet.aclose()


async def test_a_search_looks_only_at_entries_of_the_function(guard: StampedeGuard, shop: Any) -> None:
    async with await consoles.Console.open(guard.engine.store.servers) as servers:
        page = await search(servers, guard.namespace, Wanted(function="shop.report"))
    assert (len(page.views), page.looked, page.following) == (1, 1, "")
