"""Errors that concern one caller: 401 and 403, in the forms of several libraries."""

from __future__ import annotations

from typing import Any

__all__ = ["is_personal", "status_of"]

_PERSONAL = frozenset({401, 403})
_NAMES = ("status_code", "status", "code", "http_status", "status_int", "http_code")
"""Starlette, httpx and requests; aiohttp; werkzeug, urllib and Google's clients; Stripe; WebOb; others."""
_CLASSES = frozenset({
    "django.core.exceptions.PermissionDenied", "ninja.errors.AuthenticationError",
    "flask_jwt_extended.exceptions.CSRFError", "flask_jwt_extended.exceptions.FreshTokenRequired",
    "flask_jwt_extended.exceptions.NoAuthorizationError", "flask_jwt_extended.exceptions.RevokedTokenError",
    "flask_jwt_extended.exceptions.UserLookupError",
})  # fmt: skip
"""Answered with 401 or 403 because of their class; they need no status. Python's PermissionError is none of them: it
says that a file or a port is closed to the process, so to all callers.
"""
_DEEPEST = 10


def is_personal(error: BaseException) -> bool:
    """Whether the status is 401 or 403: of the error, of a member of its group, or of the error before it.

    A framework may give this status to a class and its subclasses, whatever their attributes are. Else, if an error
    has a status of its own, that status decides, and not the error before it.
    """
    return _is_personal(error, 0)


def status_of(error: BaseException) -> int | None:
    """The HTTP status in `status_code`, with which the application answers this error."""
    return _status(_attribute(error, "status_code"))


def _is_personal(error: BaseException, depth: int) -> bool:
    if depth > _DEEPEST:
        return False
    if isinstance(error, BaseExceptionGroup):
        return any(_is_personal(member, depth + 1) for member in error.exceptions)
    if not _CLASSES.isdisjoint(f"{base.__module__}.{base.__qualname__}" for base in type(error).__mro__):
        return True
    statuses = _statuses(error)
    if statuses:
        return not _PERSONAL.isdisjoint(statuses)
    before = error.__cause__
    if before is None and not error.__suppress_context__:
        # `raise Unavailable()` in an `except` block, without `from`, is the most common form.
        before = error.__context__
    return before is not None and _is_personal(before, depth + 1)


def _statuses(error: BaseException) -> set[int]:
    given = [_attribute(error, name) for name in _NAMES]
    for response in (_attribute(error, "response"), _attribute(error, "resp")):
        if isinstance(response, dict):
            # botocore's
            details = response.get("ResponseMetadata")
            given += [response.get("status"), response.get("status_code")]
            given.append(details.get("HTTPStatusCode") if isinstance(details, dict) else None)
        elif response is not None:
            given += [_attribute(response, name) for name in _NAMES]
    return {status for one in given if (status := _status(one)) is not None}


def _attribute(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # a property of a user's class, which must not hide the error
        return None


def _status(given: Any) -> int | None:
    """An HTTP status given as an int, a member of an enum or a text."""
    if isinstance(given, str) and len(given) == 3 and given.isdecimal():
        given = int(given)
    value = given if isinstance(given, int) else _attribute(given, "value")
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
        return int(value)
    return None
