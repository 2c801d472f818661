"""purge: what operators drop of the HTTP cache."""

from __future__ import annotations

from stampede_guard import StampedeMiddleware
from tests.http.asgi import request
from tests.http.fleet import App, cached, status_of
from tests.ops.cli.conftest import Operator, Shop


async def test_purge_drops_responses_by_url_prefix_and_group(operator: Operator, shop: Shop) -> None:
    web = StampedeMiddleware(App(cached(cache_groups='"a"')), guard=shop.guard)

    async def stored() -> list[bool]:
        return ["hit" in status_of(await request(web, "GET", path)) for path in ("/reports/1", "/reports/2")]

    for command in (["http://example.test/reports/1"], ["--prefix", "/reports/1"]):
        await stored()
        assert (await operator.call("purge", *command)).out == "1 response dropped\n"
        assert await stored() == [False, True]
    assert (await operator.call("purge", "--tag", "a", "--json")).json == {"purged": "done"}
    assert await stored() == [False, False]


async def test_purge_takes_one_address(operator: Operator) -> None:
    for command in ([], ["/a", "--tag", "b"], ["a"]):
        told = await operator.call("purge", *command)
        assert told.code == 2, told.err
    told = await operator.call("purge", "/a", "--url", "memory://")
    assert "give the URL of a" in told.err


async def test_purge_says_that_nothing_was_stored(operator: Operator, shop: Shop) -> None:
    told = await operator.call("purge", "/never")
    assert (told.code, told.out) == (
        0,
        f"nothing was stored under '/never' in namespace {operator.namespace!r}\n",
    )
    assert (await operator.call("purge", "/never", "--json")).json == {"purged": "done", "responses": 0}

    elsewhere = await operator.call("purge", "/never", "--namespace", "elsewhere")
    assert "'elsewhere', which has no entries. Namespaces with entries: " in elsewhere.out
    assert operator.namespace in elsewhere.out

    starred = await operator.call("purge", "http://example.test/reports/*")
    assert "use --prefix 'http://example.test/reports/'" in starred.out


async def test_purge_counts_what_it_drops_once(operator: Operator, shop: Shop) -> None:
    web = StampedeMiddleware(App(cached()), guard=shop.guard)
    for path in ("/reports/1", "/reports/2"):
        await request(web, "GET", path)
    assert (await operator.call("purge", "--prefix", "/reports/")).out == "2 responses dropped\n"
    assert "nothing was stored" in (await operator.call("purge", "--prefix", "/reports/")).out
