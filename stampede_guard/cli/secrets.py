"""Nothing that the command line prints has a password in it."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

__all__ = ["shown", "without_secrets"]

_CREDENTIALS = re.compile(r"(?P<scheme>[a-z+]+://)(?P<user>[^:@/?#]*):(?P<password>.*)@")
_OPTION = re.compile(r"(?P<name>(?:sentinel_|ssl_)?password)=(?P<value>[^&#]*)")
HIDDEN = "***"


def shown(url: str) -> str:
    """A URL as it may be printed."""
    return _OPTION.sub(rf"\g<name>={HIDDEN}", _CREDENTIALS.sub(rf"\g<scheme>\g<user>:{HIDDEN}@", url))


def without_secrets(text: str, url: str | None) -> str:
    """A text, for example an error of somebody's library, without the passwords of this URL and of any other in it."""
    for secret in sorted(_secrets(url or ""), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return shown(text)


def _secrets(url: str) -> set[str]:
    found = [match["password"] for match in _CREDENTIALS.finditer(url)]
    found += [match["value"] for match in _OPTION.finditer(url)]
    return {form for secret in found for form in (secret, unquote(secret), quote(secret, safe="")) if form}
