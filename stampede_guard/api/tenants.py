"""A guard for one tenant, within another guard: with its own namespace, and the other guard's connections and modes.

An application may have many tenants that come and go, so each costs a small object and no connection. Flights, limits
and threads belong to the outer guard.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stampede_guard.api.guard import NAMESPACE, StampedeGuard
from stampede_guard.api.plans import Plans
from stampede_guard.engine.loops.event_loops import GUARDS
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.errors import Misuse

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.modes.modes import Modes
    from stampede_guard.engine.plan import Plan, Standing
    from stampede_guard.policy import Mode

__all__ = ["MOST_TENANTS", "TenantGuard", "within"]

MOST_TENANTS = 1024
"""Tenants that a guard remembers. It forgets the oldest first, and makes it again when a caller asks for it."""
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,40}")


class TenantGuard(StampedeGuard):
    """Made by `guard.within(tenant)`. It closes with the outer guard, not by itself."""

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
        # A fork renews all guards in here. Closing a tenant's guard does nothing.
        GUARDS.add(self)

    @property
    def _modes(self) -> Modes:  # type: ignore[override]  # always those of the outer guard
        return self._parent._modes

    @property
    def mode(self) -> Mode | None:
        return self._parent.mode

    @mode.setter
    def mode(self, mode: Mode | None) -> None:
        raise Misuse("a tenant's guard has the mode of its outer guard: set the mode there, or on a function")

    def _settle(self, plan: Plan) -> Standing:
        return self._parent._settle(plan)

    def runtime(self) -> Runtime:
        return self._parent.runtime()

    async def aclose(self) -> None:
        """Does nothing: the connections belong to the outer guard."""

    def close(self) -> None:
        """Does nothing: the connections belong to the outer guard."""


def within(guard: StampedeGuard, tenant: str) -> StampedeGuard:
    """The guard of a tenant. Raises `Misuse` if the name is not allowed."""
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
            f"the namespace {namespace!r} is too long: it has at most 64 characters, with the tenant's name"
        )
    made = TenantGuard(guard, namespace)
    with guard._lock:
        if len(guard._tenants) >= MOST_TENANTS:
            guard._tenants.pop(next(iter(guard._tenants)), None)
        return guard._tenants.setdefault(tenant, made)
