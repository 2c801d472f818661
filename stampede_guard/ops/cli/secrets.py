"""No output of the command line contains a password."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

__all__ = ["shown", "without_secrets"]

_CREDENTIALS = re.compile(
    r"(?P<scheme>(?<![a-z+])[a-z+]+://|^\s*(?:[\w+.-]+:)?/{0,2})(?P<user>[^:@/?#\s]*):(?P<password>.*)@",
    re.IGNORECASE,
)
"""A URL may lack its scheme, or a slash behind it. The scheme is looked for at the beginnings of words only: otherwise
each letter of a long word would begin a search of its own."""
_IN_TEXT = re.compile(
    r"(?P<scheme>(?<![a-z+])[a-z+]+://)(?P<user>[^:@/?#\s]*):(?P<password>[^\s'\"]*)@", re.IGNORECASE
)
"""A URL within a sentence ends at a blank."""
_PLACEHOLDERS = frozenset({"password", "PASSWORD", "***", "..."})
"""Placeholders for a password in examples."""
_OPTION = re.compile(r"(?P<name>(?:sentinel_|ssl_)?password)\s*=\s*(?P<value>[^&#]*)", re.IGNORECASE)
HIDDEN = "***"
SHORT = 6


def shown(url: str) -> str:
    """The URL without its password."""
    return _OPTION.sub(rf"\g<name>={HIDDEN}", _CREDENTIALS.sub(rf"\g<scheme>\g<user>:{HIDDEN}@", url))


def without_secrets(text: str, url: str | None) -> str:
    """A text, for example a library's error, without the passwords of this URL and of any other URL in it."""
    given = url or ""
    if given:
        text = text.replace(given, shown(given))
    for secret in sorted(_secrets(given) - _PLACEHOLDERS, key=len, reverse=True):
        # A short password may be part of any word.
        text = (
            re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
            if len(secret) < SHORT
            else text.replace(secret, HIDDEN)
        )
    return _OPTION.sub(rf"\g<name>={HIDDEN}", _IN_TEXT.sub(_masked, text))


def _masked(found: re.Match[str]) -> str:
    password = found["password"] if found["password"] in _PLACEHOLDERS else HIDDEN
    return f"{found['scheme']}{found['user']}:{password}@"


def _secrets(url: str) -> set[str]:
    found = [match["password"] for match in _CREDENTIALS.finditer(url)]
    for match in _OPTION.finditer(url):
        # In a libpq text, a value may stand between quotation marks and ends at a blank.
        value = match["value"].strip(" '")
        found += [value, *value.split()[:1]]
    return {form for secret in found for form in (secret, unquote(secret), quote(secret, safe="")) if form}
