"""A herd of real processes: they import the function, meet at the store, and report."""

from __future__ import annotations

import importlib
import textwrap
import types
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stampede_guard import ComputeFailed, Misuse, StampedeGuard
from stampede_guard.errors import StampedeError
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import assert_single_flight, herd

Write = Callable[[str], types.ModuleType]

HEAD = """
import asyncio, os
from stampede_guard import StampedeGuard
guard = StampedeGuard.from_url({url!r}, namespace={namespace!r})
"""


@pytest.fixture
def written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valkey_url: str, namespace: str
) -> Iterator[Write]:
    """A module of a user's, with a guard on the server, which other processes can import."""
    name = f"fleet_{uuid.uuid4().hex}"
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str) -> types.ModuleType:
        head = HEAD.format(url=valkey_url, namespace=namespace)
        (tmp_path / f"{name}.py").write_text(head + textwrap.dedent(text), "utf-8")
        return importlib.import_module(name)

    yield write


async def test_processes_compute_once_between_them(written: Write) -> None:
    module = written("""
        @guard.locked_cache(ttl=300)
        async def quality(project: int, *, since: str = "") -> dict:
            await asyncio.sleep(0.2)
            print("what it prints is no part of the report")
            return {"project": project, "since": since, "by": os.getpid()}
    """)
    asked: Any = {"args": (7,), "kwargs": {"since": "monday"}, "processes": True}
    result = await herd(module.quality, **asked, callers=10, workers=3)
    assert (result.computations, result.callers, result.workers) == (1, 10, 3)
    assert result.errors == () and len(result.waited) == 10
    values = {tuple(value.items()) for value in result.values}
    assert len(values) == 1
    assert result.values[0]["project"] == 7 and result.values[0]["since"] == "monday"
    assert (await herd(module.quality, **asked, callers=2, workers=2)).computations == 0


async def test_a_function_that_is_not_protected_is_seen_to_compute_in_every_process(written: Write) -> None:
    module = written("""
        @guard.locked_cache(ttl=300, mode="bypass")
        def quality(project: int) -> int:
            return os.getpid()
    """)
    with pytest.raises(AssertionError, match=r"was computed [2-9] times for 2 callers in 2 workers"):
        await assert_single_flight(module.quality, args=(7,), callers=2, workers=2, processes=True)


async def test_errors_come_back_as_themselves_where_they_can(written: Write) -> None:
    module = written("""
        class Unpicklable(Exception):
            def __init__(self, one, two):
                super().__init__("of two parts")

        @guard.locked_cache(ttl=300, mode="bypass")
        async def quality(project: int) -> int:
            raise LookupError(f"no project {project}") if project else Unpicklable(1, 2)
    """)
    result = await herd(module.quality, args=(7,), callers=1, workers=1, processes=True)
    assert [repr(error) for error in result.errors] == ["LookupError('no project 7')"]
    result = await herd(module.quality, args=(0,), callers=1, workers=1, processes=True)
    assert isinstance(result.errors[0], ComputeFailed)
    assert str(result.errors[0]) == "Unpicklable: of two parts"


async def test_a_process_that_cannot_begin_says_why(written: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    module = written("""
        if "FLEET_IN_MEMORY" in os.environ:
            guard = StampedeGuard.from_url("memory://")
        if "FLEET_DIES" in os.environ:
            os._exit(3)

        @guard.locked_cache(ttl=300)
        async def quality() -> int:
            return 1
    """)
    with monkeypatch.context() as patched, pytest.raises(StampedeError, match="its guard is in memory"):
        patched.setenv("FLEET_IN_MEMORY", "1")
        await herd(module.quality, callers=2, workers=2, processes=True)
    monkeypatch.setenv("FLEET_DIES", "1")
    with pytest.raises(StampedeError, match="ended with status 3"):
        await herd(module.quality, callers=2, workers=2, processes=True)


async def test_processes_that_never_answer_are_killed(written: Write) -> None:
    module = written("""
        @guard.locked_cache(ttl=300)
        async def quality() -> int:
            import time
            time.sleep(600)
            return 1
    """)
    with pytest.raises(TimeoutError, match="were not done after 3 s"):
        await herd(module.quality, callers=2, workers=2, processes=True, timeout=3)


async def test_what_processes_cannot_do_is_refused_with_what_to_write(
    written: Write, valkey_url: str
) -> None:
    module = written("""
        async def bare() -> int:
            return 1

        @guard.locked_cache(ttl=300)
        async def quality(project: object) -> int:
            return 1
    """)
    guard = StampedeGuard(MemoryStore())

    @guard.locked_cache(ttl=300)
    async def local() -> int:
        return 1

    async def refused(says: str, fn: Any, **kwargs: Any) -> None:
        with pytest.raises(Misuse, match=says):
            await herd(fn, callers=2, workers=2, processes=True, **kwargs)

    await refused("define it at the top level of a module that can be imported", local)
    await refused("and bare is not one", module.bare)
    await refused("args and kwargs must be picklable", module.quality, args=(lambda: 1,))
    module.quality.set_mode.__self__._guard = guard
    await refused("needs a store that processes share", module.quality, args=(7,))
