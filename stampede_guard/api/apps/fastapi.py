"""Putting a guard into a FastAPI or Starlette application: its lifespan, and its errors as answers."""

from __future__ import annotations

import contextlib
import inspect
import sys
import weakref
from collections.abc import AsyncIterator, Iterable
from http.client import responses
from typing import TYPE_CHECKING, Any

from stampede_guard.api.answers import answer_to
from stampede_guard.api.apps.report import report
from stampede_guard.api.apps.routes import Installed, mounted_in
from stampede_guard.errors import (
    ComputeFailed,
    ComputeTimeout,
    Misuse,
    StampedeError,
    StoreError,
    WaitTimeout,
)
from stampede_guard.values.errorclasses import look_among

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["install"]

_OWN = {
    "aiohttp": "stampede_guard.integrations.aiohttp.install(guard, app)",
    "flask": "stampede_guard.integrations.flask.Stampede(app, guard=guard)",
    "litestar": "plugins=[stampede_guard.integrations.litestar.StampedePlugin(guard)]",
    "quart": "stampede_guard.integrations.quart.install(guard, app)",
}
"""What frameworks write that have an integration of their own."""


def install(guard: StampedeGuard, app: Any) -> None:
    """Close the guard with the app's lifespan. Answer 503 with Retry-After to `WaitTimeout` and to store errors.

    `ComputeTimeout` becomes 504. An error of another process is also rebuilt if its class, or a base class, has a
    handler of this app, wherever it was defined. If an error cannot be rebuilt, the answer has its status, as the app
    answers that status. An app's own handlers for `ComputeFailed` and `ComputeTimeout` stay.

    The 503 for store errors also means a refused `invalidate()`: the request is not at fault. Nothing was invalidated,
    and the client may try again.

    Applications that are mounted in it, now or before it serves, answer these errors in the same way. Handlers of their
    own stay.

    Routes whose cache cannot work are reported by a WARNING each, now and when the app serves for the first time: see
    `stampede_guard.api.apps.report`. With a `strict` policy, they raise `Misuse`. It is also raised if `app` is not an
    application.
    """
    router: Any = getattr(app, "router", None)
    if not hasattr(app, "add_exception_handler") or not hasattr(router, "lifespan_context"):
        raise Misuse(f"install() takes a FastAPI or Starlette application, not {_described(app)}")
    installed = Installed.of(app)
    inner = router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(application: Any) -> AsyncIterator[Any]:
        async with inner(application) as state:
            report(app, installed, strict=guard.policy.strict)
            try:
                yield state
            finally:
                # Before the app shuts down: running computations still need its database.
                await guard.aclose()

    router.lifespan_context = lifespan
    app.add_exception_handler(WaitTimeout, _answered)
    app.add_exception_handler(StoreError, _answered)
    _answer_errors(app, installed)
    _install_below(app, has_served=False)
    report(app, installed, strict=guard.policy.strict)
    _when_it_serves(guard, app, installed)


async def _answered(_: Any, error: Exception) -> Any:
    from starlette.responses import JSONResponse

    answer = answer_to(error)
    if answer is None:
        raise error
    return JSONResponse({"detail": answer.detail}, status_code=answer.status, headers=answer.headers)


def _answer_errors(app: Any, installed: Installed) -> None:
    """The application's own handlers stay."""
    installed.answers = True
    for kind, handler in (
        (WaitTimeout, _answered),
        (StoreError, _answered),
        (ComputeTimeout, _answered),
        (ComputeFailed, failed_elsewhere),
    ):
        if kind not in app.exception_handlers:
            app.add_exception_handler(kind, handler)
    look_among(_Handled(app))


def _install_below(app: Any, *, has_served: bool) -> None:
    """A mounted application answers errors itself, before this one sees them, and has overrides of its own."""
    for mounted in mounted_in(app):
        installed = Installed.of(mounted)
        installed.has_served |= has_served
        if not installed.answers:
            _answer_errors(mounted, installed)


def _when_it_serves(guard: StampedeGuard, app: Any, installed: Installed) -> None:
    """Starlette makes the middleware once, for the first request or the lifespan. By then the routes are complete."""
    build = app.build_middleware_stack

    def built() -> Any:
        installed.has_served = True
        _install_below(app, has_served=True)
        report(app, installed, strict=guard.policy.strict)
        return build()

    app.build_middleware_stack = built


def _described(app: object) -> str:
    packages = [base.__module__.partition(".")[0] for base in type(app).__mro__]
    own = next((f": for {package}, write {_OWN[package]}" for package in packages if package in _OWN), "")
    return f"{type(app).__name__}{own}"


class _Handled:
    """The classes for which an application has handlers now. It does not keep the application alive."""

    def __init__(self, app: Any) -> None:
        self._app = weakref.ref(app)

    def __call__(self) -> Iterable[object] | None:
        app = self._app()
        return None if app is None else list(app.exception_handlers)


async def failed_elsewhere(request: Any, error: Exception) -> Any:
    """Answer with the status of the original, as the app answers an `HTTPException` with it. Without one: 500."""
    import starlette.exceptions
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse

    http: Any = sys.modules.get("fastapi.exceptions", starlette.exceptions)
    handlers = request.app.exception_handlers
    status = error.status_code if isinstance(error, ComputeFailed) else None
    answered: Any = error if status is None else http.HTTPException(status, responses.get(status, ""))
    # Starlette itself calls a handler for `Exception`, when this function raises.
    kinds = [status, *type(answered).__mro__[:-3]] if status is not None else [StampedeError]
    handler = next((handlers[kind] for kind in kinds if kind in handlers), None)
    if handler is None:
        if status is None:
            raise error
        return JSONResponse({"detail": answered.detail}, status_code=status)
    if inspect.iscoroutinefunction(handler):
        return await handler(request, answered)
    answer = await run_in_threadpool(handler, request, answered)
    return await answer if inspect.isawaitable(answer) else answer
