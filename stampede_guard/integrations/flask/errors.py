"""The guard's errors as answers of a Flask application."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from flask import current_app
from werkzeug.exceptions import GatewayTimeout, HTTPException, ServiceUnavailable, default_exceptions

from stampede_guard.errors import ComputeFailed, ComputeTimeout, StoreError, WaitTimeout
from stampede_guard.values.errorclasses import look_among

__all__ = ["answer_errors"]

log = logging.getLogger("stampede_guard")

STORE_RETRY = 5
"""In seconds: the `Retry-After` of the answer to a store error."""


def answer_errors(app: Any) -> None:
    """503 with Retry-After for `WaitTimeout` and store errors, 504 for `ComputeTimeout`, the original's status for
    `ComputeFailed`. The application's own handlers stay, also those for the statuses.

    An error of another process is also rebuilt if its class, or a base class, has a handler of this application.
    """
    own = app.error_handler_spec[None][None]
    for kind, handler in _HANDLERS.items():
        if kind not in own:
            app.register_error_handler(kind, handler)
    look_among(_Handled(app))


def _too_long(error: WaitTimeout) -> Any:
    return _answer(
        ServiceUnavailable(
            "The value is being computed. Try again.", retry_after=max(1, math.ceil(error.retry_after))
        )
    )


def _store_failed(error: StoreError) -> Any:
    # The store's text may name entries and users. So neither the client nor the log gets it.
    log.error("a request failed with an error of the store: %s", type(error).__name__)
    return _answer(ServiceUnavailable("The cache is not available. Try again.", retry_after=STORE_RETRY))


def _too_slow(error: ComputeTimeout) -> Any:
    return _answer(GatewayTimeout("The value was not computed in time."))


def _failed_elsewhere(error: ComputeFailed) -> Any:
    kind = default_exceptions.get(error.status_code or 0)
    if kind is None:
        raise error
    return _answer(kind())


def _answer(error: HTTPException) -> Any:
    """As the application answers this status: with its own error handler, if it has one."""
    return current_app.handle_http_exception(error)


_HANDLERS: dict[type[Exception], Callable[[Any], Any]] = {
    WaitTimeout: _too_long,
    StoreError: _store_failed,
    ComputeTimeout: _too_slow,
    ComputeFailed: _failed_elsewhere,
}


class _Handled:
    """The classes for which an application has handlers now. It does not keep the application alive."""

    def __init__(self, app: Any) -> None:
        self._app = weakref.ref(app)

    def __call__(self) -> Iterable[object] | None:
        app = self._app()
        if app is None:
            return None
        scopes = list(app.error_handler_spec.values())
        return [kind for codes in scopes for kinds in list(codes.values()) for kind in list(kinds)]
