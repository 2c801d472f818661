"""Putting a guard into a FastAPI or Starlette application."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse, StoreError, WaitTimeout

if TYPE_CHECKING:
    from stampede_guard.guard import StampedeGuard

__all__ = ["health_endpoint", "install"]

log = logging.getLogger("stampede_guard")

STORE_RETRY = 5.0
"""In seconds: the `Retry-After` of the answer to a store error."""


def health_endpoint(
    guard: StampedeGuard, *, serving: Iterable[str] = ("ok",)
) -> Callable[[Any], Awaitable[Any]]:
    """An endpoint that checks the store and answers `guard.check_health()` as JSON: 200 for `serving`, else 503.

    In FastAPI and Starlette: `app.add_route("/health/cache", health_endpoint(guard))`. The guard serves callers while
    the store is away. So give `serving=("ok", "away", "full")` for a probe that takes workers out of service. The
    answer contains host names: do not make it public. Raises `Misuse` for an unknown status.
    """
    from starlette.responses import JSONResponse

    fine = frozenset(serving)
    if not fine <= _STATUSES:
        raise Misuse(f"serving={sorted(fine - _STATUSES)} is not allowed: write some of {sorted(_STATUSES)}")

    async def endpoint(request: Any) -> JSONResponse:
        found = await guard.check_health()
        return JSONResponse(
            {"status": found.status, "since": found.since, "why": found.why, "parts": list(found.parts)},
            status_code=200 if found.status in fine else 503,
            headers={"Cache-Control": "no-store"},
        )

    return endpoint


_STATUSES = frozenset({"ok", "away", "refused", "full"})


def install(guard: StampedeGuard, app: Any) -> None:
    """Close the guard with the app's lifespan. Answer 503 with Retry-After to `WaitTimeout` and to store errors.

    The same holds when the store refuses an `invalidate()`: the request is not at fault. Nothing was invalidated, and
    the client may try again. Raises `Misuse` if `app` is not an application.
    """
    router: Any = getattr(app, "router", None)
    if not hasattr(app, "add_exception_handler") or not hasattr(router, "lifespan_context"):
        raise Misuse(f"install() takes a FastAPI or Starlette application, not {type(app).__name__}")
    from starlette.responses import JSONResponse

    def unavailable(detail: str, retry_after: float) -> JSONResponse:
        headers = {"Retry-After": str(max(1, math.ceil(retry_after)))}
        return JSONResponse({"detail": detail}, status_code=503, headers=headers)

    async def too_long(_: Any, error: Exception) -> JSONResponse:
        retry_after = error.retry_after if isinstance(error, WaitTimeout) else 1.0
        return unavailable("The value is being computed. Try again.", retry_after)

    async def store_failed(_: Any, error: Exception) -> JSONResponse:
        # The store's text may name entries and users. So neither the client nor the log gets it.
        log.error("a request failed with an error of the store: %s", type(error).__name__)
        return unavailable("The cache is not available. Try again.", STORE_RETRY)

    inner = router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(application: Any) -> AsyncIterator[Any]:
        async with inner(application) as state:
            try:
                yield state
            finally:
                # Before the app shuts down: running computations still need its database.
                await guard.aclose()

    router.lifespan_context = lifespan
    app.add_exception_handler(WaitTimeout, too_long)
    app.add_exception_handler(StoreError, store_failed)
