"""Requests that the cache cannot help go past it: what is remembered, when it is forgotten, and what hides nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette import routing
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

from stampede_guard import Policy
from stampede_guard.http.requests.routes import CacheRoute
from stampede_guard.http.uncacheable.templates import MOST_SEGMENTS, RouteTemplates, template_of
from stampede_guard.http.uncacheable.urls import BLOCKED_SECONDS, MANY, PLACES, RIPENING
from tests.http.asgi import scope_of
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.support.counted import counted
from tests.support.gate import until

CC = "cache-control"
PAST = "stampede_guard; fwd=bypass; detail=uncacheable"


class Route:
    def __init__(self, template: str) -> None:
        self.path_format = template


class Routed(App):
    """Tells the template of its route in the scope, as FastAPI does. `says`: Cache-Control by path."""

    def __init__(self, template: str = "/items/{id}", says: dict[str, str] | None = None) -> None:
        super().__init__({CC: "private"})
        self.template = template
        self.templates: dict[str, str] = {}
        self.says = says or {}
        self.handler = self._handle

    async def _handle(self, scope: Any, receive: Any, send: Any, number: int) -> None:
        scope["route"] = Route(self.templates.get(scope["path"], self.template))
        await start(send, {**self.headers, CC: self.says.get(scope["path"], self.headers[CC])}, self.status)
        await send({"type": "http.response.body", "body": f"answer {number}".encode()})


async def remembered(fleet: Fleet, path: str = "/", **fields: str) -> None:
    for _ in range(4):
        await fleet.get(path, **fields)
    assert status_of(await fleet.get(path, **fields)) == PAST


async def ripe(fleet: Fleet, count: int = MANY, **fields: str) -> None:
    for number in range(count):
        await fleet.get(f"/items/{number}", **fields)
    fleet.clock.advance(RIPENING + 1)


async def test_the_fields_of_what_goes_past_may_be_any_iterable() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        headers = ((name, b"no-store") for name in (b"cache-control", b"x-last"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    app.handler = handler
    async with Fleet(app) as fleet:
        await remembered(fleet)
        answer = await fleet.get()
        assert (answer.get("cache-control"), answer.get("x-last")) == ("no-store", "no-store")


async def test_a_url_that_could_not_be_stored_goes_past_the_store_and_the_flights() -> None:
    async with Fleet(App({CC: "no-store"})) as fleet:
        await remembered(fleet)
        with counted() as calls:
            answer = await fleet.get()
        assert answer.body == b"answer 6"
        assert not [
            name for name in calls if name.startswith(("JudgedDoor.read", "Visit.", "Exchange.", "Fetch."))
        ]
        assert len(calls) < 15, calls


async def test_no_command_is_sent_for_it(valkey_url: str, namespace: str) -> None:
    async with Fleet(App({CC: "private"}), on=valkey_url, namespace=namespace) as fleet:
        await remembered(fleet)
        runtime = fleet.guards[0].engine.runtime()
        read, sent = runtime.read, []
        runtime.read = lambda *args: sent.append(args) or read(*args)  # type: ignore[func-returns-value]
        for _ in range(3):
            assert status_of(await fleet.get()) == PAST
        assert sent == []
        await fleet.get("/other")
        assert len(sent) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {CC: "no-store"},
        {CC: "private, max-age=60"},
        {CC: "no-cache"},
        {"etag": '"a"'},
        {CC: "max-age=60", "content-length": "9"},
    ],
)
async def test_each_response_that_nobody_may_be_served_counts(headers: dict[str, str]) -> None:
    options: dict[str, Any] = {"max_body_bytes": 5} if "content-length" in headers else {}
    async with Fleet(App(headers), **options) as fleet:
        for _ in range(8):
            answer = await fleet.get()
        assert status_of(answer) == PAST


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (cached(), 200),
        ({CC: "max-age=60", "set-cookie": "a=b"}, 200),
        ({CC: "max-age=60", "vary": "*"}, 200),
        ({CC: "no-store"}, 404),
        ({CC: "no-store"}, 500),
        ({CC: "no-store, must-understand, max-age=60"}, 200),
        ({CC: 'private="x-user", max-age=60'}, 200),
        ({CC: "no-cache", "etag": '"a"'}, 200),
        ({"expires": "Thu, 01 Dec 2033 16:00:00 GMT"}, 200),
        ({"cdn-cache-control": "max-age=60", CC: "no-store"}, 200),
        ({"Cache-Control": "max-age=60"}, 200),
    ],
)
async def test_other_responses_do_not(headers: dict[str, str], status: int) -> None:
    async with Fleet(App(headers, status=status)) as fleet:
        for _ in range(8):
            assert status_of(await fleet.get()) != PAST


async def test_a_response_that_may_be_stored_is_noticed_and_the_next_request_is_cached() -> None:
    app = App({CC: "no-store"})
    async with Fleet(app) as fleet:
        await remembered(fleet)
        app.headers = cached()
        first = await fleet.get()
        assert status_of(first) == PAST
        assert "; stored" in status_of(await fleet.get())
        assert "; hit" in status_of(await fleet.get())


async def test_a_url_that_is_sometimes_cacheable_is_not_remembered_again_for_an_hour() -> None:
    app = App({CC: "no-store"})
    async with Fleet(app) as fleet:
        await remembered(fleet)
        app.headers = cached()
        await fleet.get()
        app.headers = {CC: "no-store"}
        for _ in range(10):
            assert status_of(await fleet.get()) != PAST
        fleet.clock.advance(BLOCKED_SECONDS + 1)
        await remembered(fleet)


async def test_a_url_is_forgotten_after_a_while_and_with_no_time_nothing_is_remembered() -> None:
    async with Fleet(App({CC: "no-store"})) as fleet:
        await remembered(fleet)
        fleet.clock.advance(Policy().uncacheable_ttl + 1)
        assert status_of(await fleet.get()) != PAST
    async with Fleet(App({CC: "no-store"}), policy=Policy(uncacheable_ttl=0.0)) as fleet:
        for _ in range(6):
            assert status_of(await fleet.get()) != PAST


async def test_what_is_stored_is_served_whatever_other_requests_get() -> None:
    """1. An entry is stored. 2. Somebody's private responses for the same URL do not hide it."""
    app = App(cached(vary="accept"))
    async with Fleet(app) as fleet:
        await fleet.get(accept="text/html")
        app.headers = {CC: "private", "vary": "accept"}
        for _ in range(6):
            await fleet.get(accept="text/x")
        assert "; hit" in status_of(await fleet.get(accept="text/html"))


