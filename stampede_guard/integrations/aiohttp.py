"""aiohttp.web: closes the guard with the application, and answers the guard's errors.

    install(guard, app)

A handler takes a request and returns a response, and neither can be cached. Decorate the function between them, which
returns data. aiohttp is no ASGI server, so `StampedeMiddleware` cannot stand in front of its applications.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from stampede_guard.api.answers import ANSWERED, answer_to
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.options import ALL, takes_options

__all__ = ["install"]


@takes_options("install", own=ALL)
def install(guard: StampedeGuard, app: web.Application) -> None:
    """Close the guard when the app shuts down. Answer 503 with Retry-After to `WaitTimeout` and store errors.

    `ComputeTimeout` becomes 504, and `ComputeFailed` gets the status of the original error. The middlewares of the app
    see these errors first. Raises `Misuse` if `app` is not an application of aiohttp.
    """
    if not isinstance(app, web.Application):
        raise Misuse(f"install() takes an aiohttp.web.Application, not {type(app).__name__}")

    async def aclose(_: web.Application) -> None:
        await guard.aclose()

    app.middlewares.insert(0, _answers)
    app.on_shutdown.append(
        aclose
    )  # before the contexts of cleanup: running computations still need the database


@web.middleware
async def _answers(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except ANSWERED as error:
        found = answer_to(error)
        if found is None:
            raise
        return web.json_response({"detail": found.detail}, status=found.status, headers=found.headers)
