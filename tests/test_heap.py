"""Garbage collections of a test run: what earlier tests have left is not walked through again and again."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.heap import Heap


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
