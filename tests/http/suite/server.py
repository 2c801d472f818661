"""The cache and the origin of the test cases in one application, for a server to run."""

from __future__ import annotations

import os
from typing import Any

from stampede_guard import StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from tests.http.suite.cases import OF_OWN, OPTIONS, OWN, load
from tests.http.suite.origin import Origin

WITH = "HTTP_CACHE_TESTS_OPTIONS"
"""Names one of `OPTIONS`."""


def make() -> Any:
    options = OPTIONS[os.environ.get(WITH, "safe defaults")]
    cases = load()
    if cases.path.samefile(OWN):
        options = options | OF_OWN
    return StampedeMiddleware(
        Origin(cases.all), guard=StampedeGuard.from_url("memory://", namespace="suite"), **options
    )


def origin() -> Any:
    """Without a cache, for one in front of it."""
    return Origin(load().all)
