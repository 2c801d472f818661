"""Whole responses of views.

The computation gets a request that is made of the key alone: GET, scheme, host, path, query, and the header fields in
`vary`. It has no cookies, no credentials, no address of a client, and no session data. So a view cannot put anything
of one visitor into a response for others, whatever it reads. A view that looks for such a thing is called again with
the caller's own request, and the log names what it looked for. `before_request` functions do not run for it. They have
run for the caller. URL value preprocessors do run, because they depend on the URL only. A view may look for something
in `g`, or for an attribute of `request`, that is missing there. A caller that has it gets a response of its own. So
does each caller of a view that fails after such a look.

Not served from the cache: methods other than GET and HEAD, requests with a body, and requests with a cookie, another
credential, or a field that names a user, as the HTTP cache knows them. `ignore=` allows such fields: the response does
not depend on them. See `responses` for what is stored.

A conditional request is answered with 304 if the view gives its response a validator: `response.add_etag()`, or
`response.last_modified`. The view itself computes the complete response.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar
from urllib.parse import urlencode

from flask import current_app, request

from stampede_guard.errors import Misuse
from stampede_guard.http.requests.requester import SAFE, is_credential, names_a_user, overrides_method
from stampede_guard.integrations.flask.contexts import explained, torn_down
from stampede_guard.integrations.flask.helpers import AppState, Faces, named_like
from stampede_guard.integrations.flask.keyed_requests import (
    A_TYPE,
    OF_COPIES,
    KeyedEnviron,
    environ_of,
    note_address,
)
from stampede_guard.integrations.flask.prepared import note_prepared
from stampede_guard.integrations.flask.responses import (
    OWN,
    bytes_of,
    may_be_stored,
    reason_against,
    reason_of_looks,
    response_from,
)
from stampede_guard.values.annotations import resolve

__all__ = ["ViewDecorator", "cached_view"]

log = logging.getLogger("stampede_guard")

P = ParamSpec("P")
R = TypeVar("R")

_REFUSED = frozenset({"key", "unkeyed", "resources", "should_cache", "context", "pickle"})
_OF_SERVERS = ("REMOTE_USER", "SSL_CLIENT_S_DN", "SSL_CLIENT_CERT")
"""Where a web server tells a WSGI application who the user is."""
_OF_PREPARED = (
    "a response of %s() is computed for callers with %s: the view looks for it, and a `before_request` function has "
    "set it. To share such responses, cache a function that takes the value as an argument, and call it in the view"
)
_OF_TYPE = (
    "a response of %s() is computed for callers with a %s: the view looks for it. To share such responses, write "
    "vary=('Content-Type',), or ignore= if they do not depend on it"
)
_NEEDED = (
    "it fails without %s, which only `before_request` functions set. Cache a function that takes the value as an "
    "argument, and call it in the view"
)
_URL, _QUERY = "stampede_guard_url", "stampede_guard_query"


class ViewDecorator(Protocol):
    def __call__(self, view: Callable[P, R], /) -> Callable[P, R]: ...


def cached_view(
    state: Callable[[], AppState],
    *,
    vary: Iterable[str],
    ignore: Iterable[str],
    query: Iterable[str] | None,
    options: dict[str, Any],
) -> Any:
    for name in sorted(_REFUSED & options.keys()):
        raise Misuse(
            f"cached_view has no {name}=: the key of a view is its URL, and what vary= names. Cache a function that "
            "the view calls instead: @stampede.locked_cache makes a key of its arguments"
        )
    asked = _Asked(
        _names("vary", vary), _names("ignore", ignore), None if query is None else _names("query", query)
    )

    def decorate(view: Any) -> Any:
        if not inspect.isroutine(view):
            raise Misuse(
                f"cached_view is for the function of a view, not {view!r}. For a class, write "
                "cached_view(ttl=60)(Page.as_view('page')), or decorators = [stampede.cached_view(ttl=60)] in it"
            )
        named = {**options, "name": options.get("name") or _name_of(view)}
        secret = (*_names("secret", options.get("secret", ())), _URL, _QUERY)
        relay = _relay(view, named["name"], asked)
        faces = Faces(relay, {**named, "secret": secret, "should_cache": may_be_stored}, state)
        return _serving(view, faces, asked)

    return decorate


class _Asked:
    """What of a request is in the key."""

    def __init__(self, vary: tuple[str, ...], ignore: tuple[str, ...], query: tuple[str, ...] | None) -> None:
        self.vary = tuple(sorted(name.lower() for name in vary))
        ignored = frozenset(name.lower() for name in ignore)
        for name in self.vary:
            if is_credential(name.encode()):
                raise Misuse(
                    f"vary= names {name}, which proves who a visitor is. To cache what one user gets, cache a function "
                    "with the user's id as an argument, and call it in the view"
                )
        if both := ignored & set(self.vary):
            raise Misuse(f"vary= and ignore= both name {', '.join(sorted(both))}: write it in one of them")
        self._query = query
        self._unseen = frozenset(name.encode() for name in ignored)
        self.covered = frozenset(self.vary) | ({"cookie", "authorization"} - ignored)
        """Requests with a cookie are not shared, so that a response may vary with it."""
        self.known = self.covered | ignored | OF_COPIES
        """The fields that a view may look for. Others are missing in its request, although the caller's has them."""

    def may_share(self) -> bool:
        if request.method not in ("GET", "HEAD") or request.content_length:
            return False
        return "transfer-encoding" not in request.headers and not any(map(request.environ.get, _OF_SERVERS))

    def fields_of_a_user(self) -> list[str]:
        """The header fields of the request that show who asks, and that neither `vary` nor `ignore` names."""
        known = SAFE | self._unseen | {name.encode() for name in self.vary}
        names = {
            name.lower().encode("latin-1", "replace") for name, value in request.headers if value
        } - known
        return sorted(
            name.decode("latin-1")
            for name in names
            if is_credential(name) or names_a_user(name) or overrides_method((name,))
        )

    def url(self) -> tuple[Any, ...]:
        environ = request.environ
        fields = tuple((name, request.headers.get(name)) for name in self.vary)
        return (
            request.scheme,
            request.host,
            environ.get("SCRIPT_NAME", ""),
            environ.get("PATH_INFO", ""),
            fields,
        )

    def query(self) -> str:
        if self._query is None:
            return str(request.environ.get("QUERY_STRING", ""))
        return urlencode([(name, value) for name in self._query for value in request.args.getlist(name)])


