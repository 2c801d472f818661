"""The page of keys: found by function, state and tag, in pages, without values of parameters, and invalidated."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.ops.console.app import ConsoleApp
from stampede_guard.ops.fleet import searching
from stampede_guard.ops.fleet.searching import Wanted, search
from stampede_guard.stores.connections.wire import value_key
from stampede_guard.stores.console import console as consoles
from stampede_guard.stores.fleet.stream import hashed
from tests.ops.console.conftest import Browser, a_browser, by_name, mounted, token_in
from tests.support.gate import soon
from tests.support.sessions import patient

ACTIONS = ("invalidate", "invalidate_tag", "invalidate_function")


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    """A server of these tests alone. How far one request looks depends on all keys of a server, whoever left them."""
    with ValkeyServer() as server:
        yield server.url


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
    mark = hashed(shop.key(8))
    assert (await hiding.submit("invalidate", page="/keys", entry=mark)).status_code == 200
    assert {one["entry"] for one in await entries(named, function="quality")} == {shop.key(9)}
    assert (await named.submit("invalidate_tag", page="/keys", tag="project:9")).status_code == 200
    assert await entries(named, tag="project:9") == []
    done = await named.submit("invalidate_function", page="/keys", function="report")
    assert "1 entry of report is invalidated" in done.text
    assert await entries(named, function="shop.report") == []


async def test_a_viewer_who_may_not_see_names_cannot_ask_whether_one_exists(
    hiding: Browser, shop: Any
) -> None:
    """Otherwise user=1, user=2 and so on tell who the users are."""
    space = shop.key(7).partition(":")[0]
    there, not_there = shop.key(7), shop.key(70)
    for path in ("/keys", "/api/keys"):
        for query in (
            *({"entry": name} for name in (there, not_there, "#project:7", f"{space}:#project:7")),
            *({"tag": tag} for tag in ("project:7", "project:70", f"{space}:#project:7")),
        ):
            answer = await hiding.see(path, **query)
            assert answer.status_code == 404 and "names of entries are hidden" in answer.text, query
    assert (await hiding.see("/api/keys", entry=hashed(there))).json()["one"]["exists"] is True
    (found,) = await entries(hiding, tag=hashed(f"{space}:#project:7"))
    assert found["entry"] == hashed(there)


async def test_who_may_invalidate_tags_can_also_type_one_that_is_not_shown(
    named: Browser, hiding: Browser, shop: Any
) -> None:
    text = (await hiding.see("/keys")).text
    assert '<input name="tag" placeholder="Tag" aria-label="Tag" maxlength="500" required>' in text
    told = [
        (await hiding.submit("invalidate_tag", page="/keys", tag=tag)).text.replace(tag, "")
        for tag in ("project:8", "project:80")
    ]
    assert told[0] == told[1], "nor does the answer say which tags exist"
    assert [len(await entries(named, tag=f"project:{number}")) for number in (7, 8)] == [1, 0]


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


@asynccontextmanager
async def other_worker(guard: StampedeGuard, valkey_url: str, first: Browser) -> AsyncIterator[Browser]:
    """The same browser, whose requests reach a worker that has listed nothing."""
    async with (
        StampedeGuard.from_url(patient(valkey_url), namespace=guard.namespace) as made,
        a_browser(made, actions=ACTIONS) as found,
    ):
        found.cookies.update(first.cookies)
        yield found


@pytest.fixture
async def pages(
    guard: StampedeGuard, hiding: Browser, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, list[str]]]:
    """Small pages: the cursor with which each begins, and its hashes. No search from one reaches a second other one."""
    monkeypatch.setattr(consoles, "PAGE_COUNT", 10)
    monkeypatch.setattr(searching, "STEPS", 6)
    monkeypatch.setattr(searching, "ROWS", 10_000)
    await asyncio.gather(*(guard.set(f"report:{number}", number, ttl=60) for number in range(300)))
    cursor, found = "", []
    while True:
        told = (await hiding.see("/api/keys", cursor=cursor)).json()
        found.append((cursor, [one["entry"] for one in told["entries"]]))
        cursor = told["following"]
        if not cursor:
            assert len(found) > 3
            return [page for page in found if page[1]]


async def test_a_worker_opens_and_invalidates_what_another_one_has_listed(
    guard: StampedeGuard, hiding: Browser, pages: list[tuple[str, list[str]]], valkey_url: str
) -> None:
    cursor, (mark, *_) = pages[2]
    text = (await hiding.see("/keys", cursor=cursor)).text
    assert f'<input type="hidden" name="cursor" value="{cursor}">' in text
    (link,) = re.findall(rf'href="/ops(/keys\?[^"]*{mark[1:]}[^"]*)"', text)
    async with other_worker(guard, valkey_url, hiding) as other:
        assert (await other.see("/api/keys", entry=mark)).status_code == 404
        opened = await other.see(html.unescape(link))
        assert opened.status_code == 200 and "Nothing is stored" not in opened.text
    async with other_worker(guard, valkey_url, hiding) as other:
        done = await other.submit("invalidate", token=token_in(text), entry=mark, cursor=cursor)
        assert done.status_code == 200 and f"{mark} is invalidated" in done.text
    left = (await hiding.see("/api/keys", cursor=cursor)).json()["entries"]
    assert mark not in [one["entry"] for one in left]


async def test_a_worker_also_looks_where_the_list_begins(
    guard: StampedeGuard, hiding: Browser, pages: list[tuple[str, list[str]]], valkey_url: str
) -> None:
    """A link from elsewhere has no cursor, or that of another page."""
    _, (mark, another, *_) = pages[0]
    async with other_worker(guard, valkey_url, hiding) as other:
        assert (await other.see("/api/keys", entry=mark)).json()["one"]["exists"] is True
        assert (await other.see("/api/keys", entry=another, cursor=pages[2][0])).status_code == 200


async def test_a_worker_drops_no_entry_as_a_tag_by_its_hash(
    hiding: Browser, guard: StampedeGuard, shop: Any, valkey_url: str
) -> None:
    tags = [one["entry"] for one in await entries(hiding, state="tag")]
    (report,) = [one["entry"] for one in await entries(hiding, function="shop.report")]
    token = token_in((await hiding.see("/keys")).text)
    async with other_worker(guard, valkey_url, hiding) as other:
        assert (await other.submit("invalidate", token=token, entry=tags[0])).status_code == 400
        assert (await other.submit("invalidate_tag", token=token, tag=report)).status_code == 400
        assert (await other.submit("invalidate_tag", token=token, tag=tags[0])).status_code == 200


@pytest.mark.parametrize("cursor", ["x", "7.0", "0.-1", "0." + "9" * 20, "0.1\n"])
async def test_a_hash_with_a_cursor_of_another_shape_is_refused(
    guard: StampedeGuard, hiding: Browser, cursor: str
) -> None:
    await guard.set("report", 7, ttl=60)
    token = token_in((await hiding.see("/keys")).text)
    mark = "#0123456789abcdef"
    assert (await hiding.see("/api/keys", entry=mark, cursor=cursor)).status_code == 404
    answer = await hiding.submit("invalidate", token=token, entry=mark, cursor=cursor)
    assert answer.status_code == 400


async def test_the_search_for_a_hash_is_bounded(
    hiding: Browser, pages: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    step, begun = consoles.Console.page, []

    async def counted(self: consoles.Console, namespace: str, cursor: str = "", **more: Any) -> Any:
        begun.append(cursor)
        return await step(self, namespace, cursor, **more)

    monkeypatch.setattr(consoles.Console, "page", counted)
    cursor = pages[2][0]
    assert (await hiding.see("/api/keys", entry="#0123456789abcdef", cursor=cursor)).status_code == 404
    assert begun[0] == cursor and "" in begun and len(begun) <= 2 * searching.STEPS
