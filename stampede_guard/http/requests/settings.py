"""The checked arguments of a middleware."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from stampede_guard.durations import Duration, advice, seconds
from stampede_guard.errors import Misuse
from stampede_guard.http.requests.paths import wrong_pattern
from stampede_guard.http.requests.requester import ALWAYS, SAFE, is_credential, names_a_user
from stampede_guard.http.requests.routes import CacheRoute, ClientDirectives
from stampede_guard.http.spec.fields import token
from stampede_guard.http.users.naming import PrivateTo, header_of, wrong_naming
from stampede_guard.options import refuse_others

__all__ = ["MiddlewareOptions", "Settings"]

SetCookie = Literal["refuse", "strip", "store"]
_NAME = re.compile(r"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]{0,63}")


class MiddlewareOptions(TypedDict, total=False):
    """Options of `StampedeMiddleware`, as a user gives them."""

    routes: Iterable[CacheRoute]
    exclude: Sequence[str]
    only: Sequence[str] | None
    name: str
    targets: Sequence[str | bytes]
    max_body_bytes: int
    max_pieces_bytes: int
    max_request_bytes: int
    variants: int
    keep: Duration
    cache_status: bool
    x_cache: bool
    expose_key: bool
    add_etag: bool
    strip_groups: bool
    json_bodies: bool
    credential_headers: Sequence[str | bytes] | None
    stale_if_error: Duration
    heuristics: bool
    set_cookie: SetCookie
    client_directives: ClientDirectives
    private_to: PrivateTo | None
    anonymous_only: bool
    stream_timeout: Duration
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """See `StampedeMiddleware` for their meanings."""

    routes: tuple[CacheRoute, ...] = ()
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    name: str = "stampede_guard"
    targets: tuple[bytes, ...] = (b"cdn-cache-control",)
    max_body_bytes: int = 4 * 1024 * 1024
    max_pieces_bytes: int = 0
    max_request_bytes: int = 64 * 1024
    variants: int = 1024
    keep: float = 86_400.0
    cache_status: bool = True
    x_cache: bool = False
    expose_key: bool = False
    add_etag: bool = False
    strip_groups: bool = False
    json_bodies: bool = False
    credential_headers: tuple[bytes, ...] | None = None
    stale_if_error: float = 60.0
    heuristics: bool = False
    set_cookie: SetCookie = "refuse"
    client_directives: ClientDirectives = "obey"
    private_to: PrivateTo | None = None
    anonymous_only: bool = False
    stream_timeout: float = 2.0
    clock: Callable[[], float] = time.time
    user_headers: frozenset[bytes] = field(init=False, repr=False, default=frozenset())
    """Fields that name a user somewhere. They are credentials everywhere."""

    @classmethod
    def of(cls, given: MiddlewareOptions) -> Settings:
        """The settings of a middleware with these options. Raises `Misuse`."""
        refuse_others("StampedeMiddleware", given, ("guard", *MiddlewareOptions.__annotations__))
        options: dict[str, Any] = dict(given)
        if isinstance(options.get("routes"), CacheRoute):
            raise Misuse("routes= takes a list: write routes=[CacheRoute(...)]")
        options["routes"] = tuple(options.get("routes", ()))
        for name in ("exclude", "only"):
            if options.get(name) is not None:
                options[name] = _patterns(name, options[name])
        if "targets" in options:
            options["targets"] = field_names(options["targets"], what="targets")
        names = options.get("credential_headers")
        if names is not None:
            options["credential_headers"] = field_names(names, what="credential_headers")
        return cls(**options)

    def __post_init__(self) -> None:
        for route in self.routes:
            if not isinstance(route, CacheRoute):
                raise Misuse(f"routes= takes CacheRoute objects, not a {type(route).__name__}")
        seen: set[tuple[str, str]] = set()
        for route in self.routes:
            for method in route.methods:
                if (route.pattern, method) in seen:
                    raise Misuse(
                        f"routes: there are two for {method} {route.pattern!r}, and the first would always be taken"
                    )
                seen.add((route.pattern, method))
        if b"cache-control" in self.targets:
            raise Misuse(
                "targets: Cache-Control is what they go before; name fields such as 'cdn-cache-control'"
            )
        if not _NAME.fullmatch(self.name):
            raise Misuse(
                f"name={self.name!r}: Cache-Status takes a token of 1 to 64 characters, such as 'edge'"
            )
        for option, least in (
            ("max_body_bytes", 1), ("max_pieces_bytes", 0), ("max_request_bytes", 0), ("variants", 1),
        ):  # fmt: skip
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise Misuse(f"{option}={value!r}: it must be a whole number of at least {least}")
        if 0 < self.max_pieces_bytes <= self.max_body_bytes:
            raise Misuse(
                f"max_pieces_bytes={self.max_pieces_bytes!r}: it must be 0 (off), or above max_body_bytes "
                f"({self.max_body_bytes}), because smaller bodies are not stored in pieces"
            )
        for option in ("heuristics", "cache_status", "anonymous_only"):
            if not isinstance(given := getattr(self, option), bool):
                raise Misuse(f"{option}={given!r}: it must be True or False")
        if self.set_cookie not in ("refuse", "strip", "store"):
            raise Misuse(f'set_cookie={self.set_cookie!r}: write "refuse" (the default), "strip" or "store"')
        if self.client_directives not in ("obey", "ignore"):
            raise Misuse(f'client_directives={self.client_directives!r}: write "obey" or "ignore"')
        if (rule := wrong_naming(self.private_to)) is not None:
            raise Misuse(f"private_to={self.private_to!r}: {rule}")
        users = (self.private_to, *(route.private_to for route in self.routes))
        if self.anonymous_only and (
            any(users) or any(route.cookies == "ignore" or route.cookie_names for route in self.routes)
        ):
            raise Misuse(
                "anonymous_only=True: private_to=, key_cookies= and cookies='ignore' would never see their requests"
            )
        of_users = (header_of(one) for one in (self.private_to, *(r.private_to for r in self.routes)))
        object.__setattr__(self, "user_headers", frozenset(name for name in of_users if name is not None))
        for option in ("keep", "stale_if_error", "stream_timeout"):
            given = getattr(self, option)
            value = seconds(given)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value <= 366 * 86_400
            ):
                rule = "it must be a number of seconds between 0 and a year"
                raise Misuse(f"{option}={given!r}: {rule}{advice(given)}")
            object.__setattr__(self, option, value)

    @property
    def known_by(self) -> frozenset[bytes]:
        """Fields whose requests `anonymous_only` leaves to the application."""
        return ALWAYS | frozenset(self.credential_headers or ())

    def naming(self, route: CacheRoute | None) -> PrivateTo | None:
        """What names the user on this route, or without one."""
        if route is None or (route.private_to is None and route.cookies != "ignore"):
            return self.private_to
        return route.private_to

    def credentials(self, names: Set[bytes], route: CacheRoute | None = None) -> Set[bytes]:
        """The names of fields that identify the requester, without those that its route distinguishes itself."""
        users = _spelt(names, self.user_headers) if self.user_headers else frozenset()
        if names <= SAFE and self.credential_headers is None and not users:
            return frozenset()
        if self.credential_headers is not None:
            known = _spelt(names, ALWAYS | frozenset(self.credential_headers))
        else:
            usual = {name for name in names - SAFE if is_credential(name)}
            own_key = route is not None and route.key is not None
            known = usual if own_key else usual | {name for name in names - SAFE if names_a_user(name)}
        known = known | users
        if route is not None and known:
            known = known - (set(route.names) - ALWAYS)
            if route.cookies == "ignore":
                known = known - {b"cookie"}
        return known


def _spelt(names: Set[bytes], wanted: Set[bytes]) -> Set[bytes]:
    """Those of the names that are wanted. An application behind CGI or WSGI reads X_Token as X-Token."""
    return {name for name in names if name in wanted or name.replace(b"_", b"-") in wanted}


def _patterns(option: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise Misuse(f"{option}={given!r}: write a tuple of paths, such as ('/admin/*',)")
    found = tuple(given)
    for pattern in found:
        if (rule := wrong_pattern(pattern)) is not None:
            raise Misuse(f"{option}: {pattern!r} is not allowed: {rule}")
    if option == "only" and not found:
        raise Misuse("only=() would leave every request to the application: write None, or a path")
    return found


def field_names(names: object, *, what: str) -> tuple[bytes, ...]:
    """Field names as a user writes them, in lower case and bytes. Raises `Misuse`."""
    if isinstance(names, str | bytes):
        raise Misuse(f"{what}={names!r}: write a tuple of field names, such as ({names!r},)")
    found = []
    with suppress(TypeError):
        for name in names:  # type: ignore[attr-defined]
            raw = name.encode("ascii", "replace") if isinstance(name, str) else name
            if not isinstance(raw, bytes) or not token(raw):
                raise Misuse(f"{what}: {name!r} is not the name of a header field")
            found.append(raw.lower())
        return tuple(found)
    raise Misuse(f"{what}={names!r}: write a tuple of field names")
