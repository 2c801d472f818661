"""StampedeMiddleware: a shared HTTP cache (RFC 9111) in front of any ASGI application, and no herd behind it.

    app.add_middleware(StampedeMiddleware, guard=guard, routes=[CacheRoute("/reports/*", ttl=60)])

Whatever `locked_cache` promises of a key holds of a URL: one call of the application per expiry, fleet-wide, by the
same leases, wake-ups and fences. What may be stored and served is RFC 9111's: see `stampede_guard.http.spec`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stampede_guard.defaults import default_guard
from stampede_guard.errors import Misuse
from stampede_guard.guard import StampedeGuard
from stampede_guard.http.cache import Cache
from stampede_guard.http.choosing import Choice
from stampede_guard.http.direct import direct, unsafe
from stampede_guard.http.exchange import Message, Receive, Send
from stampede_guard.http.posted import posted
from stampede_guard.http.request import CacheRequest, has_two_lengths, parsed
from stampede_guard.http.routes import CacheRoute, Scope
from stampede_guard.http.settings import Settings, field_names
from stampede_guard.http.spec.invalidation import is_safe
from stampede_guard.http.spec.status import CacheStatus
from stampede_guard.http.visit import Visit

__all__ = ["StampedeMiddleware"]


class StampedeMiddleware:
    """Without `routes` it obeys what the application's responses say; `routes` are for endpoints that say nothing.

    `guard`: None = the default one. `name`: of this cache in Cache-Status. `targets`: fields that are obeyed before
    Cache-Control (RFC 9213), in this order. `max_body_bytes`: a larger response passes through. `max_request_bytes`: a
    POST with a larger body goes past its route. `variants`: at most so many responses per URL are stored for different
    values of the fields in Vary. `keep`: for so many seconds a stale response with a validator is kept to be
    validated. `stale_if_error`: for so many seconds a stale response is served in place of an error where neither side
    says how long. `credential_headers`: requests with one of these, or a Cookie, go past `routes`. `x_cache` adds
    X-Cache: HIT or MISS, `expose_key` the entry's name to Cache-Status, `add_etag` an ETag to stored responses that
    have none.

    Requests are collapsed by what they ask for; one that a client wants answered by the origin (`no-cache`) joins
    others that want the same. A flight runs with a copy of the context of the request that it runs for.

    Raises `Misuse` when it is made, for what cannot work.
    """

    def __init__(
        self,
        app: Any,
        *,
        guard: StampedeGuard | None = None,
        routes: Iterable[CacheRoute] = (),
        name: str = "stampede_guard",
        targets: Sequence[str | bytes] = ("cdn-cache-control",),
        max_body_bytes: int = 4 * 1024 * 1024,
        max_request_bytes: int = 64 * 1024,
        variants: int = 1024,
        keep: float = 86_400.0,
        stale_if_error: float = 0.0,
        credential_headers: Sequence[str | bytes] = ("authorization", "x-api-key"),
        x_cache: bool = False,
        expose_key: bool = False,
        add_etag: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if guard is not None and not isinstance(guard, StampedeGuard):
            raise Misuse(f"guard= takes a StampedeGuard, not a {type(guard).__name__}")
        if isinstance(routes, CacheRoute):
            raise Misuse("routes= takes a list: write routes=[CacheRoute(...)]")
        self._app = app
        self._guard = guard
        self._cache: Cache | None = None
        self.settings = Settings(
            routes=tuple(routes),
            name=name,
            targets=field_names(targets, what="targets"),
            max_body_bytes=max_body_bytes,
            max_request_bytes=max_request_bytes,
            variants=variants,
            keep=keep,
            stale_if_error=stale_if_error,
            credential_headers=field_names(credential_headers, what="credential_headers"),
            x_cache=x_cache,
            expose_key=expose_key,
            add_etag=add_etag,
            clock=clock,
        )

    @property
    def cache(self) -> Cache:
        """Made at the first request, when the default guard has been configured."""
        if self._cache is None:
            self._cache = Cache(self._app, self._guard or default_guard(), self.settings)
        return self._cache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, self._closing(receive), send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        cache = self.cache
        mode = cache.guard.mode_of(cache.plan)
        fields, target = parsed(scope)
        method = scope["method"]
        served = mode in ("on", "bypass")
        if target is None or has_two_lengths(fields) or (not served and is_safe(method)):
            await self._app(scope, receive, send)
            return
        choice = cache.routing.choose(scope, fields, target) if self.settings.routes else Choice()
        route, request = choice.route, CacheRequest.of(scope, choice, fields, target)
        if not served:
            # What is stored is served again when the mode is `on` again.
            await (
                self._app(scope, receive, send) if route else unsafe(self._app, request, receive, send, cache)
            )
        elif method == "POST" and route is not None:
            await posted(self._app, request, receive, send, cache, bypassed=mode == "bypass")
        elif not is_safe(method):
            await unsafe(self._app, request, receive, send, cache)
        elif method not in ("GET", "HEAD"):
            await direct(self._app, request, receive, send, CacheStatus(forwarded="method"), cache)
        elif request.has_body or request.only_for_itself:
            await direct(self._app, request, receive, send, CacheStatus(forwarded="bypass"), cache)
        else:
            await Visit(cache, request, self._app, receive, send).answer(bypassed=mode == "bypass")

    def _closing(self, receive: Receive) -> Receive:
        async def listen() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown" and self._cache is not None:
                await self._cache.aclose()
            return message

        return listen
