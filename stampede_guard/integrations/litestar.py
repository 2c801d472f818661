"""Litestar: a plug-in that closes the guard with the application, and answers the guard's errors.

    app = Litestar([quality], plugins=[StampedePlugin(guard)])

Handlers need nothing else: write `@get(...)` above `@guard.locked_cache(...)`. For whole responses, write
`middleware=[DefineMiddleware(StampedeMiddleware, guard=guard)]`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from litestar.config.app import AppConfig
from litestar.exceptions import HTTPException
from litestar.exceptions.responses import create_exception_response
from litestar.plugins import InitPlugin

from stampede_guard.api.answers import ANSWERED, answer_to
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.options import ALL, takes_options
from stampede_guard.values.errorclasses import look_among

__all__ = ["StampedePlugin"]


class StampedePlugin(InitPlugin):
    """`WaitTimeout` and store errors become 503 with Retry-After, `ComputeTimeout` 504. Own handlers stay.

    `ComputeFailed` gets the status of the original error, in Litestar's form. An error of another process is also
    rebuilt if its class, or a base class, has a handler of this application.
    """

    @takes_options("StampedePlugin", own=ALL)
    def __init__(self, guard: StampedeGuard) -> None:
        self._guard = guard

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        for kind in ANSWERED:
            app_config.exception_handlers.setdefault(kind, _answer)
        # The last one ends first: running computations still need what the others close.
        app_config.lifespan = [*app_config.lifespan, self._lifespan]
        look_among(_LitestarHandled(app_config.exception_handlers))
        return app_config

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self._guard.aclose()


def _answer(request: Any, error: Exception) -> Any:
    found = answer_to(error)
    if found is None:
        return create_exception_response(request, error)
    told = HTTPException(status_code=found.status, detail=found.detail, headers=found.headers)
    return create_exception_response(request, told)


class _LitestarHandled:
    """The classes for which the application has handlers. It does not keep the application alive."""

    def __init__(self, handlers: Any) -> None:
        self._handlers = handlers

    def __call__(self) -> Iterable[object] | None:
        return list(self._handlers)
