"""Which stored responses a URL, or the beginning of one, means: from the names of their entries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote, unquote_to_bytes

from stampede_guard.errors import Misuse
from stampede_guard.http.queries.rules import spelled

__all__ = ["VERSION", "Addresses", "prefix_of", "url_of"]

VERSION = "http3"
"""Begins the names of all entries of this cache. A change of what they contain changes it."""
_LONGEST = 8192
_NOTE = "n::"
"""Of the rule of a path, and no response."""
_KINDS = re.compile(
    r"(?P<forwarded>f:[0-9a-f]+:)?(?:u:[0-9a-f]+:)?(?P<rule>n:[0-9a-f]*:)?(?:q:[0-9a-f]+:|(?P<route>r:(?:[0-9a-f]+:)?))?"
)
_URL = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#]+)(?P<rest>[/?].*|)", re.IGNORECASE | re.DOTALL)
_VARIANT = re.compile(r"#[0-9a-f]*\.[0-9]+\Z")
_BETWEEN = re.compile(rb"([&;])")
_PORTS = (":80", ":443")


def prefix_of(name: str) -> str:
    """How the names of one cache begin. `name`: of the middleware."""
    return f"{VERSION}:" if name == "stampede_guard" else f"{VERSION}:@{name}:"


def url_of(entry: str, prefix: str) -> str | None:
    """The URL in the name of an entry of this cache, as it was requested; None for another entry."""
    read = _read(entry, prefix)
    return None if read is None else read[3]


def _read(entry: str, prefix: str) -> tuple[bool, bool, bool, str] | None:
    """Whether it was asked for through a proxy, for many queries, whether a route stored it, and its URL."""
    if not entry.startswith(prefix):
        return None
    kinds = _KINDS.match(entry, len(prefix))
    assert kinds is not None, "it matches nothing, too"
    if kinds["rule"] == _NOTE:
        return None
    text = unquote(_VARIANT.sub("", entry[kinds.end() :]))
    if _URL.fullmatch(text) is None:
        return None
    return kinds["forwarded"] is not None, kinds["rule"] is not None, kinds["route"] is not None, text


@dataclass(frozen=True, slots=True)
class Addresses:
    """`host` None: on all hosts. `whole`: this URL; otherwise all that begin like it.

    http and https, and two spellings of one path or query, count as the same: behind a proxy an application does not
    know what its client wrote. A response that a proxy was asked for under another host counts by its path.
    """

    host: str | None
    path: bytes
    query: str
    whole: bool

    @classmethod
    def of(cls, *, url: str | None = None, prefix: str | None = None) -> Self:
        """Raises `Misuse`."""
        given = url if url is not None else prefix
        if not isinstance(given, str) or not 0 < len(given) <= _LONGEST:
            raise Misuse(
                f"a URL is a text of 1 to {_LONGEST} characters, such as 'https://shop.example/reports/7'"
            )
        found = _URL.fullmatch(given)
        if found is None and not given.startswith("/"):
            raise Misuse(
                f"{given!r}: write a URL with its host, or a path that begins with a slash for all hosts"
            )
        host, rest = (None, given) if found is None else (_host(found["host"]), found["rest"])
        path, _, query = rest.partition("#")[0].partition("?")
        return cls(host, unquote_to_bytes(path or "/"), query, url is not None)

    def include(self, entry: str, prefix: str) -> bool:
        """Whether the entry of this name holds such a response."""
        read = _read(entry, prefix)
        if read is None:
            return False
        forwarded, of_many, of_route, url = read
        parts = _URL.fullmatch(url)
        assert parts is not None
        if self.host is not None and not forwarded and _host(parts["host"]) != self.host:
            return False
        told, _, query = parts["rest"].partition("?")
        # The bytes of a request, as text.
        path = unquote_to_bytes(told.encode("latin-1", "replace"))
        if not self.whole and not self.query:
            return path.startswith(self.path)
        if path != self.path:
            return False
        stored, given = _spelling(query.encode("latin-1", "replace")), self.query.encode()
        if not self.whole:
            # It may end within an escaped character.
            return stored.startswith(_spelling(given)) or query.startswith(self.query)
        if not of_route and not of_many:
            return stored == _spelling(given)
        # The name of what a route stored has only the parameters that count, in its order. So has one for many queries.
        wanted = _spelling(spelled(given.decode("latin-1")).encode("latin-1") if of_many else given)
        return set(filter(None, stored.split("&"))) <= set(wanted.split("&"))


def _spelling(query: bytes) -> str:
    """One for all spellings that an application reads alike: a person writes `?q=Zürich` or `?at=10:00`, and a browser
    escapes it. What stands between two parameters stays, because escaped it would be a part of one.
    """
    return "".join([_respelt(part) for part in _BETWEEN.split(query)])


def _respelt(part: bytes) -> str:
    if part in (b"&", b";"):
        return part.decode()
    name, equals, value = part.partition(b"=")
    plain = (quote(unquote_to_bytes(text.replace(b"+", b" ")), safe="") for text in (name, value))
    return equals.decode().join(plain)


def _host(text: str) -> str:
    host = text.lower()
    return next((host.removesuffix(port) for port in _PORTS if host.endswith(port)), host)
