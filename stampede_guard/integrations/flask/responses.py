"""Which responses of a cached view may be stored, and how they become bytes.

Stored and shared: status 200. Shared by the callers of one flight, but not stored: another status.
Neither, so each caller gets a response of its own: a response that sets a cookie or changes the session, a stream or a
file, 401 and 403, `Cache-Control: private`, `no-store` or `no-cache`, a `Vary` that the key does not cover, a view that
looked for something of the request that is not in the key, and one that used `after_this_request`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from stampede_guard.http.spec.message import Fields
from stampede_guard.http.spec.validation import is_not_modified
from stampede_guard.integrations.flask.keyed_requests import A_TYPE, KeyedEnviron
from stampede_guard.integrations.flask.prepared import prepared_for_caller
from stampede_guard.values.codec.builtin import dumps, loads

__all__ = ["OWN", "bytes_of", "may_be_stored", "reason_against", "response_from"]

_STORED, _SHARED = b"s", b"p"
OWN = b"o"
"""The bytes of a response that each caller must compute for itself. The reason follows."""
_VALIDATORS = frozenset({"etag", "last-modified"})
_OF_ONE_CALLER = frozenset({401, 403})


def reason_against(
    response: Any, session: Any, environ: KeyedEnviron, *, covered: AbstractSet[str], later: bool
) -> str | None:
    """Why the response must not be shared. `covered`: header fields, in lower case, that the key covers. `later`: the
    view used `after_this_request`.
    """
    control = response.cache_control
    if "Set-Cookie" in response.headers or getattr(session, "modified", False):
        return "it sets a cookie"
    if getattr(session, "accessed", False) and "cookie" not in covered:
        return "it reads the session, although ignore= names the cookie"
    if response.is_streamed or response.direct_passthrough:
        return "it is a stream or a file"
    if control.private or control.no_store or control.no_cache:
        return "its Cache-Control forbids it"
    if response.status_code in _OF_ONE_CALLER:
        return f"its status is {response.status_code}"
    if others := {name.lower() for name in response.vary} - covered:
        return f"it varies with {', '.join(sorted(others))}: write vary= for that"
    return reason_of_looks(environ) or ("the view used after_this_request" if later else None)


def reason_of_looks(environ: KeyedEnviron) -> str | None:
    """Why a response depends on more than its key, by what the view looked for."""
    if environ.missed_all:
        return "it reads all header fields: read those that it needs by their names, and write vary= for them"
    return _depends_on(sorted(environ.missed)) if environ.missed else None


def _depends_on(missed: list[str]) -> str:
    others = [name for name in missed if name.startswith("request.")]
    fields = ", ".join(repr(name) for name in missed if name not in others)
    if not others:
        return (
            f"it depends on fields that are not in its key: write vary=({fields},), or ignore= if it does not"
        )
    ignored = ", ".join(repr(_ignored(name)) for name in missed)
    return (
        f"it depends on {', '.join(others)}, which cannot be in its key. Cache a function that takes the value as an "
        f"argument, and call it in the view. If the response does not depend on it, write ignore=({ignored},)"
    )


def _ignored(read: str) -> str:
    """`request.remote_addr` and `request.environ['REMOTE_ADDR']` have one name for ignore=."""
    return read.removeprefix("request.").removeprefix("environ").strip("[']").replace("_", "-").lower()


def bytes_of(response: Any, looked_for: list[str]) -> bytes:
    """`looked_for`: what the view looked for in `g` and `request`, and did not find: see `prepared`. And `A_TYPE`."""
    kind = _STORED if response.status_code == 200 else _SHARED
    headers = [[name, value] for name, value in response.headers.items() if name.lower() != "content-length"]
    parts = [response.status, headers, response.get_data()]
    return kind + dumps([*parts, looked_for] if looked_for else parts)


def may_be_stored(body: bytes) -> bool:
    return body[:1] == _STORED


def response_from(body: bytes, kind: Any, asked: Any, *, now: float) -> Any:
    """A response of this caller's own, of the class `kind`. `asked`: the fields of the caller's request.

    If the view would have found something in the caller's `g` or `request`, or a Content-Type, this returns the name
    instead.

    It is a 304 if the client has this response already, by the validator that the view gave (RFC 9110, 13.1).
    """
    status, headers, data, *others = loads(body[1:])
    missed = others[0] if others else []
    if A_TYPE in missed and A_TYPE in asked:
        return A_TYPE
    if (name := prepared_for_caller([one for one in missed if one != A_TYPE])) is not None:
        return name
    response = kind(data, status=status)
    response.headers.clear()
    for name, value in headers:
        response.headers.add(name, value)
    response.headers["Content-Length"] = str(len(data))
    if body[:1] == _STORED and _VALIDATORS & {name.lower() for name, _ in headers}:
        if is_not_modified(_fields(asked), _fields(headers), now=now):
            # The class of responses leaves out the fields that a 304 must not have.
            response.status_code = 304
            response.set_data(b"")
    return response


def _fields(pairs: Any) -> Fields:
    return tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in pairs
    )