async def test_a_visitors_own_responses_count_for_requests_like_it_only() -> None:
    app = App({CC: "no-store"})
    async with Fleet(app) as fleet:
        await remembered(fleet, cookie="a=b")
        assert status_of(await fleet.get()) != PAST
        assert status_of(await fleet.get(cookie="c=d")) != PAST
        assert status_of(await fleet.get(accept="text/x")) != PAST


@pytest.mark.parametrize("fields", [{"cache_control": "only-if-cached"}, {"cache_control": "no-cache"}])
async def test_a_client_with_a_directive_is_obeyed(fields: dict[str, str]) -> None:
    async with Fleet(App({CC: "no-store"})) as fleet:
        await remembered(fleet)
        answer = await fleet.get(**fields)
        assert status_of(answer) != PAST
        assert (answer.status == 504) is ("only-if-cached" in fields.values())


async def test_a_change_still_invalidates_and_is_no_safe_method() -> None:
    app = App({CC: "no-store"})
    async with Fleet(app, processes=2) as fleet:
        await remembered(fleet)
        app.headers = cached()
        for _ in range(2):
            await fleet.get(process=1)
        assert "; hit" in status_of(await fleet.get(process=1))
        await fleet.get(method="POST")
        assert "; hit" not in status_of(await fleet.get(process=1))


async def test_while_it_is_remembered_its_requests_run_beside_each_other() -> None:
    app = App({CC: "no-store"})
    async with Fleet(app) as fleet:
        await remembered(fleet)
        app.go.clear()
        herd = fleet.herd(5)
        await until(lambda: app.open == 5)
        app.go.set()
        assert {status_of(answer) for answer in await asyncio.gather(*herd)} == {PAST}


async def test_the_application_gets_its_own_scope_and_messages_unchanged() -> None:
    app = App({CC: "no-store"})
    async with Fleet(app, x_cache=True, cache_status=False) as fleet:
        for _ in range(5):
            answer = await fleet.get()
        assert (answer.get("x-cache"), answer.get("cache-status")) == ("MISS", None)


