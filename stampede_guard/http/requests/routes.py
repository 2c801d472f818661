"""CacheRoute: caching for endpoints that send no caching fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from stampede_guard.durations import Duration, advice, seconds
from stampede_guard.errors import Misuse
from stampede_guard.http.requests.paths import compiled, is_ambiguous, wrong_pattern
from stampede_guard.http.spec.directives import Directives
from stampede_guard.http.spec.fields import token
from stampede_guard.http.spec.storing import NEVER_STORED
from stampede_guard.http.users.naming import PrivateTo, header_of, wrong_naming
from stampede_guard.options import options_of

__all__ = ["CacheRoute", "Scope"]

Scope = MutableMapping[str, Any]
ClientDirectives = Literal["obey", "ignore"]

_METHODS = frozenset({"GET", "HEAD", "POST", "QUERY"})
_LONGEST = 366 * 86_400.0


@options_of("CacheRoute", own=("ttl", "stale_ttl", "key", "statuses", "cookies"))
@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRoute:
    """Cache responses for paths like `pattern` for `ttl` seconds, unless the response's own fields decide.

    In `pattern`, `*` at the end matches the rest of the path, elsewhere one segment. `stale_ttl`: further seconds for
    which a stale response is served while one request refreshes it, or if the refresh fails. `vary`: request
    fields that the response depends on, in addition to its Vary. `query`: "sorted" by name (the order has no
    meaning), "verbatim", "ignore", or a tuple of the names that count. `cookies="ignore"`: requests with a Cookie
    are served like all others. By default, they follow the response's own fields, like those with credentials.
    `key` returns one more part of the key, from the ASGI scope, as a text. If it returns None, the route does not
    apply to this request; the same if it raises, which the log reports once. With "QUERY" or "POST" in `methods`,
    such a request is treated like a GET: its body and Content-Type are part of the key, and `key` finds the body
    in `scope["body"]`. Such a POST invalidates nothing, and only time invalidates what it stored. Only responses
    of status 200, 203, 204, 300, 301 and 308 are stored, and those of `statuses`, such as (404, 410).
    `client_directives`: a client's `no-cache`, `no-store` and the like are obeyed here ("obey") or not ("ignore");
    None = as the middleware. `private_to` names the user: "header:X-User-Id", "cookie:session" or a function
    of the ASGI scope. Then a user's responses are stored for that user only, also with `private` (RFC 9111, 5.2.2.7)
    and for requests with credentials. It must name what the application itself trusts. `key_cookies`: cookies whose
    values are part of the key, such as ("lang",). A request with these only is no request with credentials.

    Raises `Misuse` for an invalid pattern or combination.
    """

    pattern: str = field(kw_only=False)
    ttl: float
    stale_ttl: float = 0.0
    vary: tuple[str, ...] = ()
    key: Callable[[Scope], str | None] | None = None
    methods: tuple[str, ...] = ("GET", "HEAD")
    cookies: Literal["ignore", "bypass"] = "bypass"
    query: Literal["sorted", "verbatim", "ignore"] | tuple[str, ...] = "sorted"
    statuses: tuple[int, ...] = ()
    client_directives: ClientDirectives | None = None
    private_to: PrivateTo | None = None
    key_cookies: tuple[str, ...] = ()
    _match: re.Pattern[bytes] = field(init=False, repr=False, compare=False)
    names: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    """`vary`, as bytes in lower case."""
    cookie_names: frozenset[bytes] = field(init=False, repr=False, compare=False)

    if TYPE_CHECKING:
        # More types may be given than are read.
        def __init__(
            self,
            pattern: str,
            *,
            ttl: Duration,
            stale_ttl: Duration = 0.0,
            vary: tuple[str, ...] = (),
            key: Callable[[Scope], str | None] | None = None,
            methods: tuple[str, ...] = ("GET", "HEAD"),
            cookies: Literal["ignore", "bypass"] = "bypass",
            query: Literal["sorted", "verbatim", "ignore"] | tuple[str, ...] = "sorted",
            statuses: tuple[int, ...] = (),
            client_directives: ClientDirectives | None = None,
            private_to: PrivateTo | None = None,
            key_cookies: tuple[str, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        # Unchecked: a caller without a type checker may have passed anything.
        given: dict[str, Any] = {
            name: getattr(self, name) for name in ("pattern", "vary", "methods", "query", "key", "statuses")
        }
        pattern, vary, methods, query, key, statuses = given.values()
        if (rule := wrong_pattern(pattern)) is not None:
            raise self._wrong("pattern", rule)
        for name, least in (("ttl", 0.001), ("stale_ttl", 0.0)):
            given = getattr(self, name)
            value = seconds(given)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not least <= value <= _LONGEST
            ):
                rule = f"it must be a number of seconds between {least:g} and a year"
                raise self._wrong(name, rule + advice(given))
            object.__setattr__(self, name, value)
        if isinstance(vary, str) or not all(
            isinstance(name, str) and name != "*" and token(name.encode("ascii", "replace")) for name in vary
        ):
            raise self._wrong(
                "vary", "write a tuple of names of request fields, such as ('accept-language',)"
            )
        if self.cookies not in ("ignore", "bypass"):
            raise self._wrong("cookies", 'it must be "ignore" or "bypass"')
        if self.cookies == "ignore" and "cookie" in map(str.lower, self.vary):
            raise self._wrong("vary", 'cookies="ignore" says the opposite')
        if isinstance(methods, str) or not methods or not set(methods) <= _METHODS:
            raise self._wrong(
                "methods", "GET, HEAD, POST and QUERY are what can be cached, in a tuple of text"
            )
        if key is not None and (not callable(key) or inspect.iscoroutinefunction(key)):
            raise self._wrong("key", "it must be a plain function of the ASGI scope that returns a text")
        self._check_users()
        if self.client_directives not in (None, "obey", "ignore"):
            raise self._wrong("client_directives", 'it must be "obey", "ignore" or None')
        if not isinstance(statuses, tuple) or not all(
            isinstance(one, int)
            and not isinstance(one, bool)
            and 200 <= one <= 599
            and one not in NEVER_STORED
            for one in statuses
        ):
            never = ", ".join(map(str, sorted(NEVER_STORED)))
            raise self._wrong(
                "statuses", f"write a tuple of status codes, such as (404, 410); {never} are never stored"
            )
        if isinstance(query, str):
            if query not in ("sorted", "verbatim", "ignore"):
                raise self._wrong("query", 'it must be "sorted", "verbatim", "ignore" or a tuple of names')
        elif not all(isinstance(name, str) for name in query):
            raise self._wrong("query", "the names of parameters are text")
        object.__setattr__(self, "cookie_names", frozenset(name.encode() for name in self.key_cookies))
        object.__setattr__(self, "_match", compiled((self.pattern,)))
        object.__setattr__(self, "names", tuple(sorted(name.lower().encode() for name in self.vary)))

    def _check_users(self) -> None:
        if (rule := wrong_naming(self.private_to)) is not None:
            raise self._wrong("private_to", rule)
        if self.cookies == "ignore" and header_of(self.private_to) == b"cookie":
            raise self._wrong("private_to", 'cookies="ignore" says the opposite')
        cookies: Any = self.key_cookies
        if not isinstance(cookies, tuple) or not all(
            isinstance(name, str) and token(name.encode("ascii", "replace")) for name in cookies
        ):
            raise self._wrong("key_cookies", "write a tuple of names of cookies, such as ('lang',)")

    def _wrong(self, name: str, rule: str) -> Misuse:
        return Misuse(f"CacheRoute({self.pattern!r}): {name}={getattr(self, name)!r} is not allowed: {rule}")

    def matches(self, path: bytes) -> bool:
        """For a raw path. A path that another server might read as another path matches nothing."""
        return self._match.fullmatch(path) is not None and not is_ambiguous(path)

    @property
    def directives(self) -> Directives:
        """The directives that this route adds for an endpoint without its own."""
        seconds = {b"s-maxage": b"%d" % max(1, round(self.ttl))}
        if self.stale_ttl:
            seconds |= dict.fromkeys(
                (b"stale-while-revalidate", b"stale-if-error"), b"%d" % max(1, round(self.stale_ttl))
            )
        return Directives(seconds)
