"""Names of entries: which requests are the same request.

A name contains scheme, host and path with all their bytes as they came. So two servers that read a path differently
never share an entry. It contains the query verbatim, or as a route defines it, and for a variant the request fields
that it varies on. GET and HEAD share an entry. What a route stores has separate names. A request with credentials
follows the response's own fields, and is never served what a route stored for requests without them.
"""

from __future__ import annotations

import functools
import re
from urllib.parse import quote, unquote, unquote_plus, urlsplit

import msgspec
from msgspec.structs import replace

from stampede_guard.http.queries.rules import is_unclear, simplified
from stampede_guard.http.requests.routes import CacheRoute, Scope
from stampede_guard.http.spec.message import Fields
from stampede_guard.values.parts.parts import digest, escape

__all__ = [
    "Target",
    "base_name",
    "path_of",
    "selected",
    "target_of",
    "target_of_url",
    "variant_name",
]

_LONGEST = 8192
"""Bytes of a URL. A longer one is not cached, because the store would contain it as the name of its entry."""
_HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.v]+\])(?::[0-9]*)?")
"""RFC 9110, 7.2. A host with a slash could be read as part of the path, and share an entry with another host's."""
_LONGEST_HOST = 255
"""Bytes of a host whose form is remembered."""
_PORTS = {"http": ":80", "https": ":443"}


class Target(msgspec.Struct, frozen=True):
    """The target of a request. `path` and `query` are the bytes of the request, as text in Latin-1. `rewritten` is
    the path that the application sees, if it is another one. `root` is what a dispatcher, or a proxy, has cut off the
    path: routes match without it, and two applications with different ones share no entry.
    """

    scheme: str
    host: str
    path: str
    query: str
    rewritten: str = ""
    root: str = ""

    @property
    def mount(self) -> str:
        """The part of the key for its root. Nothing else there is in quotes."""
        return repr(self.root) if self.root else ""

    def place(self, told: str) -> str:
        """The part of the key for where it came from. `told`: by its fields."""
        return f"{self.mount}{self.rewritten}{told}"

    def alike(self, root: str) -> list[Target]:
        """What a URL in the response of an application with this root may mean: it may contain the root, or lack it."""
        if not root:
            return [self]
        below = [replace(self, path=self.path[len(root) :], root=root)] if _is_under(self.path, root) else []
        return [self, replace(self, root=root), *below]

    @property
    def url(self) -> str:
        question = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{self.host}{self.path}{question}"


def target_of(scope: Scope, fields: Fields) -> Target | None:
    """None if the target is unclear: there is more than one Host, or an invalid one. Also None if the target is not
    a path, as in a request to a proxy (RFC 9112, 3.2.2), or too long for the name of an entry.
    """
    hosts = [value for name, value in fields if name == b"host"]
    scheme = str(scope.get("scheme") or "http").lower()
    if hosts:
        named = _known_host(hosts[0]) if len(hosts[0]) <= _LONGEST_HOST else _host(hosts[0])
        if len(hosts) > 1 or named is None:
            return None
        host = named
    else:
        server = scope.get("server") or ("", None)
        host = f"{server[0]}:{server[1]}"
    told, root = str(scope.get("path", "/")), str(scope.get("root_path") or "").rstrip("/")
    raw = (scope.get("raw_path") or b"").partition(b"?")[0]
    path = raw or _quoted(told if not root or _is_under(told, root) else f"{root}{told}")
    if path[:1] != b"/":
        return None
    query = scope.get("query_string") or b""
    host = host.removesuffix(_PORTS.get(scheme, "\0"))
    if len(host) + len(path) + len(query) > _LONGEST:
        return None
    came = path.decode("latin-1")
    if not raw or not root or _is_under(came, root) or _is_under(unquote(came), root):
        root = ""
    seen = told[len(root) :] if root and _is_under(told, root) else told
    rewritten = "" if came == seen or unquote(came) == seen else told
    return Target(scheme, host, came, query.decode("latin-1"), rewritten, root)


def _host(line: bytes) -> str | None:
    """None: it is invalid."""
    named = line.strip(b" \t")
    return None if _HOST.fullmatch(named) is None else named.decode("latin-1").lower()


_known_host = functools.lru_cache(maxsize=256)(_host)


def _is_under(path: str, root: str) -> bool:
    """In ASGI, `path` begins with `root_path`. Some dispatchers cut it off for what they mount, also off `raw_path`.
    Then two mounted applications of one guard have the same paths.
    """
    return not root or path == root or path.startswith(f"{root}/")


def _quoted(path: str) -> bytes:
    """For a server that only gives the decoded path: a question mark in it does not begin a query."""
    return quote(path, safe="/:@!$&'()*+,;=~", errors="surrogatepass").encode()


def target_of_url(url: str) -> Target | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    host = parts.netloc.lower().removesuffix(_PORTS.get(parts.scheme, "\0"))
    return Target(parts.scheme, host, parts.path or "/", parts.query)


def base_name(
    prefix: str,
    target: Target,
    *,
    route: CacheRoute | None = None,
    part: str = "",
    forwarded: str = "",
    user: str = "",
    rule: str | None = None,
) -> str:
    """`prefix` is the guard's and the middleware's. `part` is the result of a route's own key function, and the digest
    of a body. `forwarded` is the URL that a proxy was asked for, from the request's fields. `user`: the digest of the
    one whom the entry belongs to. `rule`: of No-Vary-Search, for the one entry of all queries that are equal under it;
    empty = the note that has the rule of a path. The URL is included completely, so that an operator can match it.
    """
    query = target.query if route is None else selected(target.query, route)
    if rule is not None:
        query = simplified(query, rule) if rule else ""
        if len(query) > _LONGEST:
            # It is spelt with more percent signs than the URL. No query has this form.
            query = f"~{digest(query)}"
    text = escape(f"{target.scheme}://{target.host}{target.path}") + "?" + (escape(query) if query else "")
    own = f"{digest(part)}:" if part else ""
    kind = f"q:{own}" if route is None and part else "" if route is None else f"r:{own}"
    if rule is not None:
        kind = f"n:{digest(rule) if rule else ''}:{kind}"
    if user:
        kind = f"u:{user}:{kind}"
    if forwarded:
        kind = f"f:{digest(forwarded)}:{kind}"
    return f"{prefix}{kind}{text}"


def path_of(name: str) -> str:
    """The part of an entry's name that all queries of a path share. A path has its question marks escaped."""
    return name.partition("?")[0]


def selected(query: str, route: CacheRoute) -> str:
    """The part of the query that counts on a route.

    Sorted stably: the order of two parameters with the same name may have a meaning.
    """
    if route.query == "verbatim" or not query:
        return query
    if route.query == "ignore":
        return ""
    # Decoded as the application will read the names: `%70age` is `page`, and would otherwise not count.
    pairs = [(unquote_plus(pair.partition("=")[0]), pair) for pair in query.split("&") if pair]
    if route.query != "sorted":
        pairs = [(name, pair) for name, pair in pairs if name in route.query or is_unclear(pair)]
    return "&".join(pair for _, pair in sorted(pairs, key=lambda pair: pair[0]))


def variant_name(base: str, nonce: str, nominated: Fields, *, variants: int) -> str:
    """One of `variants` places. Two variants in one place take turns; a URL never has more entries than places.

    The nonce comes from the response in the base entry. When that one is invalidated, no variant can be reached any
    more.
    """
    text = "\0".join(f"{name.decode('latin-1')}\1{value.decode('latin-1')}" for name, value in nominated)
    return f"{base}#{nonce}.{int(digest(text, digits=16), 16) % variants}"
