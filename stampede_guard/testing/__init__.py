"""Tools for users' tests: herds, a clock, and a store that fails on demand.

Everything is imported on first use, because the pytest plugin loads this package in every run of pytest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.testing.asgi import Response
    from stampede_guard.testing.cleancontext import assert_same_in_clean_context
    from stampede_guard.testing.clock import FakeClock
    from stampede_guard.testing.crowd import Herd
    from stampede_guard.testing.either import in_either_test as in_either_test
    from stampede_guard.testing.faults.faulty import FaultyStore
    from stampede_guard.testing.herds import herd
    from stampede_guard.testing.memory import default_guard_in_memory as default_guard_in_memory
    from stampede_guard.testing.singleflight import assert_single_flight
    from stampede_guard.testing.substitute import on_store

_HOMES = {
    "FakeClock": "clock",
    "FaultyStore": "faults.faulty",
    "Herd": "crowd",
    "Response": "asgi",
    "assert_same_in_clean_context": "cleancontext",
    "assert_single_flight": "singleflight",
    "default_guard_in_memory": "memory",
    "herd": "herds",
    "in_either_test": "either",
    "on_store": "substitute",
}

__all__ = [
    "FakeClock",
    "FaultyStore",
    "Herd",
    "Response",
    "assert_same_in_clean_context",
    "assert_single_flight",
    "herd",
    "on_store",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stampede_guard.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"stampede_guard.testing.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
