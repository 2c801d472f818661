"""The pytest plugin: fixtures, and nothing else. It has no hooks, options or markers, and runs nothing by itself.

pytest loads it at the start of every run. So it imports the library only when a test asks for a fixture.
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
    """The clock of this test's stores: entries expire when the test advances it."""
    from stampede_guard.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def faulty_store(fake_clock: FakeClock) -> FaultyStore:
    """A memory store that fails on demand; it uses `fake_clock`."""
    from stampede_guard.testing.faults.faulty import FaultyStore

    return FaultyStore(clock=fake_clock)


@pytest.fixture
def stampede_guard_memory(fake_clock: FakeClock) -> Iterator[StampedeGuard]:
    """An empty memory guard on `fake_clock`. Until the end of the test, every bare `@locked_cache` uses it."""
    from stampede_guard.testing.memory import default_guard_in_memory

    with default_guard_in_memory(fake_clock) as guard:
        yield guard


@pytest.fixture
def assert_single_flight() -> Any:
    """`stampede_guard.testing.assert_single_flight`. An `async def` test awaits it, a plain test calls it."""
    from stampede_guard.testing.either import in_either_test
    from stampede_guard.testing.singleflight import assert_single_flight

    return in_either_test(assert_single_flight)
