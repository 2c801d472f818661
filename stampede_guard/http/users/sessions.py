"""Sessions that a middleware around this one keeps, such as Starlette's: its fields are not yet in the response.

`SessionMiddleware` gives the application `scope["session"]`. It adds Set-Cookie if the application has written into it,
and `Vary: Cookie` if the application has read it. A cache inside of it sees neither field:

1. A visitor without a cookie asks for a form. 2. The application puts a secret into the session and into the form.
3. The form may not be stored, like any other response that sets a cookie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["session_of", "uses_session"]


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
