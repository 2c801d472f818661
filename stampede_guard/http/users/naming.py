"""Which user a request is from, as `private_to` says: a header, a cookie, or a function of the scope."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, MutableMapping
from typing import Any

from stampede_guard.http.spec.fields import lines, token
from stampede_guard.http.spec.message import Fields
from stampede_guard.http.users.cookies import read_cookies
from stampede_guard.values.parts.parts import digest

__all__ = ["MOST_USER_BYTES", "PrivateTo", "header_of", "user_digest", "wrong_naming"]

PrivateTo = str | Callable[[MutableMapping[str, Any]], str | None]
"""`"header:NAME"`, `"cookie:NAME"`, or a function of the ASGI scope."""

MOST_USER_BYTES = 4096
"""Bytes of what identifies a user. Longer, and nothing is stored for the request."""
_KINDS = ("header", "cookie")


def wrong_naming(given: Any) -> str | None:
    """Why this is no `private_to`; None if it is one."""
    if given is None or (callable(given) and not inspect.iscoroutinefunction(given)):
        return None
    if isinstance(given, str):
        kind, colon, name = given.partition(":")
        if colon and kind in _KINDS and token(name.encode("ascii", "replace")):
            return None
    return 'write "header:X-User-Id", "cookie:session", or a plain function of the ASGI scope'


@functools.lru_cache(maxsize=256)
def _read(naming: str) -> tuple[str, bytes]:
    kind, _, name = naming.partition(":")
    return kind, name.lower().encode() if kind == "header" else name.encode()


def header_of(naming: PrivateTo | None) -> bytes | None:
    """The header field that it reads, in lower case; None for another source."""
    if not isinstance(naming, str):
        return None
    kind, name = _read(naming)
    return name if kind == "header" else b"cookie"


def user_digest(naming: PrivateTo, scope: MutableMapping[str, Any], fields: Fields) -> str | None:
    """A digest of the user; empty if nobody is named. None if it is unclear who is: nothing may be stored.

    Two sources never give equal digests. Raises what a function raises, and `TypeError` for its wrong result.
    """
    if not isinstance(naming, str):
        named: object = naming(scope)
        if named is None or named == "":
            return ""
        if not isinstance(named, str):
            if inspect.iscoroutine(named):
                named.close()
            raise TypeError(f"it returned a {type(named).__name__}, and not a text or None")
        return _digest("function", b"", named.encode("utf-8", "surrogatepass"))
    kind, name = _read(naming)
    if kind == "cookie":
        read = read_cookies(fields, (name,))
        return None if read is None else _digest(kind, name, read.named.get(name, b""), read.places)
    found = lines(fields, name)
    if len(found) > 1:
        # The application may believe either of them.
        return None
    return _digest(kind, name, found[0]) if found else ""


def _digest(kind: str, name: bytes, value: bytes, places: str = "") -> str | None:
    if len(value) > MOST_USER_BYTES:
        return None
    return digest(repr((kind, name, value)) + places) if value else ""
