"""What of a view may be shared: which requests, and which responses.

Not shared: methods other than GET and HEAD; without a `key=`, requests with cookies or another credential, or with a
field that names a user, as the HTTP cache knows them. The same for a user whom the web server has authenticated.

Not stored: a status other than 200; a stream; a response with a cookie or a CSRF token, whose view used the session or
added a message; `Cache-Control: private`, `no-store` or `no-cache`; without a `key=`, `Vary` on anything but cookies
and Authorization.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation
from django.utils.cache import cc_delim_re

from stampede_guard.errors import Misuse
from stampede_guard.http.requests.requester import (
    SAFE,
    forwarded_part,
    is_credential,
    names_a_user,
    overrides_method,
)
from stampede_guard.integrations.django.values import response_from, response_parts
from stampede_guard.values.annotations import root_package
from stampede_guard.values.codec.builtin import dumps, loads

__all__ = [
    "ASKED",
    "AsyncViewCall",
    "ViewCall",
    "asking",
    "bound_method",
    "is_method_view",
    "is_stand_in",
    "is_view",
    "view_key",
    "view_name",
]

ASKED: ContextVar[tuple[str | None, str | None, str]] = ContextVar("asked")
"""Of a view with `key=`: the method, the language and the time zone of the request. The view runs in them, so they are
part of its key, whatever the user's part is.
"""
_SHARED, _OWN = b"s", b"o"
_COVERED = frozenset({"cookie", "authorization"})
"""Requests with these are not shared. Accept-Language is not covered, although the chosen language is in the key:
Django's LocaleMiddleware adds it after the view, so a view that names it has read the field itself.
"""
_OF_SERVERS = ("REMOTE_USER", "SSL_CLIENT_S_DN", "SSL_CLIENT_CERT")
"""Where a web server tells a WSGI application who the user is."""
_PRIVATE = frozenset({"private", "no-store", "no-cache"})


def is_view(function: Any) -> bool:
    return _is_request(_parameters(function)[:1])


def is_method_view(function: Any) -> bool:
    """Whether it is the `get(self, request)` or `dispatch(self, request)` of a class."""
    parameters = _parameters(function)
    return bool(parameters) and parameters[0].name == "self" and _is_request(parameters[1:2])


def bound_method(given: Any) -> types.MethodType | None:
    """The method that Django's `method_decorator` gives to its decorators, perhaps decorated by others of its list."""
    while given is not None:
        if isinstance(given, functools.partial) and isinstance(given.func, types.MethodType):
            return given.func
        given = getattr(given, "__wrapped__", None)
    return None


def is_stand_in(given: Any) -> bool:
    """What `method_decorator` decorates to see which attributes a decorator adds."""
    return getattr(given, "__qualname__", "") == "_update_method_wrapper.<locals>.dummy"


def _is_request(parameters: list[inspect.Parameter]) -> bool:
    return any(one.name == "request" or one.annotation in (HttpRequest, "HttpRequest") for one in parameters)


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def view_name(view: Any) -> str:
    """All views of `as_view()` have one qualified name; their classes tell them apart."""
    named = getattr(view, "view_class", view)
    return f"{named.__module__}.{named.__qualname__}"


