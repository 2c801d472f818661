"""Patterns of paths, and which paths a middleware leaves to the application."""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from typing import Any

__all__ = ["PathFilter", "compiled", "is_ambiguous", "wrong_pattern"]

_PATTERN = re.compile(r"/[\x21-\x7e]*")
_TRICKS = re.compile(rb"//|/\.{1,2}(?:/|$)|\\|;|%(?:2e|2f|5c|00|23|3f)", re.IGNORECASE)


def wrong_pattern(pattern: object) -> str | None:
    """What to write instead of this pattern; None if it is valid."""
    if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
        return "write a path that begins with a slash, such as '/reports/*'"
    if "?" in pattern or "#" in pattern or any(part.count("*") > 1 for part in pattern.split("/")):
        return "a path has no query, and in one segment one `*` is enough"
    if "{" in pattern or "}" in pattern:
        starred = re.sub(r"\{[^{}]*\}", "*", pattern)
        return f"`*` stands for a segment, not a name in braces: write {starred!r}"
    return None


def compiled(patterns: Iterable[str]) -> re.Pattern[bytes]:
    """One expression for all patterns. Its time is linear in the length of the path."""
    return re.compile(b"|".join(map(_expression, patterns)), re.DOTALL)


def _expression(pattern: str) -> bytes:
    head, star, tail = pattern.rpartition("*")
    if not star or tail:
        return b"[^/]+".join([re.escape(part.encode()) for part in pattern.split("*")])
    return b"[^/]+".join([re.escape(part.encode()) for part in head.split("*")]) + b".*"


def is_ambiguous(path: bytes) -> bool:
    """Whether another server might read this raw path as another path."""
    return _TRICKS.search(path) is not None


class PathFilter:
    """`exclude`: these paths are left to the application. `only`: all others are, and ambiguous ones. None = no rule.

    Both forms of a path count for `exclude`, the raw one and the decoded one that the application routes by: a spelling
    with percent signs does not reach the cache.
    """

    def __init__(self, exclude: tuple[str, ...], only: tuple[str, ...] | None) -> None:
        self._excluded = compiled(exclude).fullmatch if exclude else None
        self._only = None if only is None else compiled(only).fullmatch

    def leaves(self, scope: MutableMapping[str, Any]) -> bool:
        """Whether the middleware leaves a request to the application."""
        path: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
        if b"?" in path:
            # Some servers add the query.
            path = path.partition(b"?")[0]
        excluded = self._excluded
        if excluded is not None:
            if excluded(path) is not None:
                return True
            if b"%" in path and excluded(scope["path"].encode("utf-8", "surrogatepass")) is not None:
                return True
        return self._only is not None and (self._only(path) is None or is_ambiguous(path))
