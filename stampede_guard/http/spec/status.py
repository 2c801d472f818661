"""`Cache-Status` (RFC 9211): reports what this cache did."""

from __future__ import annotations

import functools
import re
from typing import Literal

import msgspec

__all__ = ["CacheStatus", "Forwarded"]

Forwarded = Literal["bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"]

_TOKEN = re.compile(r"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*")


class CacheStatus(msgspec.Struct, frozen=True, kw_only=True):
    """RFC 9211, 2.1 to 2.8. `ttl`: further seconds of freshness, negative when stale. `detail` is this cache's own
    word.
    """

    hit: bool = False
    forwarded: Forwarded | None = None
    forwarded_status: int | None = None
    ttl: int | None = None
    stored: bool = False
    collapsed: bool = False
    key: str | None = None
    detail: str | None = None

    def serialise(self, name: str) -> bytes:
        """A member of the list, in the syntax of Structured Fields (RFC 9651, 4.1)."""
        parts = [_bare(name)]
        if self.hit:
            parts.append("hit")
        elif self.forwarded is not None:
            parts.append(f"fwd={self.forwarded}")
            if self.forwarded_status is not None:
                parts.append(f"fwd-status={self.forwarded_status}")
        if self.stored and not self.hit:
            parts.append("stored")
        if self.ttl is not None:
            parts.append(f"ttl={self.ttl}")
        if self.collapsed:
            parts.append("collapsed")
        if self.key is not None:
            parts.append(f"key={_quoted(self.key)}")
        if self.detail is not None:
            parts.append(f"detail={_bare(self.detail)}")
        return "; ".join(parts).encode("ascii")


@functools.lru_cache(maxsize=64)
def _bare(text: str) -> str:
    """Names of caches and this cache's own words: a hit has the same as the last one."""
    return text if _TOKEN.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    """A string of Structured Fields has printable ASCII only; other characters are written as `?`."""
    printable = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return '"' + printable.replace("\\", "\\\\").replace('"', '\\"') + '"'
