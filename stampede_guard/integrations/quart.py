"""Quart: closes the guard with the application, and answers the guard's errors.

    install(guard, app)

Handlers need nothing else: write `@app.get(...)` above `@guard.locked_cache(...)`. For whole responses, write
`app.asgi_app = StampedeMiddleware(app.asgi_app, guard=guard)`.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from quart import Quart
from werkzeug.exceptions import default_exceptions

from stampede_guard.api.answers import ANSWERED, answer_to
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.errors import ComputeFailed, Misuse
from stampede_guard.options import ALL, takes_options
from stampede_guard.values.errorclasses import look_among

__all__ = ["install"]


@takes_options("install", own=ALL)
def install(guard: StampedeGuard, app: Quart) -> None:
    """Close the guard when the app stops serving. Answer 503 with Retry-After to `WaitTimeout` and store errors.

    `ComputeTimeout` becomes 504. `ComputeFailed` is answered as the app answers the status of the original error.
    Handlers of the app that exist now stay. An error of another process is also rebuilt if its class, or a base class,
    has a handler of this app. Call it after you have registered what opens and closes your database: what is
    registered last ends first. Raises `Misuse` if `app` is not a Quart application.
    """
    if not isinstance(app, Quart):
        raise Misuse(f"install() takes a Quart application, not {type(app).__name__}")

    async def answer(error: Exception) -> Any:
        found = answer_to(error)
        if found is None:
            raise error
        if isinstance(error, ComputeFailed) and found.status in default_exceptions:
            return await app.handle_http_exception(default_exceptions[found.status]())
        return {"detail": found.detail}, found.status, found.headers

    own = app.error_handler_spec[None][None]
    for kind in ANSWERED:
        if kind not in own:
            app.register_error_handler(kind, answer)

    async def serving() -> AsyncGenerator[None, None]:
        yield
        await guard.aclose()

    app.while_serving(serving)
    look_among(_QuartHandled(app))


class _QuartHandled:
    """The classes for which an application has handlers now. It does not keep the application alive."""

    def __init__(self, app: Quart) -> None:
        self._app = weakref.ref(app)

    def __call__(self) -> Iterable[object] | None:
        app = self._app()
        if app is None:
            return None
        return [kind for spec in app.error_handler_spec.values() for kinds in spec.values() for kind in kinds]
