"""The cache and the origin of the test cases in one application, for a server to run."""

from __future__ import annotations

from typing import Any

from stampede_guard import StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from tests.http.suite.cases import load
from tests.http.suite.origin import Origin


def make() -> Any:
    return StampedeMiddleware(
        Origin(load().all), guard=StampedeGuard.from_url("memory://", namespace="suite")
    )
