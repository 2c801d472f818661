"""What other middlewares, or the server, have put into the scope: a session, and who the user is.

The fields of a middleware around this one are not yet in the response.

`SessionMiddleware` gives the application `scope["session"]`. It adds Set-Cookie if the application has written into it,
and `Vary: Cookie` if the application has read it. A cache inside of it sees neither field:

1. A visitor without a cookie asks for a form. 2. The application puts a secret into the session and into the form.
3. The form may not be stored, like any other response that sets a cookie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["has_user", "session_of", "uses_session"]


def session_of(scope: Mapping[str, Any]) -> str | None:
    """Its content as a text, to see whether a call has changed it; None if there is no session."""
    session = scope.get("session")
    try:
        return None if session is None else repr(session)
    except Exception:
        return None


def uses_session(scope: Mapping[str, Any]) -> bool:
    """Whether the application has read it, if the session tells that."""
    return getattr(scope.get("session"), "accessed", False) is True


def has_user(scope: Mapping[str, Any]) -> bool:
    """Whether somebody has been authenticated, by whatever means: a token in the URL, or a certificate. An object
    without `is_authenticated` is a user; Starlette's for nobody has it, and says False.
    """
    user = scope.get("user")
    return (bool(user) and bool(getattr(user, "is_authenticated", True))) or _has_certificate(scope)


def _has_certificate(scope: Mapping[str, Any]) -> bool:
    """Of the client, as a server tells by ASGI's TLS extension."""
    tls = (scope.get("extensions") or {}).get("tls")
    return isinstance(tls, Mapping) and bool(tls.get("client_cert_name") or tls.get("client_cert_chain"))
