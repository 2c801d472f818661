"""urls: what operators see of the HTTP cache's responses."""

from __future__ import annotations

from stampede_guard import StampedeMiddleware
from tests.http.asgi import request
from tests.http.fleet import App, cached
from tests.ops.cli.conftest import Operator, Shop


async def test_urls_lists_what_is_stored_and_how_often(operator: Operator, shop: Shop) -> None:
    web = StampedeMiddleware(App(cached(vary="x")), guard=shop.guard)
    for path, value in (("/b", "1"), ("/a?q=1", "1"), ("/b", "2"), ("/c/1", "1")):
        await request(web, "GET", path, fields=[("x", value)])
    told = await operator.call("urls")
    assert told.out.splitlines() == [
        "      1  http://example.test/a?q=1",
        "      2  http://example.test/b",
        "      1  http://example.test/c/1",
    ]
    below = await operator.call("urls", "http://example.test/c", "--json")
    assert below.json == {"urls": [{"url": "http://example.test/c/1", "entries": 1}], "more": False}
    assert (await operator.call("urls", "--name", "edge", "--json")).json == {"urls": [], "more": False}


async def test_urls_is_bounded_and_says_that_there_are_more(operator: Operator, shop: Shop) -> None:
    web = StampedeMiddleware(App(cached(vary="x")), guard=shop.guard)
    for number in (5, 3, 1, 4, 2):
        for value in ("1", "2"):
            await request(web, "GET", f"/{number}", fields=[("x", value)])
    told = await operator.call("urls", "--limit", "2", "--json")
    assert told.json == {
        "urls": [{"url": f"http://example.test/{number}", "entries": 2} for number in (1, 2)],
        "more": True,
    }
    assert "There are more than 2: write how they begin" in (await operator.call("urls", "--limit", "2")).out
    for limit in ("0", "10001"):
        assert (await operator.call("urls", "--limit", limit)).code == 2


async def test_urls_says_that_nothing_is_stored_and_prints_no_control_characters(
    operator: Operator, shop: Shop
) -> None:
    assert "nothing is stored under '/never'" in (await operator.call("urls", "/never")).out
    assert (await operator.call("urls", "never")).code == 2
    elsewhere = await operator.call("urls", "--namespace", "elsewhere")
    assert "'elsewhere', which has no entries. Namespaces with entries: " in elsewhere.out
    web = StampedeMiddleware(App(cached()), guard=shop.guard)
    await request(web, "GET", "/\x1b[2J\x9b?q=\x07")
    told = await operator.call("urls")
    assert told.out == "      1  http://example.test/%1B[2J%C2%9B?q=%07\n"