def _relay(view: Any, name: str, asked: _Asked) -> Any:
    told: set[str] = set()

    def relay(*args: Any, stampede_guard_url: Any, stampede_guard_query: str, **kwargs: Any) -> bytes:
        app = current_app
        environ = KeyedEnviron(environ_of(stampede_guard_url, stampede_guard_query), asked.known)
        context = app.request_context(environ)
        with torn_down(context, name), explained(name):
            note_address(context.request)
            _preprocess_url()
            environ.forget()
            prepared = note_prepared()
            try:
                response = app.make_response(app.ensure_sync(view)(*args, **kwargs))
            except Exception:
                # It may have failed because a field is missing here. The caller's own request decides.
                if environ.missed_type:
                    environ.missed.add("content-type")
                reason = reason_of_looks(environ)
                if reason is None and (missed := prepared.left()):
                    reason = _NEEDED % ", ".join(one if "." in one else f"g.{one}" for one in missed)
                if reason is None:
                    raise
            else:
                session = _session_of(context)
                later = bool(getattr(context, "_after_request_functions", None))
                reason = reason_against(response, session, environ, covered=asked.covered, later=later)
                if reason is None:
                    if getattr(session, "accessed", False):
                        response.vary.add("Cookie")
                    return bytes_of(response, [*([A_TYPE] if environ.missed_type else []), *prepared.left()])
                response.close()
        if reason not in told:
            told.add(reason)
            log.warning("a response of %s() is computed for each caller: %s", name, reason)
        return OWN

    parameters = list(inspect.signature(view).parameters.values())
    last = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    parameters[len(parameters) - last : len(parameters) - last] = [
        inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY) for one in (_URL, _QUERY)
    ]
    return named_like(view, relay, inspect.Signature(parameters), resolve(view) | {"return": bytes})


def _session_of(context: Any) -> Any:
    """Without marking it as accessed, as the property `session` does since Flask 3.1.3."""
    held = vars(context)
    return held["_session"] if "_session" in held else held.get("session")


def _preprocess_url() -> None:
    found = current_app.url_value_preprocessors
    for scope in (None, *reversed(request.blueprints)):
        for function in found.get(scope, ()):
            function(request.endpoint, request.view_args)


def _serving(view: Any, faces: Faces, asked: _Asked) -> Any:
    told: set[str] = set()
    told_of_prepared: set[str] = set()

    @functools.wraps(view)
    def serve(*args: Any, **kwargs: Any) -> Any:
        fields = asked.fields_of_a_user() if asked.may_share() else None
        if fields is not None and not fields:
            ours: dict[str, Any] = {_URL: asked.url(), _QUERY: asked.query()}
            body = faces.here()(*args, **kwargs, **ours)
            if body != OWN:
                made = response_from(body, current_app.response_class, request.headers, now=time.time())
                if not isinstance(made, str):
                    return made
                if made not in told_of_prepared:
                    told_of_prepared.add(made)
                    log.warning(_OF_TYPE if made == A_TYPE else _OF_PREPARED, view.__qualname__, made)
        if fields and not told:
            told.add(fields[0])
            log.info(
                "%s() computes for each request with %.100r. If its response does not depend on that, write ignore=",
                view.__qualname__,
                fields,
            )
        return current_app.ensure_sync(view)(*args, **kwargs)

    def set_mode(mode: Any) -> None:
        faces.here().set_mode(mode)

    made: Any = serve
    made.set_mode = set_mode
    return serve


def _name_of(view: Any) -> str:
    """All functions of `as_view()` have one qualified name. Their names and modules tell them apart."""
    qualified = view.__qualname__
    return f"{view.__module__}.{view.__name__ if qualified.startswith('View.as_view.') else qualified}"


def _names(option: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str) or not name:
            raise Misuse(f'{option}= takes names, such as {option}=("page",), not {name!r}')
    return names
