"""What `settings.CACHES` says about a cache of ours, and its guard. One guard and one client per process and cache."""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from redis import BlockingConnectionPool, SSLConnection, UnixDomainSocketConnection

from stampede_guard.api.environment import with_environment
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.durations import advice, seconds
from stampede_guard.errors import Misuse
from stampede_guard.integrations.django.client import Client
from stampede_guard.integrations.django.values import Serializer
from stampede_guard.options import refuse_others
from stampede_guard.policy import Limits, Policy

__all__ = [
    "FILLED",
    "LEASED",
    "LIST",
    "PAGE",
    "CacheSettings",
    "Shared",
    "all_shared",
    "shared",
    "timeout_in_seconds",
]

PAGE = "views.decorators.cache.cache_page."
LIST = "views.decorators.cache.cache_header."
FILLED = (PAGE, LIST, "template.cache.")
"""How keys begin that Django sets only after it has missed them."""
LEASED = (*FILLED, "django.contrib.sessions.cached_db")
"""How keys begin that Django gets, computes and sets: `OPTIONS["lease_on_miss"]`."""
_SCHEMES = ("redis://", "rediss://", "unix://", "valkey://", "valkeys://")
_PATIENCE = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}
_DRIVERS = (SSLConnection, UnixDomainSocketConnection, BlockingConnectionPool)
"""The classes whose parameters are options of a connection."""
_DEFAULTS: Any = {"wait_timeout": 20.0}
"""Most servers give a request 30 s."""


class CacheSettings(NamedTuple):
    """The options of one cache, checked."""

    url: str
    namespace: str
    policy: Policy
    limits: Limits
    leased: tuple[str, ...]
    stats: bool | None
    options: dict[str, Any]

    @classmethod
    def of(cls, server: Any, options: Mapping[str, Any]) -> CacheSettings:
        """Raises `ImproperlyConfigured`."""
        rest = dict(options)
        url = server if isinstance(server, str) else "".join(server[:1]) if len(server) == 1 else ""
        if not url.startswith(_SCHEMES) or "," in url or ";" in url:
            raise ImproperlyConfigured(
                f"LOCATION of the cache is one URL that begins with {', '.join(_SCHEMES)}. For clusters and sentinels, "
                "use guard.locked_cache; in tests without a server, Django's LocMemCache"
            )
        if secret := {"username", "password"} & rest.keys():
            raise ImproperlyConfigured(
                f"write the {' and the '.join(sorted(secret))} into LOCATION: the guard connects, too"
            )
        url = url.replace("valkey", "redis", 1) if url.startswith("valkey") else url
        namespace = rest.pop("namespace", None) or os.environ.get("STAMPEDE_GUARD_NAMESPACE") or "default"
        leased = tuple(rest.pop("lease_on_miss", LEASED))
        stats = rest.pop("stats", None)
        serializer = rest.pop("serializer", None)
        if serializer != "pickle":  # Django's own, which is its default
            rest["serializer"] = Serializer if serializer is None else serializer
        _refuse_unknown(rest)
        chosen: Any = dict(rest.pop("policy", {}))
        bounds: Any = dict(rest.pop("limits", {}))
        try:
            policy = with_environment(Policy().replace(**chosen))
            for name in _DEFAULTS.keys() - policy.given:
                policy = policy.replace(**{name: _DEFAULTS[name]})
            refuse_others('OPTIONS["limits"]', bounds, Limits.__dataclass_fields__)
            limits = Limits(**bounds)
        except Misuse as error:
            raise ImproperlyConfigured(f"policy and limits in OPTIONS of the cache: {error}") from error
        return cls(url, namespace, policy, limits, leased, stats, _PATIENCE | rest)


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    """redis-py refuses an unknown option at the first connection only. Raises `ImproperlyConfigured`."""
    if "pool_class" in options:
        return  # a class of the user's own may take more
    ours = (
        "namespace",
        "serializer",
        "policy",
        "limits",
        "lease_on_miss",
        "stats",
        "pool_class",
        "parser_class",
    )
    theirs = {
        name for kind in _DRIVERS for base in kind.__mro__ for name in inspect.signature(base).parameters
    }
    try:
        refuse_others("OPTIONS of the cache", options, ours, also=theirs - {"self", "args", "kwargs"})
    except Misuse as error:
        raise ImproperlyConfigured(f"{error}, and what redis-py takes") from error


def timeout_in_seconds(params: Mapping[str, Any]) -> dict[str, Any]:
    """`TIMEOUT` in whole seconds. Raises `ImproperlyConfigured` for a text that Django would silently read as 300."""
    found = {}
    for name in params.keys() & {"TIMEOUT", "timeout"}:
        given = params[name]
        value = seconds(given)
        if isinstance(value, str) and not value.strip().isdecimal():
            raise ImproperlyConfigured(f"{name}={given!r} of the cache is not a time{advice(given)}")
        # A timedelta or a text below one second must not become 0, which is "do not store".
        found[name] = value if value is given else math.ceil(value)
    return found


class Shared(NamedTuple):
    """What all objects of one cache share in a process: Django makes one object per thread, or per request."""

    guard: StampedeGuard
    client: Client


_made: dict[str, Shared] = {}


def shared(given: CacheSettings) -> Shared:
    known = json.dumps(
        [given.url, given.namespace, str(given.policy), str(given.limits), given.stats, given.options],
        default=repr,
        sort_keys=True,
    )
    found = _made.get(known)
    if found is None:
        try:
            guard = StampedeGuard.from_url(
                given.url,
                namespace=given.namespace,
                policy=given.policy,
                limits=given.limits,
                stats=given.stats,
            )
        except Misuse as error:
            raise ImproperlyConfigured(f"the cache cannot be made: {error}") from error
        client = Client([given.url], guard=guard, **given.options)
        found = _made.setdefault(known, Shared(guard, client))
    return found


def all_shared() -> list[Shared]:
    return list(_made.copy().values())