# --- templates ---------------------------------------------------------------------------------------------------


async def test_many_different_urls_of_a_template_count_for_those_not_seen_yet() -> None:
    async with Fleet(Routed()) as fleet:
        await ripe(fleet)
        assert status_of(await fleet.get("/items/new")) == PAST
        assert status_of(await fleet.get("/items/new/part")) != PAST
        assert status_of(await fleet.get("/others/1")) != PAST


async def test_templates_of_fastapi_are_known_by_the_whole_path_also_below_prefixes_and_mounts() -> None:
    mounted, router, app = FastAPI(), APIRouter(prefix="/api"), FastAPI()

    def page(id: int) -> int:
        return id

    router.get("/items/{id}")(page)
    mounted.get("/things/{id}")(page)
    app.include_router(router)
    app.mount("/mount", mounted)
    for path, expected in (("/api/items/7", "/api/items/{id}"), ("/mount/things/7", "/mount/things/{id}")):
        scope = scope_of("GET", path, [])
        await app(scope, _no_message, _ignored)
        assert template_of(scope, path) == expected


@pytest.mark.parametrize("tells", [True, False])
async def test_templates_of_starlette_are_known_below_mounts_with_parameters(tells: bool) -> None:
    """Old versions of Starlette do not put the route into the scope."""

    async def page(request: Any) -> PlainTextResponse:
        return PlainTextResponse("page")

    inner = [routing.Route("/things/{id:int}", page), routing.Route("/all", page)]
    app = Starlette(
        routes=[
            routing.Route("/items/{id}", page),
            routing.Route("/items/me", page),
            routing.Route("/about", page),
            routing.Route("/same/{one}/{two}", page),
            routing.Mount("/tenants/{tenant}", routes=inner),
            routing.Mount("/mount", Starlette(routes=inner)),
            routing.Mount("/files", PlainTextResponse("file")),
        ]
    )
    found: dict[str, str | None] = {}
    for path in (
        "/items/7", "/about", "/same/1/2", "/same/1/1", "/tenants/a/things/7", "/tenants/7/things/7",
        "/tenants/a/all", "/mount/things/007", "/mount/things/7", "/files/a/b", "/nowhere",
    ):  # fmt: skip
        scope = scope_of("GET", path, [])
        await app(scope, _no_message, _ignored)
        if not tells:
            scope.pop("route", None)
        found[path] = template_of(scope, path)
    common = {
        "/items/7": "/items/{id}",
        "/about": "/about",
        "/same/1/2": "/same/{one}/{two}",
        "/tenants/a/things/7": "/tenants/{tenant}/things/{id}",
        "/mount/things/7": "/mount/things/{id}",
        "/files/a/b": None,
        "/nowhere": None,
    }
    assert {path: found[path] for path in common} == common
    others = {path: template for path, template in found.items() if path not in common}
    if tells:
        assert others == {
            "/same/1/1": "/same/{one}/{two}",
            "/tenants/7/things/7": "/tenants/{tenant}/things/{id}",
            "/tenants/a/all": "/tenants/{tenant}/all",
            "/mount/things/007": "/mount/things/{id}",
        }
    else:
        assert others == {
            "/same/1/1": None,
            "/tenants/7/things/7": None,
            "/tenants/a/all": "/tenants/{tenant}/all",
            "/mount/things/007": None,
        }


async def _no_message() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignored(message: Any) -> None:
    return None


async def test_few_urls_or_one_url_often_do_not() -> None:
    async with Fleet(Routed()) as fleet:
        for _ in range(3):
            await ripe(fleet, MANY - 1)
        assert status_of(await fleet.get("/items/new")) != PAST


async def test_one_private_url_hides_no_other_one_of_its_template() -> None:
    app = Routed()
    app.headers = cached()
    app.says = {"/items/me": "private"}
    async with Fleet(app) as fleet:
        for _ in range(MANY * 2):
            await fleet.get("/items/me")
        await fleet.get("/items/7")
        assert "; hit" in status_of(await fleet.get("/items/7"))


async def test_one_cacheable_url_keeps_its_template_from_being_remembered() -> None:
    app = Routed(says={"/items/7": "max-age=600"})
    async with Fleet(app) as fleet:
        await fleet.get("/items/7")
        await ripe(fleet)
        await ripe(fleet)
        assert "; hit" in status_of(await fleet.get("/items/7"))
        assert status_of(await fleet.get("/items/new")) != PAST


