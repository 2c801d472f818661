"""Who may enter, and whether a form was sent by one of our own pages: pure decisions about one request.

A form carries a token: the session's cookie and the user's name under a secret of the servers (`formsecret.py`). No
script can read the cookie, and a page of another site cannot send it (`SameSite=Strict`). A page of a neighbouring host
could set a cookie of its own, but it cannot make the token. The browser must also say that the form comes from this
origin: `Sec-Fetch-Site` (Fetch Metadata) or `Origin` (RFC 6454, 7).
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import secrets
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = [
    "CLOSED",
    "COOKIE",
    "HEADERS",
    "Allow",
    "is_own_form",
    "new_session",
    "session_of_request",
    "token_of",
    "user_of",
]

Allow = Callable[["Request"], "bool | str | Awaitable[bool | str | None] | None"]
"""`True`, or the name of the user for the audit records, lets a request in."""

COOKIE = "stampede_guard_console"
SESSION_BYTES = 16
LONGEST_USER = 200

CLOSED = (
    "The console is closed. Say who may see it: app.mount('/ops', guard.console(allow=is_admin)). is_admin(request) "
    "returns True, or the user's name for the audit records; it may be a coroutine function."
)

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: browsers would then send `Origin: null` with our own forms (Fetch, 3.2).
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer."""


async def user_of(request: Request, allow: Allow | None) -> str | None:
    """The user's name, `""` if `allow` knows none, or None if the request may not enter."""
    if allow is None:
        return None
    answer = allow(request)
    if inspect.isawaitable(answer):
        answer = await answer
    if answer is True:
        return ""
    return answer[:LONGEST_USER] if isinstance(answer, str) and answer else None


def new_session() -> str:
    return secrets.token_hex(SESSION_BYTES)


def session_of_request(request: Request) -> str | None:
    """The session's cookie, if it has the form of ours."""
    given = request.cookies.get(COOKIE, "")
    return given if len(given) == 2 * SESSION_BYTES and given.isalnum() and given.isascii() else None


def token_of(session: str, user: str, secret: bytes) -> str:
    """The token in the forms of this session and user."""
    told = b"\0".join((b"form", session.encode(), user.encode("utf-8", "replace")))
    return hmac.new(secret, told, hashlib.sha256).hexdigest()


def is_own_form(request: Request, given: str, user: str, accepted: Iterable[bytes]) -> bool:
    """Whether one of our pages sent this form: same origin, and the token of the session under an accepted secret."""
    session = session_of_request(request)
    if session is None or not _is_same_origin(request):
        return False
    told = given.encode("utf-8", "replace")
    return any(hmac.compare_digest(token_of(session, user, one).encode(), told) for one in accepted)


def _is_same_origin(request: Request) -> bool:
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    try:
        origin = urlsplit(request.headers.get("origin", "")).netloc
    except ValueError:
        return False
    # The scheme is not compared: in front of this process, TLS may end.
    return origin != "" and origin == request.headers.get("host")
