"""Tables of response fields. Each row states by hand which other clients may have its response.

No code of the library is used here. The rows follow RFC 9111 and docs/guarantees.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

__all__ = ["CONTROL", "KINDS", "MORE", "STATUSES", "Control", "Kind", "More", "Row", "may_be_served", "rows"]

Pairs = tuple[tuple[str, str], ...]
Kind = Literal["anonymous", "cookie", "authorization", "x-api-key", "range", "conditional"]
KINDS: Final[dict[Kind, dict[str, str]]] = {
    "anonymous": {},
    "cookie": {"cookie": "session={who}"},
    "authorization": {"authorization": "Bearer {who}"},
    "x-api-key": {"x-api-key": "{who}"},
    "range": {"range": "bytes=0-3"},
    "conditional": {"if-none-match": '"tag"'},
}
"""The fields of a request. `{who}` is its client."""

Declared = Literal["nobody", "anonymous", "authorization", "all"]
"""For whose responses the application has declared that another client may have them: those to requests without a
credential; also those to Authorization; those to every request.
"""
_CREDENTIALS = ("cookie", "authorization", "x-api-key")


class Control(NamedTuple):
    declared: Declared
    fields: Pairs
    withheld: frozenset[str] = frozenset()
    """Fields that the directives keep from other clients."""


class More(NamedTuple):
    """`forbids`: no other client may have a response with these fields. `withheld`: these do not go to other clients.
    `told_apart`: only requests with the same values of these fields share it. `unsure`: a cache need not share it.
    """

    fields: Pairs
    forbids: bool = False
    withheld: frozenset[str] = frozenset()
    told_apart: tuple[str, ...] = ()
    unsure: bool = False


class Row(NamedTuple):
    control: Control
    more: More
    status: int = 200

    def fields(self, who: str) -> list[tuple[str, str]]:
        pairs = (*self.control.fields, *self.more.fields)
        return [(name, value.replace("{who}", who)) for name, value in pairs]

    @property
    def withheld(self) -> frozenset[str]:
        return self.control.withheld | self.more.withheld


def _control(declared: Declared, *values: str, withheld: Iterable[str] = ()) -> Control:
    return Control(declared, tuple(("cache-control", value) for value in values), frozenset(withheld))


def _other(declared: Declared, **fields: str) -> Control:
    return Control(declared, tuple((name.replace("_", "-"), value) for name, value in fields.items()))


FUTURE, PAST = "Tue, 14 Nov 2023 22:14:20 GMT", "Wed, 01 Jan 2020 00:00:00 GMT"
"""A minute after the clock of the tests, and long before it."""
MINE = (("x-mine", "{who}"),)

CONTROL: Final = (
    _control("nobody"),
    _control("anonymous", "max-age=60"),
    _control("anonymous", "Max-Age=60, immutable, no-transform, unknown=1"),
    _control("anonymous", "max-age=60", "stale-while-revalidate=60"),
    _control("all", "public, max-age=60"),
    _control("all", "PUBLIC", "max-age=60"),
    _control("all", "s-maxage=60"),
    _control("all", "max-age=0, s-maxage=60"),
    _control("authorization", "max-age=60, must-revalidate"),
    _control("anonymous", "max-age=60, proxy-revalidate"),
    _control("anonymous", "must-understand, no-store, max-age=60"),
    _control("nobody", "must-understand, no-store, private, max-age=60"),
    _control("nobody", "private"),
    _control("nobody", "private, max-age=60"),
    _control("nobody", "Private, s-maxage=60"),
    _control("nobody", "public, private, max-age=60"),
    _control("nobody", "max-age=60", "private"),
    _control("nobody", "max-age=60; private"),
    _control("nobody", "private;, max-age=60"),
    _control("nobody", 'private="x-other, public, max-age=60'),
    _control("nobody", "no-store"),
    _control("nobody", "no-store, max-age=60, public"),
    _control("nobody", "public, s-maxage=60", "NO-STORE"),
    _control("nobody", "no-cache, public, max-age=60"),
    _control("nobody", "no-cache"),
    _control("nobody", "public"),
    _control("nobody", "max-age=0"),
    _control("nobody", "public, max-age=60, max-age=0"),
    _control("nobody", "public, max-age=60, s-maxage=0"),
    _control("nobody", "public, max-age=abc"),
    _control("nobody", "public, max-age=-1"),
    _control("nobody", "public, max-age=1.5"),
    _control("nobody", "max-age=, public"),
    _control("nobody", "stale-while-revalidate=60"),
    Control("anonymous", (("cache-control", 'max-age=60, private="x-mine"'), *MINE), frozenset({"x-mine"})),
    Control(
        "all", (("cache-control", 'public, max-age=60, no-cache="X-Mine"'), *MINE), frozenset({"x-mine"})
    ),
    Control(
        "nobody", (("cache-control", 'max-age=60, private="x-mine"'), ("cache-control", "private"), *MINE)
    ),
    _other("anonymous", expires=FUTURE),
    _other("nobody", expires=PAST),
    _other("nobody", expires="0"),
    _other("nobody", expires="tomorrow"),
    Control("nobody", (("expires", FUTURE), ("expires", PAST))),
    _other("anonymous", cache_control="max-age=60", expires=PAST),
    _other("nobody", cache_control="private", expires=FUTURE),
    _other("nobody", pragma="no-cache"),
    _other("nobody", last_modified=PAST),
    _other("nobody", etag='"tag"', last_modified=PAST),
    _other("anonymous", cdn_cache_control="max-age=60"),
    _other("anonymous", cdn_cache_control="max-age=60", cache_control="private, no-store"),
    _other("all", cdn_cache_control="public, max-age=60", cache_control="no-store"),
    _other("nobody", cdn_cache_control="no-store", cache_control="public, max-age=60"),
    _other("nobody", cdn_cache_control="private", cache_control="public, s-maxage=60"),
    _other("nobody", cdn_cache_control="max-age=0", cache_control="public, max-age=60", expires=FUTURE),
    _other("nobody", cdn_cache_control="max-age=60;;", cache_control="private"),
    _other("nobody", cdn_cache_control="max-age='60'", cache_control="no-store"),
    _other("nobody", surrogate_control="max-age=60"),
    _other("nobody", surrogate_control="max-age=60", cache_control="no-store"),
)


def _more(*fields: tuple[str, str], **options: bool | Iterable[str]) -> More:
    return More(fields, **options)  # type: ignore[arg-type]


def _dropped(*names: str) -> frozenset[str]:
    return frozenset(names)


MORE: Final = (
    More(()),
    # Handed to one client.
    *(
        More(((name, value),), forbids=True)
        for name, value in (
            ("set-cookie", "session={who}"),
            ("Set-Cookie", "lang=en; Path=/"),
            ("set-cookie2", "session={who}"),
            ("authentication-info", 'nextnonce="{who}"'),
            ("clear-site-data", '"cookies"'),
            ("x-csrf-token", "{who}"),
            ("x-auth-token", "{who}"),
            ("set-authorization", "{who}"),
        )
    ),
    More((("connection", "set-cookie"), ("set-cookie", "session={who}")), forbids=True),
    More((("set-cookie", "a={who}"), ("set-cookie", "b={who}")), forbids=True),
    # Of one connection.
    More((("connection", "x-mine"), *MINE), withheld=_dropped("connection", "x-mine")),
    More((("connection", "close, X-Mine"), *MINE), withheld=_dropped("x-mine")),
    More((("keep-alive", "timeout=77"),), withheld=_dropped("keep-alive")),
    More((("proxy-authenticate", 'Digest nonce="{who}"'),), withheld=_dropped("proxy-authenticate")),
    More((("proxy-authentication-info", "{who}"),), withheld=_dropped("proxy-authentication-info")),
    More((("proxy-authorization", "{who}"),), withheld=_dropped("proxy-authorization")),
    More((("proxy-connection", "keep-alive"),), withheld=_dropped("proxy-connection")),
    More((("te", "trailers"),), withheld=_dropped("te")),
    More((("upgrade", "h2c"),), withheld=_dropped("upgrade")),
    More((("trailer", "x-checksum"),), withheld=_dropped("trailer")),
    # Which request it answers.
    More((("vary", "*"),), forbids=True),
    More((("vary", "accept"), ("vary", "*")), forbids=True),
    More((("vary", "accept, a b"),), forbids=True),
    More((("vary", "accept"),), told_apart=("accept",)),
    More((("vary", "Cookie"),), told_apart=("cookie",)),
    More((("vary", "accept, AUTHORIZATION"),), told_apart=("authorization",)),
    More((("vary", "x-api-key"), ("vary", "cookie")), told_apart=("x-api-key", "cookie")),
    More((("vary", "user-agent"),), told_apart=("user-agent",)),
    More((("content-encoding", "gzip"),), told_apart=("accept-encoding",)),
    More((("access-control-allow-origin", "https://a.test"),), told_apart=("origin",)),
    # How old it is.
    More((("age", "10"),)),
    More((("age", "1000"),), forbids=True),
    More((("age", "99999999999999999999"),), forbids=True),
    More((("age", "old"),), unsure=True),
    More((("date", "yesterday"),), unsure=True),
    More((("date", FUTURE),), unsure=True),
    # What a server or a client may read as another response.
    More((("content-length", "5"), ("content-length", "8")), forbids=True),
    More((("content-length", "8, 8"),), forbids=True),
    More((("content-length", "+8"),), forbids=True),
    More((("content-length", "99"),), forbids=True),
    More((("content-length", "3"),), forbids=True),
    More((("content-length", "8"),)),
    More((("transfer-encoding", "chunked"),)),
    # What changes nothing.
    More((("warning", '110 - "stale"'),)),
    More((("link", "</a.css>; rel=preload"),)),
    More((("www-authenticate", 'Basic realm="a"'),)),
    More((("etag", '"tag"'),)),
    More((("pragma", "no-cache"),), unsure=True),
    More((("surrogate-control", "no-store"),), unsure=True),
    More((("content-location", "/other"),)),
    More((("content-range", "bytes 0-7/8"),), unsure=True),
)

STATUSES: Final[dict[int, Literal["any", "public", "never", "part"]]] = {
    **dict.fromkeys((200, 201, 202, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410, 414), "any"),
    **dict.fromkeys((500, 501, 502, 503, 504), "any"),
    **dict.fromkeys((400, 401, 402, 403, 405, 406, 407, 408, 409, 411, 413, 415, 421, 422, 451), "public"),
    **dict.fromkeys((499, 505, 506, 510), "public"),
    **dict.fromkeys((226, 304, 412, 416, 417, 428, 429, 431, 511), "never"),
    206: "part",
}  # type: ignore[dict-item]
"""Which may be shared if they are declared shareable: always, only if declared `public`, or never; or a part."""


def rows() -> list[Row]:
    """Every directive with a few other fields, every field with a few directives, and every status with those."""
    few = [control for control in CONTROL if control.fields in _OFTEN]
    assert len(few) == len(_OFTEN)
    found = [Row(control, more) for control in CONTROL for more in (MORE if control in few else _WITH_ALL)]
    found += [Row(control, MORE[0], status) for control in few for status in STATUSES if status != 200]
    found += [Row(control, more, 206) for control in few for more in _PARTS]
    return found


_OFTEN = [
    (),
    (("cache-control", "max-age=60"),),
    (("cache-control", "public, max-age=60"),),
    (("cache-control", "s-maxage=60"),),
    (("cache-control", "max-age=60, must-revalidate"),),
    (("expires", FUTURE),),
    (("cdn-cache-control", "max-age=60"), ("cache-control", "private, no-store")),
]
_WITH_ALL = [
    more
    for more in MORE
    if not more.fields
    or more.fields[0] in (("etag", '"tag"'), ("set-cookie", "session={who}"), ("vary", "Cookie"))
]
_PARTS = [
    More((("content-range", "bytes 0-7/8"),)),
    More((("content-range", "bytes 5-1/8"),), forbids=True),
    More((("content-range", "bytes 0-7/8"), ("content-range", "bytes 0-3/8")), unsure=True),
    More((("content-range", "{who}"),), forbids=True),
]


def may_be_served(row: Row, made_for: dict[str, str], asker: dict[str, str]) -> bool:
    """Whether a client that sent `asker` may have the response to another client that sent `made_for`."""
    declared, status = row.control.declared, STATUSES[row.status]
    if declared == "nobody" or row.more.forbids or status == "never":
        return False
    if status == "public" and not any("public" in value.lower() for _, value in row.control.fields):
        return False
    if status == "part" and ("content-range" not in dict(row.more.fields) or "range" not in asker):
        return False
    known = [name for name in _CREDENTIALS if name in made_for]
    if known and declared != "all" and not (known == ["authorization"] and declared == "authorization"):
        return False
    return all(made_for.get(name) == asker.get(name) for name in row.more.told_apart)
