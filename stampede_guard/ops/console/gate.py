"""The door of `stampede-guard console`: a token that the terminal shows, and only names of this machine.

1. The terminal prints an address with a random token. 2. The first visit puts it into a cookie, and the address loses
it. 3. From then on the cookie counts. A page of another site cannot send it (`SameSite=Strict`).
A name that another site makes lead to this machine (DNS rebinding) is refused: only `localhost`, the name given with
`--host`, and addresses are accepted, because no other site can have these names.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from stampede_guard.ops.console.access import HEADERS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Gate", "is_own_host"]

GATE_COOKIE = "stampede_guard_token"
REFUSED = "Open the address that `stampede-guard console` has printed: it contains the token."


class Gate:
    """`host`: where the command listens. `token`: of this run. Cookies of two consoles differ by `mark`."""

    def __init__(self, app: ASGIApp, *, token: str, host: str, mark: str = "") -> None:
        self._app = app
        self._token = token
        self._host = host
        self._cookie = f"{GATE_COOKIE}_{mark}" if mark else GATE_COOKIE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self._app
        if scope["type"] == "http":
            answer = self._checked(Request(scope)) or self._app
        await answer(scope, receive, send)

    def _checked(self, request: Request) -> Response | None:
        """None lets the request in."""
        if not is_own_host(request.headers.get("host", ""), self._host):
            return PlainTextResponse("This host name is not allowed here.", 403, HEADERS)
        if self._is_right(request.cookies.get(self._cookie, "")):
            return None
        query = parse_qs(request.scope["query_string"].decode("latin-1")[:4_000])
        if not self._is_right(query.pop("token", [""])[0]):
            return PlainTextResponse(REFUSED, 403, HEADERS)
        rest = urlencode(query, doseq=True)
        # Two slashes at the beginning would name another host.
        path = "/" + request.url.path.lstrip("/\\")
        response = RedirectResponse(path + (f"?{rest}" if rest else ""), 303, HEADERS)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return response

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())


def is_own_host(given: str, host: str) -> bool:
    """Whether a `Host` header names this machine. Its port does not matter: it may be forwarded."""
    name = given[1 : given.find("]")] if given.startswith("[") else given.partition(":")[0]
    if name.casefold() in ("localhost", host.casefold()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
