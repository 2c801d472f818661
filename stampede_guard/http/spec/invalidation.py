"""How an unsafe request affects stored responses (RFC 9111, 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from stampede_guard.http.spec.fields import first
from stampede_guard.http.spec.message import Response

__all__ = ["SAFE_METHODS", "KnownAs", "invalidated_targets", "is_own", "is_safe"]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PRI", "PROPFIND", "QUERY", "REPORT", "SEARCH"})
"""RFC 9110, 9.2.1, and the safe methods of IANA's registry (RFC 3253, 4918, 5323, 10008). Any other method, even an
unknown one, may have changed something.
"""


def is_safe(method: str) -> bool:
    return method in SAFE_METHODS


_PORTS = {"http": 80, "https": 443}


class KnownAs(NamedTuple):
    """What else the URLs of a site may contain that its clients see: what a proxy tells of it. `hosts` are in lower
    case, without ports. `prefixes` are what the proxy cuts off the path, without a slash at the end.
    """

    schemes: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()
    prefixes: tuple[str, ...] = ()


_BY_ITSELF = KnownAs()


def invalidated_targets(
    method: str, target: str, response: Response, known_as: KnownAs = _BY_ITSELF
) -> tuple[str, ...]:
    """URLs whose stored responses must not be used again: the request's own, and those of Location and
    Content-Location on the same origin, as the cache sees them. Empty after an error, or for a safe method.
    """
    if is_safe(method) or not 200 <= response.status < 400:
        return ()
    targets = {target: None}
    for name in (b"location", b"content-location"):
        value = first(response.fields, name)
        other = None if value is None else _joined(target, value)
        if other is not None:
            targets |= dict.fromkeys(_seen(other, target, known_as))
    return tuple(targets)


def is_own(reference: bytes, target: str, known_as: KnownAs = _BY_ITSELF) -> bool:
    """Whether this Content-Location is the URL of the request itself."""
    other = _joined(target, reference)
    return other is not None and target in _seen(other, target, known_as)


def _seen(other: str, target: str, known_as: KnownAs) -> Iterator[str]:
    """The URLs that the cache sees in requests for this one."""
    found, own = origin(other), origin(target)
    if found != own and (found is None or own is None or not _is_known(other, target, known_as)):
        return
    parts, site = urlsplit(other), urlsplit(target)
    yield other if found == own and "@" not in parts.netloc else _on(site, parts, parts.path)
    for prefix in known_as.prefixes:
        if parts.path == prefix or parts.path.startswith(f"{prefix}/"):
            yield _on(site, parts, parts.path[len(prefix) :])


def _is_known(other: str, target: str, known_as: KnownAs) -> bool:
    """Whether it is on the site of this target. Each part is what the proxy tells, or the target's own: most proxies
    tell only what is different.
    """
    if not any(known_as):
        return False
    parts, own = urlsplit(other), urlsplit(target)
    default = _PORTS.get(parts.scheme)
    return (
        parts.scheme in {own.scheme, *known_as.schemes}
        and (parts.hostname or "") in {own.hostname, *known_as.hosts}
        and (parts.port or default) in {default, own.port, *known_as.ports}
    )


def _on(site: SplitResult, parts: SplitResult, path: str) -> str:
    return parts._replace(scheme=site.scheme, netloc=site.netloc, path=path or "/").geturl()


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
    default = _PORTS.get(parts.scheme)
    host = (parts.hostname or "").lower()
    return parts.scheme, host if port in (None, default) else f"{host}:{port}"
