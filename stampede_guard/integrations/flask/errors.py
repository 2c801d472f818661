"""The guard's errors as answers of a Flask application."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from flask import current_app
from werkzeug.exceptions import HTTPException, ServiceUnavailable, default_exceptions

from stampede_guard.api.answers import ANSWERED, answer_to
from stampede_guard.values.errorclasses import look_among

__all__ = ["answer_errors"]


def answer_errors(app: Any) -> None:
    """503 with Retry-After for `WaitTimeout` and store errors, 504 for `ComputeTimeout`, the original's status for
    `ComputeFailed`. The application's own handlers stay, also those for the statuses.

    An error of another process is also rebuilt if its class, or a base class, has a handler of this application.
    """
    own = app.error_handler_spec[None][None]
    for kind in ANSWERED:
        if kind not in own:
            app.register_error_handler(kind, _answered)
    look_among(_Handlers(app))


def _answered(error: Exception) -> Any:
    """As the application answers this status: with its own error handler, if it has one."""
    answer = answer_to(error)
    kind = default_exceptions.get(answer.status) if answer is not None else None
    if answer is None or kind is None:
        raise error
    made: HTTPException = (
        ServiceUnavailable(answer.detail, retry_after=answer.retry_after)
        if kind is ServiceUnavailable
        else kind(answer.detail or None)
    )
    return current_app.handle_http_exception(made)


class _Handlers:
    """The classes for which an application has handlers now. It does not keep the application alive."""

    def __init__(self, app: Any) -> None:
        self._app = weakref.ref(app)

    def __call__(self) -> Iterable[object] | None:
        app = self._app()
        if app is None:
            return None
        scopes = list(app.error_handler_spec.values())
        return [kind for codes in scopes for kinds in list(codes.values()) for kind in list(kinds)]
