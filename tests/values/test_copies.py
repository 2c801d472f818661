"""Values for several callers of one body: equal, and none of them within reach of another caller."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard import StampedeGuard, locked_cache
from stampede_guard.engine.plan import Plan
from stampede_guard.errors import Undecodable
from stampede_guard.policy import Policy
from stampede_guard.values.codec import codec_for
from stampede_guard.values.codec.copies import Copies, copier
from stampede_guard.values.codec.likeness import difference
from tests.support.sessions import patient

CODEC = codec_for(Any)

leaves = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.decimals(allow_nan=False)
hashable = st.recursive(leaves, lambda inner: st.lists(inner).map(tuple) | st.frozensets(inner), max_leaves=5)
trees = st.recursive(
    hashable | st.sets(hashable),
    lambda inner: st.lists(inner) | st.dictionaries(hashable, inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@dataclasses.dataclass
class Open:
    number: int


def changeable(value: Any) -> Iterator[int]:
    """The identities of everything in a value that can be changed."""
    if isinstance(value, dict):
        yield id(value)
        for item in value.values():
            yield from changeable(item)
    elif isinstance(value, list | set):
        yield id(value)
        for item in value:
            yield from changeable(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from changeable(item)


@given(trees)
def test_every_caller_gets_an_equal_value_and_shares_nothing_that_can_be_changed(value: Any) -> None:
    copies = Copies(CODEC.decode, CODEC.encode(value), trees=True)
    given_out = [copies.another() for _ in range(6)]
    assert all(one == value and type(one) is type(value) for one in given_out)
    assert all(difference(given_out[0], one) is None for one in given_out), "also the types inside"
    found = [identity for one in given_out for identity in changeable(one)]
    assert len(found) == len(set(found))


def test_a_caller_that_changes_its_value_changes_nobody_elses() -> None:
    copies = Copies(CODEC.decode, CODEC.encode({"rows": [{"n": 1}, {"n": 2}]}), trees=True)
    for _ in range(8):
        value = copies.another()
        assert value == {"rows": [{"n": 1}, {"n": 2}]}
        value["rows"][0]["n"] = "changed"
        value["rows"].append("more")
        value["new"] = True


@pytest.mark.parametrize(
    "value",
    [Open(1), [Open(1)], {"a": {"b": Open(1)}}, ([],), OrderedDict(a=1), bytearray(b"x"), {"a": [iter([])]}],
)
def test_what_only_decoding_separates_is_decoded(value: Any) -> None:
    assert copier(value) is None


def test_values_nested_deeper_than_it_is_worth_are_decoded() -> None:
    value: list[Any] = []
    for _ in range(100):
        value = [value]
    copies = Copies(CODEC.decode, CODEC.encode(value), trees=True)
    assert [copies.another() for _ in range(5)] == [value] * 5
    assert copies.copy is None


def test_bytes_that_may_hold_one_object_twice_are_decoded_for_everybody() -> None:
    codec = codec_for(Any, pickle=True)
    inner: list[int] = []
    plan = Plan("title", Policy(), codec)
    copies = plan.copies(codec.encode([inner, inner]))
    for _ in range(6):
        first, second = copies.another()
        assert first is second
    assert copies.copy is None


def test_undecodable_bytes_are_undecodable_for_everybody() -> None:
    copies = Copies(CODEC.decode, b"\xc1", trees=True)
    for _ in range(5):
        with pytest.raises(Undecodable):
            copies.another()


async def test_many_callers_of_one_moment_each_have_a_value_of_their_own(
    valkey_url: str, namespace: str
) -> None:
    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as guard:

        @locked_cache(guard=guard, ttl=60)
        async def rows(number: int) -> list[dict[str, Any]]:
            return [{"number": number, "labels": ["a"]}]

        for _ in range(3):  # passengers of one flight, then callers of one reading
            answers = await asyncio.gather(*[rows(7) for _ in range(20)])
            assert answers == [[{"number": 7, "labels": ["a"]}]] * 20
            found = [identity for answer in answers for identity in changeable(answer)]
            assert len(found) == len(set(found)) == 60
            answers[0][0]["labels"].append("changed")


async def test_no_value_is_kept_for_copying_after_its_moment(valkey_url: str, namespace: str) -> None:
    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as guard:
        plan = Plan("title", Policy(), CODEC)

        async def compute() -> list[int]:
            return [1]

        await guard.engine.serve(plan, guard.prefix + "=k", compute)
        await asyncio.gather(*[guard.engine.serve(plan, guard.prefix + "=k", compute) for _ in range(20)])
        body = CODEC.encode([1])
        assert [plan.another(body) for _ in range(5)] == [[1]] * 5
        assert plan._copies is not None
        await asyncio.sleep(0)
        assert plan._copies is None


async def test_who_asks_for_one_object_shares_it_with_all_readers_of_a_moment_but_the_first(
    valkey_url: str, namespace: str
) -> None:
    guard = StampedeGuard.from_url(patient(valkey_url), namespace=namespace)

    @guard.locked_cache(ttl=60, share=True)
    async def shared(name: str) -> dict[str, int]:
        return {"a": 1}

    @guard.locked_cache(ttl=60)
    async def copied(name: str) -> dict[str, int]:
        return {"a": 1}

    for function, objects in ((shared, 2), (copied, 8)):
        await function("x")
        values = await asyncio.gather(*[function("x") for _ in range(8)])
        assert values == [{"a": 1}] * 8
        assert len({id(value) for value in values}) == objects
    await guard.aclose()
