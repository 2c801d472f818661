"""The functions that run for a call stay few. Each one more costs every caller, whatever the machine."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard import StampedeGuard
from tests.support.counted import counted
from tests.support.gate import until

OF_A_MISS = 258
OF_ONE_MORE_IN_A_HERD = 22
OF_ONE_MORE_ID_OF_A_BATCH = 11
"""Raise these only for a reason. `OF_ONE_MORE_IN_A_HERD` is paid by each of the fifty callers of a burst."""
HERD = 20
ROUNDS = 60
"""Of a guard; the shortest counts. In the first ones, the connection of renewals may still be opening. On a busy
machine, answers that come together elsewhere come one by one, and each calls functions of its own."""


@pytest.fixture(autouse=True)
def no_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    """A miss looks at the routes of installed applications. Those of other tests may still be alive."""
    monkeypatch.setattr("stampede_guard.api.apps.routes._apps", [])


async def _functions_of_a_herd(url: str, namespace: str, callers: int) -> list[str]:
    async with StampedeGuard.from_url(url, namespace=namespace) as guard:

        @guard.locked_cache(ttl=600)
        async def load(number: int) -> int:
            return number

        await load(0)
        flights = guard.engine.runtime().flights
        await until(lambda: not flights)
        rounds = []
        for number in range(1, 1 + ROUNDS):
            with counted() as calls:
                await asyncio.gather(*[load(number) for _ in range(callers)])
                await until(lambda: not flights)
            rounds.append(calls)
    return min(rounds, key=len)


async def test_a_miss_calls_few_functions(valkey_url: str, namespace: str) -> None:
    calls = await _functions_of_a_herd(valkey_url, namespace, 1)
    assert 50 < len(calls) <= OF_A_MISS, (len(calls), sorted(calls))


async def test_one_more_caller_of_a_herd_costs_few_functions_and_no_timer(
    valkey_url: str, namespace: str
) -> None:
    one = await _functions_of_a_herd(valkey_url, f"{namespace}1", 1)
    many = await _functions_of_a_herd(valkey_url, f"{namespace}2", 1 + HERD)
    more = (len(many) - len(one)) / HERD
    assert 5 < more <= OF_ONE_MORE_IN_A_HERD, (more, sorted(many))
    assert many.count("Passengers._set_timer") == 1


async def _functions_of_a_batch(url: str, namespace: str, ids: int) -> list[str]:
    async with StampedeGuard.from_url(url, namespace=namespace) as guard:

        @guard.cached_many(ttl=600)
        async def load(ids: list[int]) -> dict[int, int]:
            return {id: id for id in ids}

        await load(list(range(ids)))
        flights = guard.engine.runtime().flights
        await until(lambda: not flights)
        await load([0])  # a server answers in order: what it still had to say about the flights has come, too
        rounds = []
        for _ in range(ROUNDS):
            with counted() as calls:
                found = await load(list(range(ids)))
            assert len(found) == ids
            rounds.append(calls)
    return min(rounds, key=len)


async def test_one_more_id_of_a_batch_that_is_found_costs_few_functions(
    valkey_url: str, namespace: str
) -> None:
    one = await _functions_of_a_batch(valkey_url, f"{namespace}1", 1)
    many = await _functions_of_a_batch(valkey_url, f"{namespace}2", 1 + HERD)
    more = (len(many) - len(one)) / HERD
    assert 3 < more <= OF_ONE_MORE_ID_OF_A_BATCH, (more, sorted(many))
