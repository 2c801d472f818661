"""No-Vary-Search: one entry for all queries that are equal under a response's rule."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard import CacheRoute
from stampede_guard.http.operating.listing import stored_urls
from stampede_guard.http.searching.searching import ENOUGH_WITHOUT, MOST_PATHS, MOST_STRAYS
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.support.commands import commands_naming

IGNORES = {"no_vary_search": 'params=("utm")'}


def hit(answer: Any) -> bool:
    return "hit" in status_of(answer)


def told_by(rules: dict[str, dict[str, str]]) -> App:
    """An application whose header depends on the query; the first text that occurs in it decides."""
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        query = scope["query_string"].decode()
        await start(send, next(headers for text, headers in rules.items() if text in query))
        await send({"type": "http.response.body", "body": f"answer {number}".encode()})

    app.handler = handler
    return app


async def test_the_first_response_serves_all_equal_queries_in_all_processes() -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app, processes=3) as fleet:
        assert not hit(await fleet.get("/a?id=1&utm=1"))
        for process in (0, 1, 2):
            assert hit(await fleet.get("/a?id=1&utm=2", process=process))
            assert hit(await fleet.get("/a?id=1", process=process))
        assert not hit(await fleet.get("/a?id=2&utm=2", process=1))
        assert hit(await fleet.get("/a?id=2&utm=3", process=2))
        assert app.calls == 2


async def test_after_an_expiry_there_is_one_call_for_all_equal_queries() -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app, processes=2) as fleet:
        await fleet.get("/a?id=1&utm=1")
        fleet.clock.advance(61)
        app.go.clear()
        herd = [asyncio.ensure_future(fleet.get(f"/a?id=1&utm={n}", process=n % 2)) for n in range(12)]
        await app.called.wait()
        await asyncio.sleep(0)
        app.go.set()
        answers = await asyncio.gather(*herd)
        assert {answer.body for answer in answers} == {b"answer 2"}
        assert app.calls == 2


async def test_a_path_without_a_query_is_equal_to_one_with_ignored_parameters() -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app, processes=2) as fleet:
        await fleet.get("/a?utm=1")
        assert hit(await fleet.get("/a"))
        await fleet.get("/b?utm=1", process=1)
        assert hit(await fleet.get("/a?", process=1))


async def test_a_response_whose_rule_comes_as_a_surprise_is_not_stored_but_the_next_one_is() -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app) as fleet:
        assert "detail=no-vary-search" in status_of(await fleet.get("/a"))
        assert not hit(await fleet.get("/a?utm=1"))
        assert hit(await fleet.get("/a"))
        assert app.calls == 2


@pytest.mark.parametrize(
    "field", ['params="utm"', "params", 'params=("utm"), except=("id")', 'params=("utm"']
)
async def test_an_invalid_field_has_no_effect(field: str) -> None:
    async with Fleet(App(cached(no_vary_search=field))) as fleet:
        await fleet.get("/a?utm=1")
        assert not hit(await fleet.get("/a?utm=2"))
        assert hit(await fleet.get("/a?utm=1"))


async def test_another_path_host_or_proxy_has_entries_of_its_own() -> None:
    app = App(cached(no_vary_search="except=()"))
    async with Fleet(app) as fleet:
        await fleet.get("/a?x=1")
        assert not hit(await fleet.get("/b?x=1"))
        assert not hit(await fleet.get("/a?x=2", host="other.example"))
        assert not hit(await fleet.get("/a?x=2", x_forwarded_host="other.example"))
        assert not hit(await request(fleet.middlewares[0], "GET", "/a%3Fx=2"))
        assert hit(await fleet.get("/a?x=2"))


async def test_users_are_never_mixed() -> None:
    app = App(cached(no_vary_search="except=()", cache_control="private, max-age=60"))
    async with Fleet(app, processes=2, private_to="header:X-User") as fleet:
        first = await fleet.get("/a?x=1", x_user="ann")
        assert hit(await fleet.get("/a?x=2", x_user="ann", process=1))
        other = await fleet.get("/a?x=2", x_user="bob")
        assert not hit(other)
        assert other.body != first.body
        assert not hit(await fleet.get("/a?x=2"))
        assert (await fleet.get("/a?x=3", x_user="bob", process=1)).body == other.body


async def test_a_cookie_in_the_key_and_vary_still_count() -> None:
    app = App(cached(no_vary_search="except=()", vary="accept-language"))
    routes = [CacheRoute("/k", ttl=60, key_cookies=("lang",), query="verbatim")]
    async with Fleet(app, routes=routes) as fleet:
        await fleet.get("/a?x=1", accept_language="de")
        assert not hit(await fleet.get("/a?x=2", accept_language="en"))
        assert hit(await fleet.get("/a?x=3", accept_language="en"))
        await fleet.get("/a?x=3", accept_language="de")
        assert hit(await fleet.get("/a?x=4", accept_language="de"))
        assert hit(await fleet.get("/a?x=4", accept_language="en"))
        assert app.calls == 3
        await fleet.get("/k?x=1", cookie="lang=de")
        assert not hit(await fleet.get("/k?x=2", cookie="lang=en"))
        assert hit(await fleet.get("/k?x=3", cookie="lang=de"))


async def test_the_query_of_a_route_is_the_operators_decision() -> None:
    app = App({"no-vary-search": "except=()"})
    async with Fleet(app, routes=[CacheRoute("/a", ttl=60, query=("x",))]) as fleet:
        await fleet.get("/a?x=1")
        assert not hit(await fleet.get("/a?x=2"))
        assert hit(await fleet.get("/a?x=2&y=1"))


# --- what must not be served for another query -------------------------------------------------------


async def test_a_response_without_the_field_serves_its_own_url_only() -> None:
    ruled, plain = cached(no_vary_search='except=("id")'), cached()
    app = told_by({"gone": plain, "": ruled})
    async with Fleet(app, processes=2) as fleet:
        await fleet.get("/a?id=1&x=1")
        page = await fleet.get("/a?id=2&x=gone")
        assert "detail=no-vary-search" in status_of(page)
        # Nothing of that page reaches an equal query, and it is stored for its own from now on.
        assert (await fleet.get("/a?id=2&x=2", process=1)).body not in (page.body, b"")
        again = await fleet.get("/a?id=2&x=gone")
        assert hit(await fleet.get("/a?id=2&x=gone")) or again.body != page.body
        assert (await fleet.get("/a?id=2&x=3", process=1)).body != again.body


async def test_waiters_of_a_response_that_belongs_elsewhere_ask_for_their_own_urls() -> None:
    ruled, plain = cached(no_vary_search='except=("id")'), cached()
    app = told_by({"id=1": ruled, "": plain})
    async with Fleet(app) as fleet:
        await fleet.get("/a?id=1")
        answers = await asyncio.gather(*(fleet.get(f"/a?id=2&x={n % 2}") for n in range(6)))
        bodies = [{answer.body for answer in answers[n::2]} for n in (0, 1)]
        # One URL is asked by its own name from the start, or was answered before: never by the other's answer.
        assert not bodies[0] & bodies[1]


async def test_another_rule_serves_no_query_under_the_old_one() -> None:
    app = App(cached(no_vary_search='params=("a")'))
    async with Fleet(app, processes=2) as fleet:
        await fleet.get("/p?a=1&b=1")
        assert hit(await fleet.get("/p?a=2&b=1", process=1))
        fleet.clock.advance(61)
        app.headers = cached(no_vary_search='params=("b")')
        for number in range(MOST_STRAYS):
            assert not hit(await fleet.get(f"/p?a={number}&b=x"))
        for number in range(MOST_STRAYS):
            assert not hit(await fleet.get(f"/p?a={number}&b=y{number}", process=1))
        await fleet.get("/p?a=1&b=2")
        assert hit(await fleet.get("/p?a=1&b=3"))
        assert not hit(await fleet.get("/p?a=2&b=1"))
        assert hit(await fleet.get("/p?a=1&b=4", process=1))


async def test_a_path_that_lost_its_rule_is_cached_by_url_again() -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app, processes=2) as fleet:
        await fleet.get("/a?utm=1")
        app.headers = cached()
        fleet.clock.advance(61)
        for number in range(MOST_STRAYS):
            await fleet.get(f"/a?id={number}")
        assert not hit(await fleet.get("/a?id=new"))
        assert hit(await fleet.get("/a?id=new"))
        assert not hit(await fleet.get("/a?id=new&utm=1"))
        assert hit(await fleet.get("/a?id=new", process=1))


@pytest.mark.parametrize("field", [{}, {"no_vary_search": 'params=("zzz")'}])
async def test_a_client_cannot_take_the_rule_of_a_hot_path_away(field: dict[str, str]) -> None:
    app = told_by({"evil": cached(**field), "": cached(no_vary_search='except=("id")')})
    async with Fleet(app) as fleet:
        await fleet.get("/a?id=1")
        before = app.calls
        for number in range(3 * MOST_STRAYS):
            await fleet.get(f"/a?id=evil{number}")
            assert hit(await fleet.get(f"/a?id=1&utm={number}")), number
        assert app.calls == before + 3 * MOST_STRAYS


async def test_one_stray_response_does_not_end_the_sharing_of_equal_queries() -> None:
    app = told_by({"evil": cached(), "": cached(no_vary_search="except=()")})
    async with Fleet(app) as fleet:
        await fleet.get("/a?id=1")
        fleet.clock.advance(61)
        assert not hit(await fleet.get("/a?evil"))
        assert not hit(await fleet.get("/a?id=2"))
        for number in (3, 4):
            assert hit(await fleet.get(f"/a?id={number}"))
        assert app.calls == 3


STRAY = {"evil": cached(etag='"2"'), "": cached(etag='"1"', no_vary_search='params=("utm")')}


async def test_an_equal_query_whose_response_lacks_the_rule_leaves_the_shared_one_fresh() -> None:
    app = told_by(STRAY)
    async with Fleet(app, processes=2) as fleet:
        for number in (1, 2):
            fleet.clock.advance(61)
            await fleet.get(f"/a?utm={number}")
        before = app.calls
        await fleet.get("/a?utm=evil", cache_control="no-cache")
        answers = await asyncio.gather(*(fleet.get(f"/a?utm={n}", process=n % 2) for n in range(3, 9)))
        assert all(map(hit, answers)) and {answer.get("etag") for answer in answers} == {'"1"'}
        assert app.calls == before + 1


async def test_an_equal_query_whose_response_lacks_the_rule_leaves_the_shared_one_to_be_validated() -> None:
    app = told_by(STRAY)
    async with Fleet(app) as fleet:
        for number in (1, 2):
            fleet.clock.advance(61)
            await fleet.get(f"/a?utm={number}")
        fleet.clock.advance(61)
        before = app.calls
        await fleet.get("/a?utm=evil")
        answers = await asyncio.gather(*(fleet.get(f"/a?utm={n}") for n in range(3, 9)))
        assert (b"if-none-match", b'"1"') in app.scopes[-1]["headers"]
        assert {answer.get("etag") for answer in answers} == {'"1"'} and app.calls == before + 2


async def test_a_head_without_the_rule_takes_nothing_away() -> None:
    app = told_by({"evil": cached(etag='"2"'), "": cached(etag='"1"', no_vary_search="except=()")})
    async with Fleet(app) as fleet:
        for number in (1, 2):
            await fleet.get(f"/a?id={number}")
            fleet.clock.advance(61)
        await fleet.get("/a?evil", method="HEAD")
        await fleet.get("/a?id=3")
        assert (b"if-none-match", b'"1"') in app.scopes[-1]["headers"], "the stored response is still there"


async def test_a_query_that_is_long_when_spelt_has_a_short_name() -> None:
    app = App(cached(no_vary_search="key-order"))
    async with Fleet(app) as fleet:
        await fleet.get("/a?x=1")
        for number in (1, 2):
            long = "(" * 7000 + str(number)
            await fleet.get(f"/a?x={long}")
            assert hit(await fleet.get(f"/a?&x={long}"))
        names = [name for name in fleet.guards[0].engine.store.servers.names() if ":n:" in name]
        assert max(map(len, names)) < 200
        assert app.calls == 3


async def test_a_304_with_another_rule_renews_nothing_under_the_old_one() -> None:
    app = App(cached(no_vary_search="except=()", etag='"1"'))
    changed = cached(no_vary_search='except=("x")', etag='"1"')

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        asked = dict(scope["headers"]).get(b"if-none-match")
        await start(send, changed if asked else app.headers, 304 if asked else 200)
        await send({"type": "http.response.body", "body": b"" if asked else f"answer {number}".encode()})

    app.handler = handler
    async with Fleet(app) as fleet:
        await fleet.get("/a?x=1")
        fleet.clock.advance(61)
        await fleet.get("/a?x=2")
        fleet.clock.advance(61)
        await fleet.get("/a?x=2")
        assert not hit(await fleet.get("/a?x=3"))


# --- invalidation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["/a?id=1", "/a?utm=9&id=1", "/a?id=1&utm=1"])
async def test_an_unsafe_request_to_an_equal_url_drops_it_everywhere(url: str) -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app, processes=3) as fleet:
        await fleet.get("/a?id=1&utm=1")
        assert hit(await fleet.get("/a?id=1&utm=2"))
        await fleet.get("/a?id=1&utm=3", method="POST", process=2)
        for process in (0, 1):
            answer = await fleet.get(url, process=process)
            assert answer.body != b"answer 1"


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize(
    "given",
    [{"url": "/a?id=1"}, {"url": "http://example.test/a?utm=5&id=1"}, {"prefix": "/a"}, {"prefix": "/a?id"}],
)
async def test_a_purge_reaches_it(given: dict[str, str], rounds: int) -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app, processes=2) as fleet:
        for _ in range(rounds):
            await fleet.get("/a?id=1&utm=1")
            assert hit(await fleet.get("/a?id=1&utm=2"))
            before = app.calls
            assert await fleet.middlewares[1].purge(**given) == "done"
            assert not hit(await fleet.get("/a?id=1&utm=2", process=1))
            assert hit(await fleet.get("/a?id=1&utm=2"))
            assert app.calls == before + 1
            fleet.clock.advance(61)


async def test_a_purge_reaches_a_path_with_a_literal_percent_sign() -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app) as fleet:
        await fleet.get("/a%2541?id=1&utm=1")
        assert hit(await fleet.get("/a%2541?id=1&utm=2"))
        assert await fleet.middlewares[0].purge(url="/a%2541?id=1&utm=5") == "done"
        assert not hit(await fleet.get("/a%2541?id=1&utm=2"))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("how", ["POST", "url", "prefix"])
async def test_what_was_under_way_serves_nobody_after_an_invalidation(how: str, known: bool) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        if scope["method"] == "GET":
            await app.go.wait()
        await start(send, cached(**IGNORES))
        await send({"type": "http.response.body", "body": f"answer {number}".encode()})

    app.handler = handler
    async with Fleet(app, processes=2) as fleet:
        if known:
            await fleet.get("/a?id=0")
        app.called.clear()
        app.go.clear()
        early = asyncio.ensure_future(fleet.get("/a?utm=7&id=1"))
        await app.called.wait()
        if how == "POST":
            await fleet.get("/a?id=1", process=1, method="POST")
        else:
            assert await fleet.middlewares[1].purge(**{how: "/a?id=1" if how == "url" else "/a"}) == "done"
        app.go.set()
        old = (await early).body
        answers = [
            (await fleet.get(path, process=process)).body
            for path in ("/a?id=1&utm=8", "/a?utm=7&id=1")
            for process in (0, 1)
        ]
        assert old not in answers


async def test_a_group_reaches_it() -> None:
    async with Fleet(App(cached(**IGNORES, cache_groups='"g"')), processes=2) as fleet:
        for utm in (1, 2, 3):
            await fleet.get(f"/a?utm={utm}")
        assert hit(await fleet.get("/a?utm=4"))
        await fleet.guards[1].invalidate_tag("http:g")
        assert await fleet.middlewares[0].purge(tag="g") == "done"
        assert not hit(await fleet.get("/a?utm=5", process=1))


# --- bounds and costs --------------------------------------------------------------------------------


async def test_a_process_remembers_a_bounded_number_of_paths() -> None:
    app = App(cached(no_vary_search="except=()"))
    async with Fleet(app) as fleet:
        memory = fleet.middlewares[0].cache.searching
        for number in range(MOST_PATHS + 10):
            memory._remember(f"http3:http://h/{number}?", 'params=("a")', "a=1")
            memory._put(memory._alone, str(number), 1.0)
        assert len(memory._paths) == len(memory._alone) == MOST_PATHS


async def test_an_application_without_rules_pays_for_a_look_at_a_few_paths_only() -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        searching = fleet.middlewares[0].cache.searching
        for number in range(ENOUGH_WITHOUT):
            assert searching.is_curious
            await fleet.get(f"/{number}?x=1")
        assert not searching.is_curious
        assert not hit(await fleet.get("/new?x=1"))
        assert hit(await fleet.get("/new?x=1"))
        app.headers = cached(**IGNORES)
        assert "detail=no-vary-search" in status_of(await fleet.get("/ruled?utm=1"))
        assert not hit(await fleet.get("/ruled?utm=2"))
        assert hit(await fleet.get("/ruled?utm=3"))
        await fleet.get("/another?utm=1")
        assert hit(await fleet.get("/another?utm=2"))


async def test_stored_urls_shows_it_by_the_query_that_matters_and_no_note() -> None:
    async with Fleet(App(cached(**IGNORES))) as fleet:
        await fleet.get("/a?id=0")
        await fleet.get("/a?utm=1&id=1")
        assert await stored_urls(fleet.guards[0]) == {
            "http://example.test/a?id=0": 1,
            "http://example.test/a?id=1": 1,
        }


async def test_a_hit_is_one_round_trip_with_a_known_rule_and_without_any(own_valkey: ValkeyServer) -> None:
    app = told_by({"id": cached(**IGNORES), "": cached()})
    async with Fleet(app, processes=2, on=own_valkey.url) as fleet:
        for process in (0, 1):
            for path in ("/a?id=1&utm=1", "/a?id=1&utm=2", "/b?x=1", "/b?x=1", "/c", "/c"):
                await fleet.get(path, process=process)
        fleet.clock.advance(31)
        for path in ("/a?utm=3&id=1", "/a?id=1", "/b?x=1", "/c"):
            with commands_naming("example.test/", own_valkey) as commands:
                assert hit(await fleet.get(path, process=1))
            assert [command.split()[0] for command in commands] == ["EVALSHA"], (path, commands)


@pytest.mark.parametrize("mode", ["bypass", "off"])
async def test_other_modes_serve_no_equal_query(mode: Any) -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app) as fleet:
        await fleet.get("/a?utm=1")
        fleet.guards[0].mode = mode
        assert not hit(await fleet.get("/a?utm=2"))
        fleet.guards[0].mode = "on"
        assert hit(await fleet.get("/a?utm=3"))


async def test_the_first_url_of_a_path_serves_no_equal_query_once_its_response_has_no_rule() -> None:
    app = App(cached(**IGNORES))
    async with Fleet(app, processes=2) as fleet:
        for process in (0, 1):
            await fleet.get("/a?utm=1", process=process)
        fleet.clock.advance(61)
        app.headers = cached()
        await fleet.get("/a?utm=1")
        alone = await fleet.get("/a?utm=1")
        assert hit(await fleet.get("/a?utm=1"))
        other = await fleet.get("/a?utm=2", process=1)
        assert not hit(other)
        assert other.body != alone.body
