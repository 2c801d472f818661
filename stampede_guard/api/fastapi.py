"""Putting a guard into a FastAPI or Starlette application: its lifespan, and its errors as answers."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse, StoreError, WaitTimeout

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["install"]

log = logging.getLogger("stampede_guard")

STORE_RETRY = 5.0
"""In seconds: the `Retry-After` of the answer to a store error."""


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