async def test_a_hit_while_it_ripens_keeps_a_template_from_being_remembered() -> None:
    """Another process has stored the hot URL, so this one has never seen its response."""
    app = Routed(says={"/items/hot": "max-age=600"})
    async with Fleet(app, processes=2) as fleet:
        await fleet.get("/items/hot", process=1)
        for number in range(MANY):
            await fleet.get(f"/items/{number}")
        assert "; hit" in status_of(await fleet.get("/items/hot"))
        fleet.clock.advance(RIPENING + 1)
        assert "; hit" in status_of(await fleet.get("/items/hot"))


async def test_a_cacheable_response_on_a_remembered_template_is_noticed() -> None:
    app = Routed()
    async with Fleet(app) as fleet:
        await ripe(fleet)
        app.says = {"/items/7": "max-age=60"}
        assert status_of(await fleet.get("/items/7")) == PAST
        assert "; stored" in status_of(await fleet.get("/items/7"))
        assert "; hit" in status_of(await fleet.get("/items/7"))
        assert status_of(await fleet.get("/items/new")) != PAST


async def test_a_literal_route_beside_a_template_is_cached_and_the_template_stays_remembered() -> None:
    app = Routed(says={"/items/top": "max-age=60"})
    app.templates = {"/items/top": "/items/top"}
    async with Fleet(app) as fleet:
        await ripe(fleet)
        await fleet.get("/items/top")
        await fleet.get("/items/top")
        assert "; hit" in status_of(await fleet.get("/items/top"))
        assert status_of(await fleet.get("/items/new")) == PAST


async def test_signed_in_visitors_do_not_count_for_anonymous_ones() -> None:
    async with Fleet(Routed()) as fleet:
        await ripe(fleet, cookie="a=b")
        assert status_of(await fleet.get("/items/new", cookie="c=d")) == PAST
        assert status_of(await fleet.get("/items/new")) != PAST


async def test_errors_that_a_client_can_cause_do_not_count() -> None:
    app = Routed()
    app.status = 404
    async with Fleet(app) as fleet:
        await ripe(fleet)
        assert status_of(await fleet.get("/items/new")) != PAST


async def test_a_template_without_requests_is_forgotten() -> None:
    async with Fleet(Routed()) as fleet:
        await ripe(fleet)
        fleet.clock.advance(3600)
        assert status_of(await fleet.get("/items/new")) != PAST


async def test_a_route_of_the_middleware_that_gives_a_lifetime_is_noticed() -> None:
    """The template was remembered by URLs to which no route of the middleware applies."""
    app = App({})

    async def handle(scope: Any, receive: Any, send: Any, number: int) -> None:
        scope["route"] = Route("/items/{id}")
        await start(send, {})
        await send({"type": "http.response.body", "body": b"x"})

    app.handler = handle
    async with Fleet(app, routes=[CacheRoute("/items/7", ttl=60)]) as fleet:
        await ripe(fleet, MANY + 1)
        for _ in range(2):
            await fleet.get("/items/7")
        assert "; hit" in status_of(await fleet.get("/items/7"))


async def test_a_flood_of_urls_takes_no_more_memory_and_hides_nothing() -> None:
    app = App({CC: "no-store"})
    async with Fleet(app) as fleet:
        memory = fleet.middlewares[0].cache.uncacheable
        for number in range(200):
            await fleet.get(f"/{number}")
            await fleet.get(f"/{number}")
        assert len(memory._likes) == len(memory._until) == PLACES
        app.headers = cached()
        await fleet.get("/page")
        assert "; hit" in status_of(await fleet.get("/page"))


def test_texts_of_clients_in_templates_take_no_more_memory() -> None:
    """`/{tenant}` is a mount: what clients write in its place is a part of the templates below it."""
    made: list[int] = []
    known = RouteTemplates(lambda: made.append(1) or made)
    for number in range(MOST_SEGMENTS):
        known.learn(f"/{number}/items/{{id}}")
    last = "/" + "/".join(map(str, range(2 * MOST_SEGMENTS)))
    assert known.learn(last) is None and known.find(last) is None
    assert known._segments <= MOST_SEGMENTS and len(known._root.literals[""].literals) <= MOST_SEGMENTS
    assert known.find("/7/items/8") is known.learn("/7/items/{id}") is made