def view_key(request: HttpRequest, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """The URL is the one that the view sees. `build_absolute_uri` resolves dots in it, and quotes its query: then a
    client could store its own `/files/EVIL/../b` for those who ask for `/files/b`.
    """
    fields = _fields(request)
    told = forwarded_part(
        {name for name, _ in fields}, fields, scheme=request.scheme, host=request.get_host()
    )
    return (
        request.method, request.scheme, request.get_host(), request.path, request.META.get("QUERY_STRING", ""), told,
        translation.get_language(), timezone.get_current_timezone_name(),
        *args, *(part for item in sorted(kwargs.items()) for part in item),
    )  # fmt: skip


@contextmanager
def asking(request: HttpRequest) -> Iterator[None]:
    given = ASKED.set((request.method, translation.get_language(), timezone.get_current_timezone_name()))
    try:
        yield
    finally:
        ASKED.reset(given)


class ViewCall:
    """One request to a cached view. Called as the computation of a flight, it gives the response as bytes."""

    def __init__(self, view: Any, request: HttpRequest, *, chosen_key: bool) -> None:
        self.may_share = request.method in ("GET", "HEAD") and (chosen_key or not _tells_who_asks(request))
        self._view = view
        self._chosen_key = chosen_key
        self._language, self._zone = translation.get_language(), timezone.get_current_timezone()
        self._own: HttpResponse | None = None

    def __call__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> bytes:
        with self._locale():
            response = self._view(request, *args, **kwargs)
            _refuse_unready(self._view, response)
            if callable(getattr(response, "render", None)):
                response = response.render()
        return self._judged(request, response)

    def response_of(self, body: bytes) -> HttpResponse | None:
        """A response of this caller's own. None if another caller computed one that may not be shared."""
        return response_from(loads(body[1:])) if self.may_be_stored(body) else self._own

    @staticmethod
    def may_be_stored(body: bytes) -> bool:
        return body[:1] == _SHARED

    @contextmanager
    def _locale(self) -> Iterator[None]:
        # The language may be None, which means no translation.
        with translation.override(self._language), timezone.override(self._zone):
            yield

    def _judged(self, request: HttpRequest, response: Any) -> bytes:
        if not isinstance(response, HttpResponse) or not self._is_shareable(request, response):
            self._own = response
            return _OWN
        return _SHARED + dumps(response_parts(response))

    def _is_shareable(self, request: HttpRequest, response: HttpResponse) -> bool:
        session = getattr(request, "session", None)
        used = getattr(session, "accessed", False) or request.META.get("CSRF_COOKIE_NEEDS_UPDATE")
        if response.status_code != 200 or response.streaming or response.cookies:
            return False
        # A message for the next page is for one visitor. The middleware stores it after the view.
        if getattr(getattr(request, "_messages", None), "added_new", False):
            return False
        if (used and not self._chosen_key) or request.META.get("CSRF_COOKIE_NEEDS_UPDATE"):
            return False
        if _PRIVATE & _words(response, "Cache-Control"):
            return False
        vary = _words(response, "Vary")
        return "*" not in vary and (self._chosen_key or vary <= _COVERED)


class AsyncViewCall(ViewCall):
    async def __call__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> bytes:  # type: ignore[override]
        with self._locale():
            response = await self._view(request, *args, **kwargs)
            _refuse_unready(self._view, response)
            if callable(getattr(response, "render", None)):
                response = await sync_to_async(response.render)()
        return self._judged(request, response)


def _refuse_unready(view: Any, response: Any) -> None:
    """Django REST framework chooses the renderer after the method, or after the function below `@api_view`."""
    of_rest = any(root_package(base) == "rest_framework" for base in type(response).__mro__)
    if of_rest and not hasattr(response, "accepted_renderer"):
        title = getattr(view, "func", view).__qualname__
        raise Misuse(
            f"{title}() returns a {type(response).__name__} of Django REST framework, which is rendered after it. Put "
            "the decorator around the whole view: locked_cache(ttl=60)(Page.as_view()) in urls.py, "
            '@method_decorator(locked_cache(ttl=60), name="dispatch") above the class, or @locked_cache(ttl=60) above '
            "@api_view. Or cache a function that returns the data, and call it in the method"
        )


def _tells_who_asks(request: HttpRequest) -> bool:
    names = {name for name, value in _fields(request) if value} - SAFE
    return (
        any(is_credential(name) or names_a_user(name) for name in names)
        or overrides_method(names)
        or any(request.META.get(name) for name in _OF_SERVERS)
    )


def _fields(request: HttpRequest) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(
        (name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in request.headers.items()
    )


def _words(response: HttpResponse, header: str) -> set[str]:
    """`private="x"` counts as `private`."""
    words = cc_delim_re.split(response.get(header, "").lower())
    return {word.partition("=")[0].strip() for word in words if word}
