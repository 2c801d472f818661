"""Who was authenticated by what no field shows, such as a token in the URL, is known by the scope."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from stampede_guard import CacheRoute
from tests.http.asgi import request, scope_of
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.http.suite.play import Answer
from tests.http.test_traps_poisoning import sent

PAGES: Any = {"ttl": 60, "query": ("page",)}


class ByToken(AuthenticationBackend):
    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        name = conn.query_params.get("token")
        return None if name is None else (AuthCredentials(), SimpleUser(name))


class Site:
    """Greets its visitors. `inside`: the authentication is behind the cache."""

    def __init__(
        self, *, inside: bool = False, headers: dict[str, str] | None = None, **options: Any
    ) -> None:
        async def page(asked: Request) -> Response:
            return PlainTextResponse(asked.user.display_name or "nobody", headers=headers)

        app: Any = Starlette(routes=[Route("/", page)])
        if inside:
            app = AuthenticationMiddleware(app, backend=ByToken())
        self.fleet = Fleet(app, **options)
        self._door: Any = self.fleet.middlewares[0]
        if not inside:
            self._door = AuthenticationMiddleware(self._door, backend=ByToken())

    async def ask(self, name: str = "") -> Answer:
        return await request(self._door, "GET", f"/?page=1&token={name}" if name else "/?page=1")


async def test_a_route_does_not_apply_to_somebody_authenticated() -> None:
    site = Site(routes=[CacheRoute("/*", **PAGES)])
    async with site.fleet:
        for _ in range(2):
            for name in ("me", "you", ""):
                answer = await site.ask(name)
                assert answer.body.decode() == (name or "nobody")
        assert "hit" in status_of(await site.ask())
        assert "detail=credentials" in status_of(await site.ask("third"))


@pytest.mark.parametrize("inside", [False, True])
async def test_nothing_of_somebody_authenticated_is_stored_for_others(inside: bool) -> None:
    site = Site(inside=inside, routes=[CacheRoute("/*", **PAGES)])
    async with site.fleet:
        for name in ("me", "you", "me", ""):
            answer = await site.ask(name)
            assert answer.body.decode() == (name or "nobody")
        assert "hit" in status_of(await site.ask())


@pytest.mark.parametrize(("control", "shared"), [("max-age=60", False), ("public, max-age=60", True)])
async def test_without_a_route_the_application_says_what_is_for_all(control: str, shared: bool) -> None:
    site = Site(headers=cached(cache_control=control))
    async with site.fleet:
        await site.ask("me")
        assert ("hit" in status_of(await site.ask("me"))) is shared


@pytest.mark.parametrize(
    "told", [{"key": lambda scope: scope["user"].display_name}, {"cookies": "ignore"}, {"vary": ("x-badge",)}]
)
async def test_an_operator_may_say_by_what_users_differ(told: dict[str, Any]) -> None:
    site = Site(routes=[CacheRoute("/*", **PAGES, **told)])
    async with site.fleet:
        await site.ask("me")
        assert "hit" in status_of(await site.ask("me"))


async def test_what_somebody_refreshes_in_the_background_is_not_stored_for_others() -> None:
    site = Site(inside=True, routes=[CacheRoute("/*", **PAGES, stale_ttl=60)])
    async with site.fleet:
        await site.ask()
        site.fleet.clock.advance(61)
        assert (await site.ask("me")).body == b"nobody"
        await site.fleet.settled()
        assert (await site.ask()).body == b"nobody"


@pytest.mark.parametrize("routes", [[CacheRoute("/*", ttl=60)], []], ids=["a route", "no route"])
@pytest.mark.parametrize(
    "shown",
    [lambda name: {"client_cert_name": f"CN={name}"}, lambda name: {"client_cert_chain": [f"-----{name}"]}],
    ids=["name", "chain"],
)
async def test_a_certificate_of_the_client_is_a_credential(routes: Any, shown: Any) -> None:
    """ASGI's TLS extension: no field shows it."""
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, {} if routes else cached())
        await send({"type": "http.response.body", "body": repr(scope["extensions"]["tls"]).encode()})

    app.handler = handler
    async with Fleet(app, routes=routes) as fleet:
        nobody = {"server_cert": None, "client_cert_name": None, "client_cert_chain": (), "cipher_suite": 1}
        # The first responses let requests for this URL past the cache, until one can be stored.
        for _ in range(3):
            for tls in (nobody | shown("alice"), nobody | shown("bob"), nobody) if routes else (nobody,):
                scope = scope_of("GET", "/", []) | {"extensions": {"tls": tls}}
                _, body, told = await sent(fleet, scope)
                assert body == repr(tls).encode()
        assert "hit" in told
        # Without a route, a response to somebody is not stored for others.
        scope = scope_of("GET", "/2", []) | {"extensions": {"tls": nobody | shown("alice")}}
        assert "stored" not in (await sent(fleet, scope))[2]
