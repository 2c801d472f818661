"""The contexts in which a cached function of a Flask application computes.

A computation runs in a thread of the guard, and its value is for all callers with the same arguments. So it gets an
application context of its own: the same `current_app`, an empty `g`, and with Flask-SQLAlchemy a session of its own.
The context ends with the computation: `teardown_appcontext` runs, and the session is removed.

There is no request in it. Otherwise, one visitor's request could decide what all others get. A function that reads
`request` or `session` fails with a `Misuse` that says what to write. So does one that reads what a `before_request`
function has put into `g`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from flask import current_app, g, has_app_context
from werkzeug.local import LocalProxy

from stampede_guard.engine.threads.surroundings import Surroundings, surround_with
from stampede_guard.errors import Misuse

__all__ = ["explained", "torn_down"]

log = logging.getLogger("stampede_guard")

_NO_REQUEST = ("outside of request context", "when a request context is active")
_EXAMPLE = "page=request.args['page']"
_NO_URL = "outside an active request"
_TORN_DOWN = (
    "after a computation of %s(), a teardown function of the application failed, and those after it did not run. "
    "`before_request` functions have not run for this context, so their values are not in `g`. Write "
    "g.pop('name', None) in the teardown function, and do nothing for None"
)
_told: set[tuple[str, type]] = set()
_MOST_TOLD = 1000


class _Application:
    """The application of the caller, for a computation in another thread."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, compute: Callable[[], Any], name: str) -> Any:
        with torn_down(self._app.app_context(), name), explained(name):
            return compute()


def _application_of_caller() -> Surroundings | None:
    if not has_app_context():
        return None
    proxy: Any = current_app
    return _Application(proxy._get_current_object())


surround_with(_application_of_caller)


@contextmanager
def torn_down(context: Any, name: str) -> Iterator[None]:
    """Within a context that the computation has for itself. An error of its teardown does not replace the value."""
    context.push()
    try:
        yield
    except BaseException as error:
        _pop(context, error, name)
        raise
    _pop(context, None, name)


def _pop(context: Any, outcome: BaseException | None, name: str) -> None:
    try:
        context.pop(outcome)
    except Exception as error:
        told = (name, type(error))
        if told not in _told and len(_told) < _MOST_TOLD:
            _told.add(told)
            log.warning(_TORN_DOWN, name, exc_info=error)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Raise `Misuse` where the computation misses something of its caller's request."""
    try:
        yield
    except RuntimeError as error:
        if any(words in str(error) for words in _NO_REQUEST):
            raise Misuse(
                f"{name}() uses the request or the session of one caller, but its value is for all callers with the "
                f"same arguments. Pass it as an argument, so that it is in the key: {_call(name, _EXAMPLE)}. "
                "To cache a view's whole response, write @stampede.cached_view"
            ) from error
        if _NO_URL in str(error):
            raise Misuse(
                f"{name}() makes a URL, and has no request to take the host from. Set app.config['SERVER_NAME'], and "
                "write url_for(..., _external=False) if you want a path only. Or pass the URL as an argument: "
                f"{_call(name, 'url=url_for(...)')}"
            ) from error
        raise
    except AttributeError as error:
        if error.obj is None and (proxy := _empty_proxy(error)) is not None:
            raise Misuse(
                f"{name}() reads {proxy}.{error.name}, but its value is for all callers with the same arguments, so "
                f"there is no {proxy}. Pass it as an argument, so that it is in the key: "
                f"{_call(name, f'{error.name}={proxy}.{error.name}')}"
            ) from error
        if error.obj is not _own_g():
            raise
        raise Misuse(
            f"{name}() reads g.{error.name}, which it has not set: a shared computation has a `g` of its own. "
            f"Pass the value as an argument, which is then in the key: {_call(name, f'{error.name}=g.{error.name}')}"
        ) from error


def _empty_proxy(error: BaseException) -> str | None:
    """The name of a proxy that stands for None where the error was raised, such as Flask-Login's `current_user`."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    frame = trace.tb_frame
    for name in frame.f_code.co_names:
        found = frame.f_globals.get(name)
        if type(found) is LocalProxy:
            with suppress(RuntimeError):  # it stands for nothing
                if found._get_current_object() is None:
                    return name
    return None


def _call(name: str, argument: str) -> str:
    return f"{name.rpartition('.')[2]}(..., {argument})"


def _own_g() -> Any:
    proxy: Any = g
    return proxy._get_current_object()
