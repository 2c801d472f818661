"""`@cached_many` with ids that can be read only once, and with functions that use up what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from stampede_guard import StampedeGuard

MAKERS: dict[str, Callable[[list[int]], Iterable[int]]] = {
    "list": list,
    "generator": lambda ids: (id for id in ids),
    "iterator": iter,
    "map": lambda ids: map(int, ids),
    "keys of a dict": lambda ids: dict.fromkeys(ids).keys(),
    "dict": dict.fromkeys,
    "range": lambda ids: range(ids[0], ids[-1] + 1),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
async def test_a_call_that_is_served_again_has_its_ids_again(make: Callable[[list[int]], Any]) -> None:
    async with StampedeGuard.from_url("memory://", namespace="n") as guard:

        class Api:
            def __init__(self, renewals: int) -> None:
                self.token = self.renewals = renewals

            def __cache_key__(self) -> int:
                return self.token

            @guard.cached_many(ttl=60)
            async def prices(self, ids: Iterable[int]) -> dict[int, int]:
                self.token -= self.token > 0  # a token is renewed during the first calls
                return {id: id * 10 for id in ids}

        assert await Api(0).prices(make([1, 2])) == {1: 10, 2: 20}
        assert await Api(1).prices(make([3, 4])) == {3: 30, 4: 40}
        assert await Api(100).prices(make([5, 6])) == {5: 50, 6: 60}
        assert await Api(1).prices.refresh(make([7, 8])) == {7: 70, 8: 80}
        assert await Api(1).prices(ids=make([9, 10])) == {9: 90, 10: 100}


@pytest.mark.parametrize("mode", ["on", "off", "shadow", "bypass"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
async def test_a_function_may_use_up_the_collection_that_it_gets(
    make: Callable[[list[int]], Any], mode: Any
) -> None:
    async with StampedeGuard.from_url("memory://", namespace="n") as guard:
        guard.mode = mode

        @guard.cached_many(ttl=60)
        async def drained(ids: Any) -> dict[int, int]:
            if isinstance(ids, dict):
                ids = list(ids)
            found = {}
            while ids:
                id = ids.pop()
                found[id] = id * 10
            return found

        assert await drained(make([1, 2])) == {1: 10, 2: 20}
        assert await drained(make([1, 2, 3])) == {1: 10, 2: 20, 3: 30}


@pytest.mark.parametrize("wrong", ["12", b"12", 12])
async def test_what_is_no_collection_of_ids_is_refused(wrong: Any) -> None:
    async with StampedeGuard.from_url("memory://", namespace="n") as guard:

        @guard.cached_many(ttl=60)
        async def prices(ids: Any) -> dict[int, int]:
            return dict.fromkeys(ids, 1)

        with pytest.raises(Exception, match="must be a list of ids"):
            await prices(wrong)
