"""The cache and the origin of the test cases in one application, for a server to run."""

from __future__ import annotations

import os
from typing import Any

from stampede_guard import StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from tests.http.suite.cases import OF_OWN, OF_SOME, OPTIONS, OWN, load
from tests.http.suite.origin import Origin

WITH = "HTTP_CACHE_TESTS_OPTIONS"
"""Names one of `OPTIONS`."""


def make() -> Any:
    options = OPTIONS[os.environ.get(WITH, "safe defaults")]
    cases = load()
    guard, seen = StampedeGuard.from_url("memory://", namespace="suite"), Origin(cases.all)
    if not cases.path.samefile(OWN):
        return StampedeMiddleware(seen, guard=guard, **options)
    usual = StampedeMiddleware(seen, guard=guard, **options | OF_OWN)
    others = {
        begin: StampedeMiddleware(seen, guard=guard, name=begin, **options | some)
        for begin, some in OF_SOME.items()
    }

    async def app(scope: Any, receive: Any, send: Any) -> None:
        name = scope["path"].split("/")[3] if scope["type"] == "http" else ""
        chosen = next((other for begin, other in others.items() if name.startswith(begin)), usual)
        await chosen(scope, receive, send)

    return app


def origin() -> Any:
    """Without a cache, for one in front of it."""
    return Origin(load().all)
