"""One worker computes; everyone else is served.

The public names load on first use, so `stampede_guard.audit` never imports Redis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.api.decorators.many import cached_many
    from stampede_guard.api.decorators.one import locked_cache
    from stampede_guard.api.defaults import configure
    from stampede_guard.api.filllock import fill_lock
    from stampede_guard.api.guard import StampedeGuard
    from stampede_guard.api.results import MISSING, CallInfo, Missing
    from stampede_guard.engine.previous import UNCHANGED, Previous, previous
    from stampede_guard.errors import (
        ComputeFailed,
        ComputeTimeout,
        KeyPartError,
        Misuse,
        Overloaded,
        PolicyError,
        ReentrantCall,
        StampedeError,
        StoreError,
        UnsupportedValue,
        UrlError,
        WaitTimeout,
    )
    from stampede_guard.http.headers import cache_control
    from stampede_guard.http.middleware import StampedeMiddleware
    from stampede_guard.http.operating.listing import stored_urls
    from stampede_guard.http.operating.purging import purge
    from stampede_guard.http.operating.warming import warm
    from stampede_guard.http.requests.routes import CacheRoute
    from stampede_guard.policy import Limits, Policy
    from stampede_guard.values.encryption import Encryption
    from stampede_guard.values.failures import register_failure

__version__ = "0.1.0"

_HOMES = {
    "CacheRoute": "http.requests.routes",
    "CallInfo": "api.results",
    "MISSING": "api.results",
    "Missing": "api.results",
    "ComputeFailed": "errors",
    "ConsoleApp": "ops.console",
    "ComputeTimeout": "errors",
    "Encryption": "values.encryption",
    "KeyPartError": "errors",
    "Limits": "policy",
    "Misuse": "errors",
    "Overloaded": "errors",
    "Policy": "policy",
    "PolicyError": "errors",
    "ReentrantCall": "errors",
    "StampedeError": "errors",
    "StampedeGuard": "api.guard",
    "StampedeMiddleware": "http.middleware",
    "cache_control": "http.headers",
    "StoreError": "errors",
    "UnsupportedValue": "errors",
    "UrlError": "errors",
    "Previous": "engine.previous",
    "UNCHANGED": "engine.previous",
    "WaitTimeout": "errors",
    "cached_many": "api.bare",
    "configure": "api.defaults",
    "fill_lock": "api.filllock",
    "locked_cache": "api.bare",
    "previous": "engine.previous",
    "purge": "http.operating.purging",
    "register_failure": "values.failures",
    "stored_urls": "http.operating.listing",
    "warm": "http.operating.warming",
}

__all__ = [
    "MISSING",
    "UNCHANGED",
    "CacheRoute",
    "CallInfo",
    "ComputeFailed",
    "ComputeTimeout",
    "Encryption",
    "KeyPartError",
    "Limits",
    "Missing",
    "Misuse",
    "Overloaded",
    "Policy",
    "PolicyError",
    "Previous",
    "ReentrantCall",
    "StampedeError",
    "StampedeGuard",
    "StampedeMiddleware",
    "StoreError",
    "UnsupportedValue",
    "UrlError",
    "WaitTimeout",
    "cache_control",
    "cached_many",
    "configure",
    "fill_lock",
    "locked_cache",
    "previous",
    "purge",
    "register_failure",
    "stored_urls",
    "warm",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stampede_guard' has no attribute {name!r}")
    return getattr(importlib.import_module(f"stampede_guard.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
