"""The tags of responses: which text stands for a group, everywhere and on one origin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import unquote_to_bytes, urlsplit

from stampede_guard.engine.engine import EVERYWHERE, OF_ORIGIN
from stampede_guard.engine.tags.templates import tag_key
from stampede_guard.http.requests.entries import Target, selected
from stampede_guard.http.requests.requester import of_site, told_places
from stampede_guard.http.requests.routes import CacheRoute
from stampede_guard.http.spec.invalidation import KnownAs
from stampede_guard.http.spec.message import Fields

__all__ = [
    "known_as",
    "origin_of",
    "tag_of_group",
    "tag_of_path",
    "tag_of_url",
    "tags_invalidated",
    "tags_of_groups",
    "tags_of_urls",
]


def origin_of(target: Target, fields: Fields) -> str:
    """Scheme and host, and what a proxy says of them: two tenants behind one proxy are two origins."""
    own = f"{target.scheme}://{target.host}"
    names = {name for name, _ in fields}
    told = told_places(names, fields, scheme=target.scheme, host=target.host)
    beside = sorted(set(of_site(told)))
    return own if not beside else f"{own} {beside!r}"


def known_as(target: Target, fields: Fields) -> KnownAs:
    """The parts of URLs by which clients know this site, from what a proxy tells of it."""
    names = {name for name, _ in fields}
    told = of_site(told_places(names, fields, scheme=target.scheme, host=target.host))
    found = list(_parts_told(told))
    hosts, ports = (
        set(),
        {int(text) for kind, text in found if kind == "port" and text.isdigit() and len(text) < 6},
    )
    for host in (text for kind, text in found if kind == "host"):
        try:
            parts = urlsplit(f"//{host}")
            ports |= {parts.port} if parts.port else set()
        except ValueError:
            continue
        hosts.add(parts.hostname or "")
    schemes = {text for kind, text in found if kind == "scheme"}
    prefixes = [text.rstrip("/") for kind, text in found if kind == "prefix" and text.startswith("/")]
    few = tuple(prefix for prefix in dict.fromkeys(prefixes) if prefix)[:_MOST_PREFIXES]
    return KnownAs(frozenset(schemes), frozenset(hosts - {""}), frozenset(ports), few)


def _parts_told(told: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[str, str]]:
    """What part of a URL a field tells, by its name. Proxies in a row tell several, with commas in between."""
    for name, value in told:
        words = name.decode("latin-1").replace("_", "-").split("-")
        for text in value.decode("latin-1").split(","):
            text = text.strip()
            if name == b"forwarded":
                kind, _, text = text.lower().partition("=")
                yield {"proto": "scheme"}.get(kind.strip(), kind.strip()), text.strip().strip('"')
            elif name == b"cf-visitor":
                yield "scheme", "https" if "https" in text.lower() else "http"
            elif words[-1] == "https":
                yield "scheme", "https" if text.lower() == "on" else "http"
            elif words[-1] in ("prefix", "port"):
                yield words[-1], text
            elif words[-2:] == ["script", "name"]:
                yield "prefix", text
            else:
                yield "host" if _OF_HOSTS.intersection(words) else "scheme", text.lower()


_OF_HOSTS = frozenset({"host", "server"})
_MOST_PREFIXES = 8
"""A client may invent them."""


def tag_of_group(group: str, origin: str | None = None) -> str:
    """The text of a tag. A host contains no space, and `origin_of` writes texts of clients with quotes."""
    return f"{EVERYWHERE}{group}" if origin is None else f"{OF_ORIGIN}{origin} {group}"


def tags_of_groups(groups: Iterable[str], target: Target, fields: Fields) -> tuple[str, ...]:
    """Names in the store, after the namespace: two for each group."""
    found: list[str] = []
    origin = origin_of(target, fields)
    for group in groups:
        found += (tag_key(tag_of_group(group)), tag_key(tag_of_group(group, origin)))
    return tuple(found)


def tags_invalidated(groups: Iterable[str], target: Target, fields: Fields) -> tuple[str, ...]:
    """On the origin of the request, and on the one that it would have without the fields of proxies.

    1. A client invents such a field, and sends an unsafe request. 2. The groups of its own origin would be
    invalidated, and those that everybody else reads would not.
    """
    origins = dict.fromkeys((origin_of(target, fields), origin_of(target, ())))
    return tuple(tag_key(tag_of_group(group, origin)) for group in groups for origin in origins)


def tag_of_url(target: Target, fields: Fields, route: CacheRoute | None = None) -> str:
    """The tag of all that QUERY requests of one URL have stored, whatever their bodies, and of all its entries whose
    names a change cannot tell: see `CacheRequest.is_one_of_many`. `route`: on which they were stored.
    """
    query = target.query if route is None else selected(target.query, route)
    return tag_key(f"query:{origin_of(target, fields)} {target.root}{target.path}?{query}")


def tag_of_path(path: str) -> str:
    """The tag of all responses of one path with No-Vary-Search, whatever their query, on all hosts: what an unsafe
    request or an operator names as one URL may be stored under any of its queries. `path`: as in a URL; what is
    escaped in it is unescaped once.
    """
    return tag_key(f"search:{unquote_to_bytes(path.encode('latin-1', 'replace')).decode('latin-1')}")


def tags_of_urls(
    targets: Iterable[Target], fields: Fields, routes: Iterable[CacheRoute] = ()
) -> tuple[str, ...]:
    """Of the URLs that an unsafe request has changed. As for groups, its fields of proxies cannot hide them."""
    found: dict[str, None] = {}
    for target in targets:
        path = target.path.encode("latin-1")
        found[tag_of_path(target.path)] = None
        for route in (None, *(route for route in routes if route.matches(path))):
            for told in (fields, ()):
                found[tag_of_url(target, told, route)] = None
    return tuple(found)
