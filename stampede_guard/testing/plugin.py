"""The pytest plugin: fixtures, and nothing else. It has no hooks, options or markers, and runs nothing by itself.

pytest loads it at the start of every run. So it imports the library only when a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from stampede_guard import testing

if TYPE_CHECKING:
    from stampede_guard import StampedeGuard
    from stampede_guard.testing import FakeClock, FaultyStore

__all__ = ["assert_single_flight", "fake_clock", "faulty_store", "stampede_guard_memory"]


@pytest.fixture
def fake_clock() -> FakeClock:
    """The clock of this test's stores: entries expire when the test advances it."""
    return testing.FakeClock()


@pytest.fixture
def faulty_store(fake_clock: FakeClock) -> FaultyStore:
    """A memory store that fails on demand; it uses `fake_clock`."""
    return testing.FaultyStore(clock=fake_clock)


@pytest.fixture
def stampede_guard_memory(fake_clock: FakeClock) -> Iterator[StampedeGuard]:
    """An empty memory guard on `fake_clock`. Until the end of the test, every bare `@locked_cache` uses it."""
    with testing.default_guard_in_memory(fake_clock) as guard:
        yield guard


@pytest.fixture
def assert_single_flight() -> Any:
    """`stampede_guard.testing.assert_single_flight`. An `async def` test awaits it, a plain test calls it."""
    return testing.in_either_test(testing.assert_single_flight)
