"""What a caller changes in a collection of its own class reaches neither the computation nor other callers."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.values.arguments.captured import Copying
from stampede_guard.values.errorcopies import data_copy_of
from stampede_guard.values.parts.parts import text_of
from tests.support.gate import Gate, soon


class Query(NamedTuple):
    table: str
    ids: Any


class OwnTuple(tuple[Any, ...]):
    pass


class OwnList(list[Any]):
    pass


class OwnSet(set[Any]):
    pass


class OwnFrozenSet(frozenset[Any]):
    pass


class OwnDeque(collections.deque[Any]):
    pass


class OwnDict(dict[Any, Any]):
    pass


class OwnOrdered(collections.OrderedDict[Any, Any]):
    pass


class OwnDefault(collections.defaultdict[Any, Any]):
    pass


@dataclasses.dataclass
class Labelled(tuple[Any, ...]):
    label: Any = None

    def __new__(cls, items: Any, label: Any = None) -> Any:
        return super().__new__(cls, items)

    def __init__(self, items: Any, label: Any = None) -> None:
        self.label = label


@dataclasses.dataclass
class Box:
    held: Any


class Hashed:
    """May be in a set, although it can be changed."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and self.items == other.items


MAKERS: dict[str, Callable[[list[int]], Any]] = {
    "named tuple": lambda mine: Query("t", mine),
    "tuple": lambda mine: OwnTuple([1, mine]),
    "tuple with a field": lambda mine: Labelled([mine], "a"),
    "field of a tuple": lambda mine: Labelled([1], mine),
    "list": lambda mine: OwnList([mine]),
    "set": lambda mine: OwnSet([Hashed(mine), 2]),
    "frozenset": lambda mine: OwnFrozenSet([Hashed(mine), 2]),
    "deque": lambda mine: OwnDeque([mine, 2], maxlen=3),
    "dict": lambda mine: OwnDict(k=mine),
    "key of a dict": lambda mine: OwnDict({Hashed(mine): 1, "b": 2}),
    "ordered dict": lambda mine: OwnOrdered({"b": mine, "a": 1}),
    "key of an ordered dict": lambda mine: OwnOrdered({Hashed(mine): 1, "a": 2}),
    "defaultdict": lambda mine: OwnDefault(list, k=mine),
    "in a list": lambda mine: [Query("t", mine)],
    "in another": lambda mine: OwnTuple([OwnDeque([OwnSet([Hashed(mine)])])]),
    "in a record": lambda mine: Box(Query("t", mine)),
}

OBJECTS = ("set", "frozenset", "in another", "key of a dict", "key of an ordered dict")
PLAIN = {name: make for name, make in MAKERS.items() if name not in OBJECTS}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_copy_of_an_argument_shares_nothing_mutable_and_is_equal(make: Callable[[list[int]], Any]) -> None:
    mine, copying = [1], Copying()
    value = make(mine)
    before, copied = text_of(value), copying.of(value)
    assert type(copied) is type(value) and text_of(copied) == before and not copying.live
    if isinstance(value, collections.deque):
        assert copied.maxlen == value.maxlen
    if isinstance(value, dict):
        assert [*copied] == [*value] and [*reversed(copied)] == [*reversed(value)]
    mine.append(2)
    assert text_of(value) != before == text_of(copied)


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_a_copy_of_a_value_that_is_not_stored_shares_nothing_either(make: Callable[[list[int]], Any]) -> None:
    mine = [1]
    value = make(mine)
    before, copied = text_of(value), data_copy_of(value)
    assert type(copied) is type(value) and text_of(copied) == before
    mine.append(2)
    assert text_of(value) != before == text_of(copied)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
async def test_a_computation_sees_the_arguments_of_its_key(make: Callable[[list[int]], Any]) -> None:
    gate = Gate()
    async with StampedeGuard.from_url("memory://", namespace="copies") as guard:

        @guard.locked_cache(ttl=60)
        async def seen(query: Any) -> str:
            await gate.hold()
            return text_of(query)

        mine = [1]
        value = make(mine)
        expected = text_of(value)
        call = asyncio.create_task(seen(value))
        await gate.arrival()
        mine.append(2)
        gate.open()
        assert await soon(call) == expected
        assert await soon(seen(make([1]))) == expected
