"""A memory guard that replaces the default one."""

from __future__ import annotations

import contextlib
import os
import unittest.mock
from collections.abc import Iterator

from stampede_guard.api import defaults
from stampede_guard.api.environment import policy_variables
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.engine.modes.modes import MODE_VARIABLE
from stampede_guard.policy import Policy
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing.clock import FakeClock

__all__ = ["default_guard_in_memory"]


@contextlib.contextmanager
def default_guard_in_memory(clock: FakeClock) -> Iterator[StampedeGuard]:
    """Strict. Ignores the environment's modes and policy: a test with this guard wants to see it cache."""
    before = defaults._default
    with unittest.mock.patch.dict(os.environ):
        policy = set(policy_variables().values())
        for variable in [name for name in os.environ if name.startswith(MODE_VARIABLE) or name in policy]:
            del os.environ[variable]
        # A test must see that its results are not cached.
        guard = StampedeGuard(MemoryStore(clock=clock), namespace="test", policy=Policy(strict=True))
    defaults.configure(guard)
    try:
        yield guard
    finally:
        defaults.configure(before)
        guard.close()
