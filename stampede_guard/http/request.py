"""A request as the cache sees it, and what is forwarded to the application in its place."""

from __future__ import annotations

import contextvars
from typing import Any

import msgspec

from stampede_guard.http.choosing import Choice
from stampede_guard.http.entries import Target, target_of
from stampede_guard.http.exchange import as_fields
from stampede_guard.http.routes import CacheRoute, Scope
from stampede_guard.http.spec.directives import Directives
from stampede_guard.http.spec.fields import lines, without
from stampede_guard.http.spec.message import Fields, Request
from stampede_guard.http.spec.ranges import Wanted, requested_range
from stampede_guard.http.spec.reuse import request_directives
from stampede_guard.http.spec.validation import CONDITIONS

__all__ = ["CacheRequest"]

_WITHOUT_US = frozenset(
    {
        "http.response.pathsend",
        "http.response.zerocopysend",
        "http.response.push",
        "http.response.trailers",
        "http.response.early_hint",
    }
)
"""Extensions for sending past the ASGI messages that are stored."""


class CacheRequest(msgspec.Struct, frozen=True):
    """`part`: what belongs to its name beside the URL, on a route. `passed`: why it goes past the route that matches.
    `plain`: without conditions and range, so what is stored answers it as it is. `asked`: what the client says of
    caching; None = nothing. `body`: of a POST that a route answers from what is stored; None for all others, which have
    none."""

    scope: Scope
    method: str
    fields: Fields
    target: Target
    context: contextvars.Context
    route: CacheRoute | None
    part: str
    passed: str | None
    plain: bool
    wanted: Wanted | None
    asked: Directives | None
    has_body: bool
    body: bytes | None = None

    @classmethod
    def of(cls, scope: Scope, choice: Choice, fields: Fields, target: Target) -> CacheRequest:
        # A copy: the leader's own context, as without a cache. What is stored depends on the leader's request anyway.
        names = {name for name, _ in fields}
        plain = scope["method"] in ("GET", "POST") and not names & _NOT_PLAIN
        wanted = requested_range(fields) if b"range" in names else None
        asked = request_directives(fields) if names & _OF_CACHING else None
        has_body = bool(names & _OF_BODIES) and (
            b"transfer-encoding" in names
            or any(length != b"0" for length in lines(fields, b"content-length"))
        )
        context = contextvars.copy_context()
        return cls(scope, scope["method"], fields, target, context, *choice, plain, wanted, asked, has_body)

    @property
    def request(self) -> Request:
        return Request(self.method, self.target.url, self.fields)

    def without_range(self) -> Fields:
        return without(self.fields, (*CONDITIONS, b"range"))

    def forwarded(self, fields: Fields, *, method: str = "GET") -> dict[str, Any]:
        """A scope of its own for the application."""
        scope = dict(self.scope)
        scope["method"] = method
        scope["headers"] = list(fields)
        if "extensions" in scope:
            extensions = scope["extensions"] or {}
            scope["extensions"] = {name: what for name, what in extensions.items() if name not in _WITHOUT_US}
        for shared in ("state", "path_params"):
            if isinstance(scope.get(shared), dict):
                scope[shared] = dict(scope[shared])
        return scope

    @property
    def only_for_itself(self) -> bool:
        """RFC 9111, 5.2.1.5: what a client does not want stored is forwarded past the cache."""
        return self.asked is not None and b"no-store" in self.asked


_NOT_PLAIN = frozenset({*CONDITIONS, b"range"})
_OF_CACHING = frozenset({b"cache-control", b"pragma"})
_OF_BODIES = frozenset({b"transfer-encoding", b"content-length"})


def parsed(scope: Scope) -> tuple[Fields, Target | None]:
    fields = as_fields(scope["headers"])
    return fields, target_of(scope, fields)


def has_two_lengths(fields: Fields) -> bool:
    """What two servers may take for two different requests."""
    return len(lines(fields, b"content-length")) > 1
