from __future__ import annotations

from typing import Any

import pytest

from stampede_guard import Misuse, StampedeGuard
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FaultyStore, on_store
from tests.support.inside import store_of


async def test_a_guard_uses_another_store_within_the_block_and_its_own_after_it() -> None:
    own = MemoryStore()
    guard = StampedeGuard(own, namespace="test")

    @guard.locked_cache(ttl=300)
    async def quality(project: int) -> int:
        return project

    await quality(7)
    here = guard.engine.runtime()
    with on_store(guard, FaultyStore()) as store:
        await quality(8)
        assert guard.engine.runtime() is not here
        assert len(store.memory) == 1
        store.fail()
        assert await quality(9) == 9
    assert not store.memory._subscribers
    assert guard.engine.runtime() is here
    assert len(own) == 1
    await guard.aclose()


async def test_it_is_put_back_after_an_error() -> None:
    guard = StampedeGuard(own := MemoryStore())
    with pytest.raises(LookupError), on_store(guard, MemoryStore()):
        raise LookupError
    assert store_of(guard) is own


@pytest.mark.parametrize(
    ("guard", "store", "says"),
    [
        (None, MemoryStore(), "takes a StampedeGuard and a store, not a NoneType"),
        (StampedeGuard(MemoryStore()), "memory://", r"takes a store, for example FaultyStore\(\), not a str"),
    ],
)
def test_what_is_no_guard_and_no_store_is_refused(guard: Any, store: Any, says: str) -> None:
    with pytest.raises(Misuse, match=says), on_store(guard, store):
        pass
