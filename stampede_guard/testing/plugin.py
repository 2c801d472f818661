"""The pytest plugin: fixtures, and nothing else. No hook, no option, no marker, nothing that happens by itself.

It is loaded at the start of every run of pytest, so nothing of the library is imported before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stampede_guard import StampedeGuard
    from stampede_guard.testing import FakeClock, FaultyStore

__all__ = ["assert_single_flight", "fake_clock", "faulty_store", "stampede_guard_memory"]


@pytest.fixture
def fake_clock() -> FakeClock:
    """The clock of this test's stores: entries expire when it is advanced."""
    from stampede_guard.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def faulty_store(fake_clock: FakeClock) -> FaultyStore:
    """A store in memory that fails when it is told to; on `fake_clock`."""
    from stampede_guard.testing.faulty import FaultyStore

    return FaultyStore(clock=fake_clock)


@pytest.fixture
def stampede_guard_memory(fake_clock: FakeClock) -> Iterator[StampedeGuard]:
    """An empty guard in memory, on `fake_clock`; until the end of the test it is the one of bare `@locked_cache`."""
    from stampede_guard.testing.memory import default_guard_in_memory

    with default_guard_in_memory(fake_clock) as guard:
        yield guard


@pytest.fixture
def assert_single_flight() -> Any:
    """`stampede_guard.testing.assert_single_flight`, to be awaited in an `async def` test and called in a plain one."""
    from stampede_guard.testing.either import in_either_test
    from stampede_guard.testing.singleflight import assert_single_flight

    return in_either_test(assert_single_flight)
