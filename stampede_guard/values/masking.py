"""Hides secrets in the texts of errors. The text that an HTTP client writes about a URL contains the URL's token.

httpx: "Client error '403 Forbidden' for url 'https://api.example.com/v1?token=...'". Texts that are stored or logged
keep the useful parts (the host, the path). They lose the query, the fragment, the user and the password.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["KNOWN_TOKEN", "LONGEST", "MASK", "beginning", "is_secret_name", "mask", "mask_all"]

MASK = "***"
LONGEST = 16 * 1024

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,30}:(?:\\?/){2})([^\s\"'<>`]+)")
_QUERY = re.compile(r"\?[^\s\"'<>`?]*=[^\s\"'<>`]*")
_ENCODED_QUERY = re.compile(r"%3f[^\s\"'<>`]*", re.IGNORECASE)
_BARE_USER = re.compile(r"(?<!:)//[^\s/\"'<>`@]{1,300}@")
_SCHEMED = re.compile(
    r"\b(bearer\s+(?!(?:token|auth|scheme|realm|credential|format|method)\w*\b)|(?:basic|token)\s+(?=[^\s\"',]*[\d=]))"
    r"[^\s\"',]{6,}",
    re.IGNORECASE,
)
# Keys that open something. Others name something: a cache, primary, public or partition key, the key of a KeyError.
_KEY = (
    r"(?:access|account|api|auth|decryption|encryption|hmac|license|master|private|secret|session|shared|signing|ssh"
    r"|subscription)[_\-]?key"
)
# The count, kind or name of a token is not a secret.
_NAME = (
    rf"[\w\-]{{0,40}}(?:token|secret|passwo?r?d|passphrase|pwd|{_KEY}|signature"
    r"|credential|authorization|cookie|session[_\-]?id|jwt)(?:s(?![A-Za-z]))?"
    r"(?:[_\-](?!type|count|limit|length|name|expir|ttl|uri|url)[\w\-]{1,40}|(?![\w\-]))"
)
_QUOTED = r"b?\\{0,2}[\"'](?:[^\"'\\]|\\(?![\"']))*\\{0,2}[\"']"
_ASSIGNED = re.compile(
    rf"(?<![\w\-])({_NAME}|sig|sid|otp|pin)((?:=|%3D)\s?)({_QUOTED}|[^\s\"'&,;]+)", re.IGNORECASE
)
# {"token": "..."}, ('token', '...'), "token" = "...", also with escaped quotation marks.
_FIELD = re.compile(rf"([\"']{_NAME}\\{{0,2}}[\"']\s?[:,=]\s?)({_QUOTED})", re.IGNORECASE)
# A header's value takes the rest of the line. After other names, a word is hidden unless it may belong to a sentence.
_HEADER = re.compile(
    r"(?<![\w\-])((?:proxy-)?authorization|(?:set-)?cookie|x-[\w\-]{0,40}(?:token|key|secret))(\s?:\s?)[^\r\n\"']+",
    re.IGNORECASE,
)
_WRITTEN = re.compile(
    rf"(?<![\w\-])({_NAME})(\s?(?::|->|is|was)?\s)"
    rf"({_QUOTED}|(?=[^\s\"',]*\d)(?=[^\s\"',]*[A-Za-z])[^\s\"',]{{8,}}|[^\s\"',]{{24,}})",
    re.IGNORECASE,
)
_ALONE = re.compile(
    rf"(?<![\w\-])((?:[\w\-]{{0,40}}[_\-])?(?:secret|passwo?r?d|passphrase|pwd|pin|otp|{_KEY}))"
    r"(\s?:\s?)[^\s\"',;(){}\[\]]+(?=\s*(?:\Z|[\r\n\"',;)}\]#])|\s[\w\-]{1,40}\s?[:=])",
    re.IGNORECASE,
)
"""One word after a colon, at the end of the clause or before the next `name:`. Several words are a sentence."""
KNOWN_TOKEN = re.compile(
    r"\beyJ[\w\-]{8,}\.[\w\-]+\.?[\w\-]*|\b(?:sk|pk|rk)[_\-][\w\-]{16,}|\bgh[opsru]_\w{20,}|\bgithub_pat_\w{20,}"
    r"|\bglpat-[\w\-]{16,}|\bxox[a-z]-[\w\-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w\-]{30,}"
)
"""Tokens recognised by their form: JSON Web Tokens (RFC 7519), and those of Stripe, GitHub, Slack, AWS and Google."""
_SECRET_FIELD = re.compile(_NAME + r"\Z", re.IGNORECASE)
_SECRET_ALONE = frozenset({"sig", "sid", "otp", "pin", "auth", "basic_auth", "basicauth", "proxy_auth"})
_OPAQUE = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[A-Za-z0-9_\-:.~%]{20,}\Z|bot\d+:.*", re.DOTALL)
"""A long segment of a path with letters and digits is more likely a key than a name."""


def beginning(text: str) -> str:
    """The part of a text that is worth masking. It never ends in the middle of a URL."""
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0]


def mask(text: str) -> str:
    """The text without queries, fragments, users and passwords of URLs, and without values named as secrets."""
    text = _URL.sub(_masked_url, text)
    text = _QUERY.sub("?" + MASK, text)
    text = _BARE_USER.sub(f"//{MASK}@", text)
    text = _ENCODED_QUERY.sub("%3F" + MASK, text)
    text = KNOWN_TOKEN.sub(MASK, text)
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    text = _FIELD.sub(rf"\1'{MASK}'", text)
    text = _ASSIGNED.sub(rf"\1\2{MASK}", text)
    text = _SCHEMED.sub(lambda found: f"{found[1].rstrip()} {MASK}", text)
    text = _ALONE.sub(rf"\1\2{MASK}", text)
    return _WRITTEN.sub(rf"\1\2{MASK}", text)


def mask_all(content: Any) -> Any:
    """Mask every text in a structure that will become JSON."""
    if isinstance(content, str):
        return mask(content)
    if isinstance(content, dict):
        return {
            mask_all(name) if isinstance(name, str) else name: MASK if _hides(name, item) else mask_all(item)
            for name, item in content.items()
        }
    if isinstance(content, list | tuple):
        return [mask_all(item) for item in content]
    return content


def is_secret_name(name: str) -> bool:
    """Whether the value of a field or parameter of this name is a secret."""
    return name.lower() in _SECRET_ALONE or _SECRET_FIELD.match(name) is not None


def _hides(name: object, item: object) -> bool:
    return isinstance(name, str) and isinstance(item, str) and _SECRET_FIELD.match(f"{name}") is not None


def _masked_url(found: re.Match[str]) -> str:
    scheme, rest = found.groups()
    _, at, rest = rest.rpartition("@")
    rest, mark = _until_query(rest)
    segments = rest.split("/")
    shown = [segments[0], *(MASK if _OPAQUE.match(segment) else segment for segment in segments[1:])]
    return scheme + (MASK + at if at else "") + "/".join(shown) + (mark + MASK if mark else "")


def _until_query(rest: str) -> tuple[str, str]:
    """The part before the first `?`, `#` or `;`, and the character found."""
    place = min((found for mark in "?#;" if (found := rest.find(mark)) >= 0), default=len(rest))
    return rest[:place], rest[place : place + 1]
