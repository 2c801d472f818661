"""The guard in memory of a test covers every guard of the application, and leaves their servers alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import fastapi
import pytest

from stampede_guard import StampedeGuard
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FakeClock, FaultyStore, assert_single_flight, default_guard_in_memory
from tests.support.inside import store_of
from tests.support.sessions import patient
from tests.testing.test_plugin import PLUGIN, pytest_run

NOBODY = "redis://127.0.0.1:1/0"


def application(url: str, namespace: str) -> fastapi.FastAPI:
    """An application factory with a guard of its own."""
    app = fastapi.FastAPI()
    guard = StampedeGuard.from_url(url, namespace=namespace)
    guard.install(app)

    @app.get("/quality")
    @guard.locked_cache(ttl=300, name="every.quality")
    async def quality(project: int) -> int:
        await asyncio.sleep(0)
        return project

    return app


@pytest.mark.parametrize("made_within", [False, True])
async def test_a_guard_of_a_url_is_covered_whenever_it_is_made(made_within: bool) -> None:
    """No server listens at this URL, so eight workers without the cover would each compute."""
    early = None if made_within else application(NOBODY, "early")
    clock = FakeClock()
    with default_guard_in_memory(clock):
        app = early or application(NOBODY, "late")
        assert (await assert_single_flight(app, "/quality?project=7")).computations == 1
        clock.advance(301)
        assert (await assert_single_flight(app, "/quality?project=7", callers=5)).workers == 5


async def test_the_server_of_a_guard_keeps_its_values_and_gets_none(valkey_url: str, namespace: str) -> None:
    guard = StampedeGuard.from_url(patient(valkey_url), namespace=namespace)
    twin = StampedeGuard.from_url(patient(valkey_url), namespace=namespace)
    computed: list[str] = []

    async def report(text: str) -> str:
        async def compute() -> str:
            computed.append(text)
            return text

        return await guard.get_or_compute("report", compute, ttl=300)

    assert await report("stored") == "stored"
    with default_guard_in_memory(FakeClock()) as memory:
        assert await report("in the test") == "in the test", "the memory store is empty at first"
        # Guards of one server share a store there, too.
        assert await twin.invalidate("report") == "done"
        assert await report("again") == "again"
        assert memory.policy.strict
    assert await report("afterwards") == "stored"
    assert computed == ["stored", "in the test", "again"]
    await guard.aclose()
    await twin.aclose()


def test_a_store_that_a_test_made_itself_stays() -> None:
    mine = FaultyStore()
    early = StampedeGuard(mine)
    in_memory = StampedeGuard.from_url("memory://")
    before = store_of(in_memory)
    clock = FakeClock()
    timed = MemoryStore(clock=clock)
    with default_guard_in_memory(clock):
        assert store_of(early) is mine
        assert store_of(StampedeGuard(timed)) is timed
        assert store_of(in_memory) is not before
    assert store_of(in_memory) is before


async def test_a_mode_of_the_environment_does_not_keep_a_guard_from_caching(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_MODE", "off")
    app = application(NOBODY, "modes")
    with default_guard_in_memory(FakeClock()):
        assert (await assert_single_flight(app, "/quality?project=7")).computations == 1
    with pytest.raises(AssertionError, match="was computed 50 times"):
        await assert_single_flight(app, "/quality?project=7")


SHOP = """
import asyncio
from stampede_guard import StampedeGuard, locked_cache

guard = StampedeGuard.from_url("redis://127.0.0.1:1/0")

@guard.locked_cache(ttl=300)
async def quality(project: int) -> int:
    await asyncio.sleep(0)
    if project < 0:
        raise LookupError("no such project")
    return project
"""

FAILING = """
from shop import quality

def test_fine(stampede_guard_memory, assert_single_flight):
    assert_single_flight(quality, args=(7,), callers=5)

def test_twice(stampede_guard_memory, assert_single_flight):
    quality.set_mode("off")
    assert_single_flight(quality, args=(7,), callers=5)

def test_error(stampede_guard_memory, assert_single_flight):
    quality.set_mode(None)
    assert_single_flight(quality, args=(-7,), callers=5)
"""


def test_a_failure_shows_no_error_and_no_frame_of_the_kit(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "test_shop.py").write_text(FAILING)
    done = pytest_run(tmp_path, *PLUGIN)
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert "quality was computed 5 times for 5 callers in 5 workers" in done.stdout
    assert "5 of 5 callers in 5 workers got an error, the first of them LookupError" in done.stdout
    assert "no such project" in done.stdout, "the user's own error is shown as the cause"
    assert "During handling of the above exception" not in done.stdout
    assert "no running event loop" not in done.stdout
    assert "stampede_guard/testing" not in done.stdout and "stampede_guard/options.py" not in done.stdout
