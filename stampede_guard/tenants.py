"""A guard for one tenant, within another guard: a namespace of its own, and the other's connections and modes.

Tenants are many and come and go, so each costs a small object and no connection. Flights, limits and threads are those
of the guard that they are within.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stampede_guard.errors import Misuse
from stampede_guard.guard import NAMESPACE, StampedeGuard
from stampede_guard.locks import PassableLock
from stampede_guard.parted import GUARDS
from stampede_guard.plans import Plans

if TYPE_CHECKING:
    from stampede_guard.modes import Modes
    from stampede_guard.plan import Plan, Standing
    from stampede_guard.policy import Mode
    from stampede_guard.runtime import Runtime

__all__ = ["MOST_TENANTS", "TenantGuard", "within"]

MOST_TENANTS = 1024
"""Remembered per guard; the oldest goes first, and is made anew when it is asked for again."""
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,40}")


class TenantGuard(StampedeGuard):
    """Made by `guard.within(tenant)`. Closed with the guard that it is within, not by itself."""

    def __init__(self, parent: StampedeGuard, namespace: str) -> None:
        self._parent = parent
        self._store = parent._store
        self._hooks = parent._hooks
        self._health = parent._health
        self._runtimes = parent._runtimes
        self._current = None
        self._lock = PassableLock()
        self.namespace = namespace
        self.prefix = f"{namespace}:"
        self.policy = parent.policy
        self._plans = Plans(namespace, parent.policy, parent._plans)
        self._functions = parent._functions
        self._tenants = {}
        # To be told of a fork. To be closed with the others does nothing.
        GUARDS.add(self)

    @property
    def _modes(self) -> Modes:  # type: ignore[override]  # those of the guard that it is within, always
        return self._parent._modes

    @property
    def mode(self) -> Mode | None:
        return self._parent.mode

    @mode.setter
    def mode(self, mode: Mode | None) -> None:
        raise Misuse(
            "tenants have the mode of the guard that they are within: set it there, or on a function"
        )

    def _settle(self, plan: Plan) -> Standing:
        return self._parent._settle(plan)

    def runtime(self) -> Runtime:
        return self._parent.runtime()

    async def aclose(self) -> None:
        """Nothing: the connections are not a tenant's."""

    def close(self) -> None:
        """Nothing: the connections are not a tenant's."""


def within(guard: StampedeGuard, tenant: str) -> StampedeGuard:
    """Raises `Misuse` for a name that cannot be a tenant's."""
    known = guard._tenants.get(tenant)
    if known is not None:
        return known
    given: object = tenant
    if not isinstance(given, str) or not _TENANT.fullmatch(tenant):
        raise Misuse(
            f"tenant={tenant!r} is not allowed: write 1 to 40 letters, digits, dots, - or _, without colons"
        )
    namespace = f"{guard.namespace}:{tenant}"
    if not NAMESPACE.fullmatch(namespace):
        raise Misuse(
            f"the namespace {namespace!r} would be too long: 64 characters, with the tenant's name, is the most"
        )
    made = TenantGuard(guard, namespace)
    with guard._lock:
        if len(guard._tenants) >= MOST_TENANTS:
            guard._tenants.pop(next(iter(guard._tenants)), None)
        return guard._tenants.setdefault(tenant, made)
