"""Garbage collections of a test run: what earlier tests have left is not walked through again and again."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.heap import Heap, collect


@pytest.fixture
def heap() -> Iterator[Callable[[float], Heap]]:
    with ExitStack() as around:

        def made(long: float) -> Heap:
            heap = Heap(long=long)
            around.callback(heap.close)
            return heap

        yield made


def test_after_a_long_collection_what_is_there_is_frozen(heap: Callable[[float], Heap]) -> None:
    ours = heap(-1.0)  # any collection is long
    kept: list[list[int]] = [[] for _ in range(100_000)]
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() <= before, "not within a test"
    ours.settle()
    assert gc.get_freeze_count() - before >= len(kept)


def test_short_collections_freeze_nothing(heap: Callable[[float], Heap]) -> None:
    ours = heap(math.inf)
    before = gc.get_freeze_count()
    gc.collect()
    ours.settle()
    assert gc.get_freeze_count() <= before


class Ring:
    def __init__(self) -> None:
        self.itself = self


def test_what_is_dropped_is_gone_also_if_another_thread_collects_at_the_moment() -> None:
    within, go_on = threading.Event(), threading.Event()

    def collects() -> None:
        def held(phase: str, info: dict[str, Any]) -> None:
            if threading.current_thread() is thread:
                within.set()
                go_on.wait()

        gc.callbacks.append(held)
        gc.collect()
        gc.callbacks.remove(held)

    dropped = weakref.ref(Ring())
    thread = threading.Thread(target=collects)
    thread.start()
    try:
        within.wait()
        assert gc.collect() == 0 and dropped() is not None, (
            "Python collects nothing while another thread does"
        )
        collect(go_on.set)
        assert dropped() is None
    finally:
        go_on.set()
        thread.join()


def test_what_earlier_tests_left_is_collected_before_a_test_looks_at_its_log(
    request: pytest.FixtureRequest,
) -> None:
    """Else its report, such as an exception that nobody retrieved, would be in the log of a test that made none."""
    left = weakref.ref(Ring())
    request.getfixturevalue("caplog")
    assert left() is None
