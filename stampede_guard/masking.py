"""Secrets in the texts of errors: what an HTTP client writes about a URL has its token in it.

httpx: "Client error '403 Forbidden' for url 'https://api.example.com/v1?token=...'". Texts that are stored, or logged,
keep what helps (the host, the path) and lose the query, the fragment, the user and the password.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["beginning", "mask", "mask_all"]

MASK = "***"
LONGEST = 16 * 1024

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,30}:(?:\\?/){2})([^\s\"'<>`]+)")
_QUERY = re.compile(r"\?[^\s\"'<>`?]*=[^\s\"'<>`]*")
_ENCODED_QUERY = re.compile(r"%3f[^\s\"'<>`]*", re.IGNORECASE)
_BARE_USER = re.compile(r"(?<!:)//[^\s/\"'<>`@]{1,300}@")
_SCHEME = re.compile(r"\b(bearer|basic)\s+(?=[^\s\"',]*[\d=])[^\s\"',]{6,}", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"\b([\w\-]{0,40}(?:token|secret|passwo?r?d|api[_\-]?key|signature|credential|authorization)[\w\-]{0,40})"
    r"=[^\s\"'&,;]+",
    re.IGNORECASE,
)
_OPAQUE = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[A-Za-z0-9_\-:.~%]{20,}\Z|bot\d+:.*", re.DOTALL)
"""A segment of a path that is long and has letters and digits is rather a key than a name."""


def beginning(text: str) -> str:
    """As much of a text as is worth masking; not the beginning of a URL whose end is cut off."""
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0]


def mask(text: str) -> str:
    """The text without queries, fragments, users and passwords of URLs, and without what is a key by its name."""
    text = _URL.sub(_masked_url, text)
    text = _QUERY.sub("?" + MASK, text)
    text = _BARE_USER.sub(f"//{MASK}@", text)
    text = _ENCODED_QUERY.sub("%3F" + MASK, text)
    text = _SCHEME.sub(rf"\1 {MASK}", text)
    return _ASSIGNED.sub(rf"\1={MASK}", text)


def mask_all(content: Any) -> Any:
    """The same for every text in what is to become JSON."""
    if isinstance(content, str):
        return mask(content)
    if isinstance(content, dict):
        return {
            mask_all(name) if isinstance(name, str) else name: mask_all(item)
            for name, item in content.items()
        }
    if isinstance(content, list | tuple):
        return [mask_all(item) for item in content]
    return content


def _masked_url(found: re.Match[str]) -> str:
    scheme, rest = found.groups()
    _, at, rest = rest.rpartition("@")
    rest, mark = _until_query(rest)
    segments = rest.split("/")
    shown = [segments[0], *(MASK if _OPAQUE.match(segment) else segment for segment in segments[1:])]
    return scheme + (MASK + at if at else "") + "/".join(shown) + (mark + MASK if mark else "")


def _until_query(rest: str) -> tuple[str, str]:
    """What comes before the first `?`, `#` or `;`, and which of them it is."""
    place = min((found for mark in "?#;" if (found := rest.find(mark)) >= 0), default=len(rest))
    return rest[:place], rest[place : place + 1]
