"""Putting a guard into a FastAPI or Starlette application."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse, WaitTimeout

if TYPE_CHECKING:
    from stampede_guard.guard import StampedeGuard

__all__ = ["install"]


def install(guard: StampedeGuard, app: Any) -> None:
    """Close the guard with the app's lifespan; answer 503 with Retry-After to `WaitTimeout`. Raises `Misuse`."""
    router: Any = getattr(app, "router", None)
    if not hasattr(app, "add_exception_handler") or not hasattr(router, "lifespan_context"):
        raise Misuse(f"install() takes a FastAPI or Starlette application, not {type(app).__name__}")
    from starlette.responses import JSONResponse

    async def too_long(_: Any, error: Exception) -> JSONResponse:
        retry_after = error.retry_after if isinstance(error, WaitTimeout) else 1.0
        return JSONResponse(
            {"detail": "The value is being computed. Try again."},
            status_code=503,
            headers={"Retry-After": str(max(1, math.ceil(retry_after)))},
        )

    inner = router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(application: Any) -> AsyncIterator[Any]:
        async with inner(application) as state:
            try:
                yield state
            finally:
                # Before the app's own end: computations under way still need its database.
                await guard.aclose()

    router.lifespan_context = lifespan
    app.add_exception_handler(WaitTimeout, too_long)
