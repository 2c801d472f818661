"""The tenants of a guard. A tenant's guard has its own namespace, and the outer guard's connections, modes and limits.

An application may have many tenants that come and go, so each costs a small object and no connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from stampede_guard.api.environment import NAMESPACE
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.errors import Misuse
from stampede_guard.values.forks import renew_in_children

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["MOST_TENANTS", "Tenants"]

MOST_TENANTS = 1024
"""Tenants that a guard remembers. It forgets the oldest first, and makes it again when a caller asks for it."""
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,40}")


class Tenants:
    """The guards of one guard's tenants."""

    def __init__(self) -> None:
        self._made: dict[str, StampedeGuard] = {}
        self._lock = PassableLock()
        renew_in_children(self, "_lock", PassableLock)

    def __len__(self) -> int:
        return len(self._made)

    def get(self, outer: str, tenant: str, make: Callable[[str], StampedeGuard]) -> StampedeGuard:
        """The guard of a tenant. `outer`: the namespace around it. Raises `Misuse` if the name is not allowed."""
        known = self._made.get(tenant)
        if known is not None:
            return known
        given: object = tenant
        if not isinstance(given, str) or not _TENANT.fullmatch(tenant):
            raise Misuse(
                f"tenant={tenant!r} is not allowed: write 1 to 40 letters, digits, dots, - or _, without colons"
            )
        namespace = f"{outer}:{tenant}"
        if not NAMESPACE.fullmatch(namespace):
            raise Misuse(
                f"the namespace {namespace!r} is too long: it has at most 64 characters, with the tenant's name"
            )
        made = make(namespace)
        with self._lock:
            if len(self._made) >= MOST_TENANTS:
                self._made.pop(next(iter(self._made)), None)
            return self._made.setdefault(tenant, made)

    def clear(self) -> None:
        self._made.clear()
