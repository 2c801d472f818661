"""A request as the cache sees it, and what is forwarded to the application in its place."""

from __future__ import annotations

import contextvars
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
from msgspec.structs import replace

from stampede_guard.http.requests.choosing import RouteChoice
from stampede_guard.http.requests.entries import Target, target_of
from stampede_guard.http.requests.exchange import as_fields
from stampede_guard.http.requests.requester import (
    SAFE,
    Requester,
    forwarded_part,
    is_safe_listed,
    overrides_method,
    requester,
    site_part,
)
from stampede_guard.http.requests.routes import CacheRoute, Scope
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.directives import Directives
from stampede_guard.http.spec.fields import lines, without
from stampede_guard.http.spec.message import Fields, Request
from stampede_guard.http.spec.ranges import ByteRange, requested_range
from stampede_guard.http.spec.reuse import request_directives
from stampede_guard.http.spec.validation import CONDITIONS

__all__ = ["CacheRequest"]

_OF_SENDING = frozenset(
    {
        "http.response.pathsend",
        "http.response.zerocopysend",
        "http.response.push",
        "http.response.trailers",
        "http.response.early_hint",
    }
)
"""Extensions for sending to a client outside the ASGI messages that are stored. In the background there is no
client.
"""


class CacheRequest(msgspec.Struct, frozen=True):
    """`part`: what belongs to its name beside the URL, on a route or by its body. `passed`: why the matching route
    does not apply. `plain`: without conditions and range, so a stored response answers it unchanged. `asked`: the
    client's caching directives; None = none, or they are ignored here. `asking`: the fields, without ignored ones.
    `forwarded_for`: the URL that a proxy or a dispatcher was asked for, from fields and scope. `overridden`: it may be
    meant as a request with another method. `body`: of a QUERY, and of a POST that a route answers from the store; None
    for all others. `user`: whose private entries it asks; empty = those of all.
    """

    scope: Scope
    method: str
    fields: Fields
    target: Target
    context: contextvars.Context
    route: CacheRoute | None
    part: str
    passed: str | None
    plain: bool
    wanted: ByteRange | None
    asked: Directives | None
    has_body: bool
    forwarded_for: str = ""
    overridden: bool = False
    asking: Fields = ()
    body: bytes | None = None
    user: str = ""

    @classmethod
    def of(
        cls,
        scope: Scope,
        choice: RouteChoice,
        fields: Fields,
        names: AbstractSet[bytes],
        target: Target,
        *,
        obey: bool = True,
    ) -> CacheRequest:
        """`names`: those of the fields."""
        # A copy: the leader's own context, as without a cache. The stored response depends on the leader's request
        # anyway.
        plain = scope["method"] in ("GET", "POST", "QUERY") and not names & _NOT_PLAIN
        wanted = requested_range(fields) if b"range" in names else None
        asked, asking = None, fields
        if names & _OF_CACHING:
            if choice.route is not None and choice.route.client_directives is not None:
                obey = choice.route.client_directives == "obey"
            if obey:
                asked = request_directives(fields)
            else:
                asking = without(fields, _OF_CACHING)
        has_body = bool(names & _OF_BODIES) and (
            b"transfer-encoding" in names
            or any(length != b"0" for length in lines(fields, b"content-length"))
        )
        ordinary = names <= SAFE
        context = contextvars.copy_context()
        return cls(
            scope,
            scope["method"],
            fields,
            target,
            context,
            *choice[:3],
            plain,
            wanted,
            asked,
            has_body,
            (
                target.place(
                    "" if ordinary else forwarded_part(names, fields, scheme=target.scheme, host=target.host)
                )
                if target.root or target.rewritten or not ordinary
                else ""
            ),
            not ordinary and overrides_method(names),
            asking,
            user=choice.user or "",
        )

    @property
    def request(self) -> Request:
        return Request(self.method, self.target.url, self.asking)

    @property
    def requester(self) -> Requester:
        """Identifies the requester, as far as its fields show."""
        return requester(self.scope, self.fields)

    @property
    def is_one_of_many(self) -> bool:
        """Whether its URL has entries whose names a change cannot tell: of other bodies, users, cookies or keys of a
        route, or of other ways on which a request came.
        """
        route = self.route
        if self.user or self.method == "QUERY" or (route is not None and route.cookie_names):
            return True
        if self.method == "POST":
            # Only time ends what a route for POST has stored.
            return False
        if route is not None and route.key is not None:
            return True
        return self.forwarded_for != "" and self.forwarded_for != self.site

    @property
    def site(self) -> str:
        """The part of its key that a change shares, whatever its own path or proxy: see `forwarded_for`."""
        names = {name for name, _ in self.fields}
        told = site_part(names, self.fields, scheme=self.target.scheme, host=self.target.host)
        return f"{self.target.mount}{told}"

    @property
    def is_searchable(self) -> bool:
        """Whether No-Vary-Search may concern it. The query of a route is the operator's decision, unless it counts
        verbatim."""
        return self.method in ("GET", "HEAD") and (self.route is None or self.route.query == "verbatim")

    def for_body(self) -> CacheRequest:
        """A HEAD as a GET: what a HEAD returns cannot replace a body."""
        return (
            replace(self, method="GET", scope={**self.scope, "method": "GET"})
            if self.method == "HEAD"
            else self
        )

    def without_range(self) -> Fields:
        return without(self.fields, (*CONDITIONS, b"range"))

    def with_fields(self, fields: Fields) -> dict[str, Any]:
        """The scope with these fields in place of the request's."""
        return {**self.scope, "headers": list(fields)}

    def in_background(self, fields: Fields) -> dict[str, Any]:
        """A scope for a call that outlives the request, without the request's own objects."""
        scope = self.with_fields(fields)
        if "extensions" in scope:
            extensions = scope["extensions"] or {}
            scope["extensions"] = {name: what for name, what in extensions.items() if name not in _OF_SENDING}
        for shared in ("state", "path_params"):
            if isinstance(scope.get(shared), dict):
                scope[shared] = dict(scope[shared])
        return scope

    def may_have(self, stored: StoredResponse) -> bool:
        """False if it was not declared to be for all, and this request has distinguishing fields."""
        return not stored.guessed or is_safe_listed(self.fields)

    @property
    def only_for_itself(self) -> bool:
        """RFC 9111, 5.2.1.5: if a client does not want it stored, the request bypasses the cache."""
        return self.asked is not None and b"no-store" in self.asked


_NOT_PLAIN = frozenset({*CONDITIONS, b"range"})
_OF_CACHING = frozenset({b"cache-control", b"pragma"})
_OF_BODIES = frozenset({b"transfer-encoding", b"content-length"})


def parsed(scope: Scope) -> tuple[Fields, AbstractSet[bytes], Target | None]:
    """The fields, their names, and the target. No target: the request is not for a cache. That is also so with two
    lengths, because two servers may read two different requests in it.
    """
    fields = as_fields(scope["headers"])
    names = {name for name, _ in fields}
    if b"content-length" in names and len(lines(fields, b"content-length")) > 1:
        return fields, names, None
    return fields, names, target_of(scope, fields)
