"""What is inside a guard, for tests of its bounds and of its end. Only this file names its private attributes.

Prefer what users see: events, `explain`, a second guard. A test comes here to ask whether a dictionary stays bounded,
or whether all that the guard began has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sized
from typing import Any

from stampede_guard import StampedeGuard
from stampede_guard.api import defaults
from stampede_guard.api.keyed.plans import Plans
from stampede_guard.engine.away.pending import PendingInvalidations
from stampede_guard.engine.away.unsettled import Unsettled
from stampede_guard.engine.l1 import L1
from stampede_guard.engine.loops.runtime import Runtime
from stampede_guard.engine.modes.switches import Switches
from stampede_guard.engine.plan import Plan
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.policy import Limits, Policy
from stampede_guard.stores.switch import Switch

__all__ = [
    "apart_of",
    "close_here",
    "closing_of",
    "comparisons_of",
    "definitions_of",
    "fences_of",
    "fleet_sets",
    "forget_plans",
    "functions_of",
    "keep_plans_in",
    "last_used_of",
    "limit",
    "pending_of",
    "plan_of",
    "plans_lock_of",
    "plans_of",
    "policy_of",
    "runtimes_of",
    "shadow_tokens_of",
    "store_of",
    "switches_of",
    "tenants_of",
    "unsettled_of",
    "watch_of",
]


def store_of(guard: StampedeGuard) -> Any:
    return guard.engine._runtimes.store


def runtimes_of(guard: StampedeGuard) -> dict[asyncio.AbstractEventLoop, Runtime]:
    """The open runtimes, by event loop."""
    return guard.engine._runtimes._open


def limit(guard: StampedeGuard, limits: Limits) -> None:
    """As if the guard had been made with these limits."""
    guard.limits = guard.engine._runtimes.limits = limits


def last_used_of(guard: StampedeGuard) -> Runtime | None:
    return guard.engine._runtimes.current


def closing_of(guard: StampedeGuard) -> dict[asyncio.AbstractEventLoop, list[Runtime]]:
    """The runtimes that are closing, by event loop."""
    return guard.engine._runtimes._leaving


async def close_here(guard: StampedeGuard) -> None:
    """Close the runtime of this event loop, and no other."""
    await guard.engine._runtimes.close_here()


def plans_of(guard: StampedeGuard) -> Plans:
    """The plans of `get_or_compute` and `single`."""
    return guard._plans


def plan_of(
    guard: StampedeGuard,
    key: str,
    type: Any = Any,
    *,
    request_bound: bool = False,
    **options: Any,
) -> Plan:
    """The plan of this key for `get_or_compute`, or for `single` if it is bound to a request."""
    return guard._plans.plan(key, type, request_bound, options)


def forget_plans(guard: StampedeGuard) -> None:
    """As when too many others were made."""
    guard._plans._plans.clear()


def keep_plans_in(guard: StampedeGuard, kind: type[dict[Any, Any]]) -> None:
    """Keep them in a dictionary of this kind."""
    guard._plans._plans = kind(guard._plans._plans)


def plans_lock_of(guard: StampedeGuard) -> PassableLock:
    return guard._plans._shared.lock


def tenants_of(guard: StampedeGuard) -> dict[str, StampedeGuard]:
    return guard._tenants._made


def functions_of(guard: StampedeGuard) -> Any:
    """The names that are taken."""
    return guard._functions


def definitions_of(guard: StampedeGuard) -> Iterable[Any]:
    """What is kept of each function."""
    return guard._functions._functions.values()


def unsettled_of(guard: StampedeGuard) -> Unsettled:
    return guard.engine._runtimes._unsettled


def switches_of(guard: StampedeGuard) -> Mapping[str, Switch]:
    """The fleet's switches, as this guard knows them."""
    return guard.engine.modes.resolver.said.fleet


def fleet_sets(guard: StampedeGuard, switches: dict[str, Switch]) -> None:
    """As if the guard had read these switches."""
    guard.engine.modes.resolver.set_fleet(switches)


def watch_of(runtime: Runtime) -> Switches:
    """What reads the switches of this runtime."""
    return runtime._switches


def pending_of(runtime: Runtime) -> PendingInvalidations:
    return runtime._pending


def comparisons_of(runtime: Runtime) -> set[asyncio.Task[None]]:
    """The comparisons of shadow mode that are under way."""
    return runtime.shadow._looks


def shadow_tokens_of(runtime: Runtime) -> Sized:
    """The tokens with which the next computations in shadow mode may be stored."""
    return runtime.shadow._tokens


def fences_of(l1: L1) -> Collection[str]:
    """The entries whose invalidation is remembered beside the copies in this process."""
    return l1._fences


def apart_of(runtime: Runtime) -> Sized:
    """The flights beside the one that others may join."""
    return runtime.flights._apart


def forget_warnings_of_defaults() -> None:
    """The process has not been told that the default guard has no namespace."""
    defaults._told_of_namespace = False


def policy_of(function: Any) -> Policy:
    """The policy of a decorated function."""
    policy: Policy = vars(function.set_mode.__self__)["_plan"].policy
    return policy
