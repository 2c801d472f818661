"""StampedeMiddleware: a shared HTTP cache (RFC 9111) in front of any ASGI application, without a herd behind it.

    app.add_middleware(StampedeMiddleware, guard=guard, routes=[CacheRoute("/reports/*", ttl=60)])

The promises of `locked_cache` for a key hold for a URL: one call of the application per expiry, fleet-wide, with
the same leases, wake-ups and fences. RFC 9111 decides what may be stored and served: see
`stampede_guard.http.spec`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Unpack

from stampede_guard.api.defaults import default_guard
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.engine.engine import Invalidation
from stampede_guard.engine.tasks import running_loop
from stampede_guard.errors import Misuse
from stampede_guard.http.beside import beside
from stampede_guard.http.cache import Cache
from stampede_guard.http.direct import changing_others, direct, unsafe
from stampede_guard.http.operating.purging import purge
from stampede_guard.http.posted import posted, queried
from stampede_guard.http.requests.choosing import RouteChoice
from stampede_guard.http.requests.exchange import Message, Receive, Send
from stampede_guard.http.requests.incoming import Incoming
from stampede_guard.http.requests.paths import PathFilter
from stampede_guard.http.requests.request import CacheRequest, parsed
from stampede_guard.http.requests.routes import CacheRoute, Scope
from stampede_guard.http.requests.settings import MiddlewareOptions, Settings
from stampede_guard.http.spec.invalidation import is_safe
from stampede_guard.http.spec.status import CacheStatus
from stampede_guard.http.uncacheable.urls import visitor_of
from stampede_guard.http.visit import Visit
from stampede_guard.options import nearest, takes_options

__all__ = ["StampedeMiddleware"]

_NO_ROUTE = RouteChoice()
_UNCLEAR = CacheStatus(forwarded="bypass", detail="user")


def _has_one(scope: Scope, names: AbstractSet[bytes]) -> bool:
    return not names.isdisjoint([name.lower() for name, _ in scope["headers"]])


def _refuse_options_of_routes(options: Mapping[str, Any], known: Iterable[str]) -> None:
    fields = [field.name for field in dataclasses.fields(CacheRoute) if field.init]
    for name in options:
        near = nearest(name, fields)
        if near is not None and nearest(name, known) is None:
            hint = "" if near == name else f" (do you mean {near}?)"
            raise Misuse(
                f"StampedeMiddleware has no {name}{hint}: write routes=[CacheRoute('/reports/*', {near}=...)]"
            )


class StampedeMiddleware:
    """Without `routes` it obeys the fields of the application's responses; `routes` are for endpoints without such
    fields.

    `anonymous_only`: requests with Cookie, Authorization, Proxy-Authorization or one of `credential_headers` go to the
    application, as if the middleware were absent, unless their method is unsafe.

    `exclude`, `only`: paths like those of a `CacheRoute`. Requests for the former, or for others than the latter, go to
    the application, as if the middleware were absent. Of their unsafe methods, one thing remains: the stored responses
    for their Location and Content-Location are invalidated (RFC 9111, 4.4). For their own URL nothing is stored.

    `guard`: None = the default one. `name`: of this cache in Cache-Status. `targets`: fields that override
    Cache-Control (RFC 9213), in this order. `max_body_bytes`: a larger response passes through.
    `max_request_bytes`: a QUERY with a larger body is not cached, and the route of a POST does not apply.
    `json_bodies`: two JSON bodies with the same meaning are the same question. `variants`: the number of responses
    per URL that are stored for different values of the fields in Vary. `max_pieces_bytes`: responses above
    `max_body_bytes`, up to so many bytes, are stored in pieces; 0 = none. Without a stated length, they must end
    within `stream_timeout`. `keep`: seconds for which a stale response with a validator is kept for validation.
    `stale_if_error`: seconds for which a stale response replaces an error, if neither side states a time, nor forbids
    it (RFC 9111, 4.2.4). `credential_headers`: `routes` do not apply to
    requests with one of these, with Authorization or with a Cookie, and their responses are stored only with
    `public` or `s-maxage`; None = all fields with the usual names of tokens and identities. `heuristics`: guess
    lifetimes from Last-Modified, for requests without special fields. `set_cookie`: responses with Set-Cookie are
    not stored ("refuse"), stored without it ("strip"), or with it ("store"). `client_directives`: a client's
    no-cache and no-store are obeyed ("obey") or not ("ignore"). `private_to`: who the user of a request is, as
    for a `CacheRoute`, on all paths whose route does not say it, so each user gets own entries there.
    `stream_timeout`: requests do not wait for a response without a length longer than these seconds after
    its first line. `cache_status=False` omits Cache-Status. `x_cache` adds X-Cache: HIT or MISS,
    `expose_key` the entry's name to Cache-Status, `add_etag` an
    ETag to stored responses without one. `strip_groups`: responses are sent without Surrogate-Key and
    Cache-Tag, as CDNs do.

    Requests for the same thing are collapsed. A request that wants an answer of the origin (`no-cache`) joins
    others that want the same. A flight runs with a copy of the context of its request.

    `stampede_guard.http.requests.settings` has the defaults. Raises `Misuse` at creation for invalid arguments.
    """

    @takes_options("StampedeMiddleware", own=("guard",), refuse=_refuse_options_of_routes)
    def __init__(
        self, app: Any, *, guard: StampedeGuard | None = None, **options: Unpack[MiddlewareOptions]
    ) -> None:
        if guard is not None and not isinstance(guard, StampedeGuard):
            raise Misuse(f"guard= takes a StampedeGuard, not a {type(guard).__name__}")
        self._app = app
        self._guard = guard
        self._cache: Cache | None = None
        self.settings = settings = Settings.of(options)
        has_rule = bool(settings.exclude) or settings.only is not None
        self._known_by = settings.known_by if settings.anonymous_only else None
        self._paths = PathFilter(settings.exclude, settings.only) if has_rule else None

    @property
    def cache(self) -> Cache:
        """Created at the first request, when the default guard has been configured."""
        if self._cache is None:
            self._cache = Cache(self._app, self._guard or default_guard(), self.settings)
        return self._cache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                receive = self._closing(receive)
            await self._app(scope, receive, send)
            return
        if self._paths is not None and self._paths.leaves(scope):
            if is_safe(scope["method"]):
                await self._app(scope, receive, send)
            else:
                await changing_others(self._app, scope, receive, send, self.cache, self._paths)
            return
        if self._known_by is not None and is_safe(scope["method"]) and _has_one(scope, self._known_by):
            await self._app(scope, receive, send)
            return
        cache = self._cache or self.cache
        mode = cache.engine.modes.of(cache.plan)
        method = scope["method"]
        remembers = mode == "on" and not cache.uncacheable.is_empty and method in ("GET", "HEAD")
        if remembers and not cache.routing.has_users and await self._beside(scope, receive, send, cache):
            return
        fields, names, target = parsed(scope)
        served = mode in ("on", "bypass")
        if target is None or (not served and is_safe(method)):
            await self._app(scope, receive, send)
            return
        running_loop()  # else an application of trio's changes its data, and the invalidation fails
        choice = _NO_ROUTE
        if self.settings.routes or cache.routing.has_users:
            choice = cache.routing.choose(scope, fields, names, target)
            if remembers and cache.routing.has_users and choice.user == "":
                if await self._beside(scope, receive, send, cache):
                    return
        obey = self.settings.client_directives == "obey"
        route, request = choice.route, CacheRequest.of(scope, choice, fields, names, target, obey=obey)
        if not served:
            # Stored responses are served again when the mode is `on` again.
            await (
                self._app(scope, receive, send) if route else unsafe(self._app, request, receive, send, cache)
            )
        elif method == "POST" and route is not None:
            await posted(self._app, request, receive, send, cache, bypassed=mode == "bypass")
        elif not is_safe(method):
            await unsafe(self._app, request, receive, send, cache)
        elif choice.user is None:
            await direct(self._app, request, receive, send, _UNCLEAR, cache)
        elif method == "QUERY":
            await queried(self._app, request, receive, send, cache, bypassed=mode == "bypass")
        elif method not in ("GET", "HEAD"):
            await direct(self._app, request, receive, send, CacheStatus(forwarded="method"), cache)
        elif request.has_body or request.only_for_itself or request.overridden:
            await direct(self._app, request, receive, send, CacheStatus(forwarded="bypass"), cache)
        else:
            incoming = Incoming(scope, receive)
            if scope.get("http_version", "1.1")[:1] in ("2", "3") and await incoming.has_body():
                status = CacheStatus(forwarded="bypass")
                await direct(self._app, request, incoming.begin(), send, status, cache)
            else:
                visit = Visit(cache, request, self._app, incoming, send)
                await visit.answer(bypassed=mode == "bypass")

    async def _beside(self, scope: Scope, receive: Receive, send: Send, cache: Cache) -> bool:
        """Whether the request went past the cache, because of what is remembered of its URL for those
        without private entries.
        """
        visitor = visitor_of(scope)
        known = "no" if visitor is None else cache.uncacheable.knows(visitor, scope["path"])
        if visitor is None or known == "no":
            return False
        await beside(self._app, scope, receive, send, cache, visitor, worn=known == "worn")
        return True

    @takes_options("StampedeMiddleware.purge")
    async def purge(
        self, *, url: str | None = None, prefix: str | None = None, tag: str | None = None
    ) -> Invalidation:
        """`stampede_guard.purge` with the guard and the name of this middleware. Raises as that does."""
        name, guard = self.settings.name, self._guard or default_guard()
        return await purge(guard, url=url, prefix=prefix, tag=tag, name=name)

    def _closing(self, receive: Receive) -> Receive:
        async def listen() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown" and self._cache is not None:
                await self._cache.aclose()
            return message

        return listen
