"""How an unsafe request affects stored responses (RFC 9111, 4.4)."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from stampede_guard.http.spec.fields import first
from stampede_guard.http.spec.message import Response

__all__ = ["SAFE_METHODS", "invalidated_targets", "is_safe"]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PRI", "PROPFIND", "QUERY", "REPORT", "SEARCH"})
"""RFC 9110, 9.2.1, and the safe methods of IANA's registry (RFC 3253, 4918, 5323, 10008). Any other method, even an
unknown one, may have changed something.
"""


def is_safe(method: str) -> bool:
    return method in SAFE_METHODS


def invalidated_targets(method: str, target: str, response: Response) -> tuple[str, ...]:
    """URLs whose stored responses must not be used again: the request's own, and those of Location and
    Content-Location on the same origin. Empty after an error, or for a safe method.
    """
    if is_safe(method) or not 200 <= response.status < 400:
        return ()
    targets = {target: None}
    for name in (b"location", b"content-location"):
        value = first(response.fields, name)
        if value is not None:
            other = _joined(target, value)
            if other is not None and origin(other) == origin(target):
                targets[other] = None
    return tuple(targets)


def _joined(target: str, reference: bytes) -> str | None:
    try:
        return urljoin(target, reference.decode("ascii")).partition("#")[0]
    except (UnicodeDecodeError, ValueError):
        return None


def origin(target: str) -> tuple[str, str] | None:
    """Scheme and authority, lower-case, without the scheme's default port; None if it is not a URL."""
    try:
        parts = urlsplit(target)
        port = parts.port
    except ValueError:
        return None
    default = {"http": 80, "https": 443}.get(parts.scheme)
    host = (parts.hostname or "").lower()
    return parts.scheme, host if port in (None, default) else f"{host}:{port}"
