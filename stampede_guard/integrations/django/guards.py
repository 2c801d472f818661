"""The guard of a cache of `settings.CACHES`."""

from __future__ import annotations

from django.core.cache import InvalidCacheBackendError, caches
from django.core.exceptions import ImproperlyConfigured

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.integrations.django.cache import GuardedCache
from stampede_guard.options import ALL, takes_options

__all__ = ["guard_of"]


@takes_options("guard_of", own=ALL)
def guard_of(alias: str = "default") -> StampedeGuard:
    """The guard of a cache of `settings.CACHES`. Raises `ImproperlyConfigured` for a cache of another backend."""
    try:
        cache = caches[alias]
    except InvalidCacheBackendError as error:
        raise ImproperlyConfigured(str(error)) from error
    if not isinstance(cache, GuardedCache):
        raise ImproperlyConfigured(
            f"CACHES[{alias!r}] is a {type(cache).__name__}: its BACKEND must be "
            "'stampede_guard.integrations.django.Cache'"
        )
    return cache.guard
