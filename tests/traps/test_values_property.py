"""For generated types and values: everybody gets what was computed, and nobody is within reach of another."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stampede_guard import StampedeGuard, UnsupportedValue
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.values.codec import codec_for
from stampede_guard.values.codec.likeness import difference
from tests.support.gate import soon
from tests.support.guards import joined
from tests.support.sessions import patient


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclasses.dataclass
class Record:
    a: Any
    b: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    a: tuple[int, ...]


class Row(NamedTuple):
    a: int
    b: list[str]


class Struct(msgspec.Struct):
    a: int
    b: list[str]


class FrozenStruct(msgspec.Struct, frozen=True):
    a: int
    b: tuple[str, ...] = ()


class Model(pydantic.BaseModel):
    a: int
    b: list[str] = []
    c: dict[str, int | None] = {}


class FrozenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="allow")
    a: int


Typed = tuple[Any, st.SearchStrategy[Any]]
"""An annotation, and values of it."""

ints = st.integers(-(2**70), 2**70)
small = st.integers(-(2**60), 2**60)
texts = st.text(max_size=8)
encodable = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
moments = st.datetimes(timezones=st.none() | st.just(datetime.UTC))

LEAVES: list[Typed] = [
    (int, small),
    (bool, st.booleans()),
    (float, st.floats()),
    (str, encodable),
    (bytes, st.binary(max_size=8)),
    (None, st.none()),
    (datetime.datetime, moments),
    (datetime.date, st.dates()),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (uuid.UUID, st.uuids()),
    (Colour, st.sampled_from(Colour)),
    (Frozen, st.builds(Frozen, small, encodable)),
    (Slots, st.builds(Slots, st.lists(small, max_size=3).map(tuple))),
    (Row, st.builds(Row, small, st.lists(encodable, max_size=2))),
    (Struct, st.builds(Struct, small, st.lists(encodable, max_size=2))),
    (FrozenStruct, st.builds(FrozenStruct, small, st.lists(encodable, max_size=2).map(tuple))),
    (Model, st.builds(Model, a=small, b=st.lists(encodable, max_size=2))),
    (FrozenModel, st.builds(FrozenModel, a=small, more=st.lists(small, max_size=2))),
]
anything = st.recursive(
    st.none() | st.booleans() | ints | st.floats() | texts | st.binary(max_size=4)
    | st.decimals(allow_nan=False) | moments,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | ints, inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(ints, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip
HASHABLE = (int, bool, str, bytes, datetime.date, uuid.UUID, Colour)


def grown(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def lists(one: Typed) -> Typed:
        return list[one[0]], st.lists(one[1], max_size=3)  # type: ignore[valid-type]

    def rows(one: Typed) -> Typed:
        return dict[str, one[0]], st.dictionaries(encodable, one[1], max_size=3)  # type: ignore[valid-type]

    def tuples(one: Typed) -> Typed:
        return tuple[one[0], ...], st.lists(one[1], max_size=3).map(tuple)  # type: ignore[valid-type]

    def optional(one: Typed) -> Typed:
        return one[0] | None if one[0] is not None else None, st.none() | one[1]

    def sets(one: Typed) -> Typed:
        if one[0] not in HASHABLE:
            return lists(one)
        return set[one[0]], st.sets(one[1], max_size=3)  # type: ignore[valid-type]

    return st.sampled_from([lists, rows, tuples, optional, sets]).flatmap(lambda grow: inner.map(grow))


typed = st.recursive(
    st.sampled_from([*LEAVES, (Any, anything), (Record, st.builds(Record, anything, st.lists(small)))]),
    grown,
    max_leaves=4,
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any]:
    annotation, values = draw(typed)
    return annotation, draw(values)


def changeable(value: Any) -> Iterator[int]:
    """The identities of everything in a value that can be changed."""
    if isinstance(value, dict):
        yield id(value)
        for item in [*value.keys(), *value.values()]:
            yield from changeable(item)
    elif isinstance(value, list | set):
        yield id(value)
        for item in value:
            yield from changeable(item)
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from changeable(item)
    elif isinstance(value, Record | Frozen | Slots):
        yield id(value)
        for field in dataclasses.fields(value):
            yield from changeable(getattr(value, field.name))
    elif isinstance(value, Struct):
        yield id(value)
        yield from changeable(value.b)
    elif isinstance(value, pydantic.BaseModel):
        yield id(value)
        for _, item in value:
            yield from changeable(item)


def assert_alike_and_apart(original: Any, values: list[Any]) -> None:
    for value in values:
        assert difference(original, value) is None, difference(original, value)
        assert type(value) is type(original)
        assert difference(values[0], value) is None
    found = [identity for value in values for identity in changeable(value)]
    assert len(found) == len(set(found)), "two callers have one object"


async def everybody(annotation: Any, value: Any, l1_ttl: float) -> list[Any]:
    """What the caller that computed got, its passengers, hits of one moment and one by one, another guard's."""
    store = MemoryStore()
    here = StampedeGuard(store, namespace="property")
    there = StampedeGuard(store, namespace="property")
    go_on = asyncio.Event()

    async def compute() -> Any:
        await go_on.wait()
        return value

    def call(guard: StampedeGuard) -> Any:
        return guard.get_or_compute("k", compute, type=annotation, l1_ttl=l1_ttl)

    try:
        calls = [asyncio.create_task(call(here)) for _ in range(3)]
        shape = "" if annotation is Any else f"#{codec_for(annotation).fingerprint}"
        await joined(here, f"property:=k{shape}", 3)
        go_on.set()
        got = [await soon(one) for one in calls]
        got += await soon(asyncio.gather(*[call(here) for _ in range(5)]))
        got += await soon(asyncio.gather(*[call(there) for _ in range(2)]))
        got += [await soon(call(guard)) for guard in (here, there, here)]
        return got
    finally:
        await here.aclose()
        await there.aclose()


BOUNDED = settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@given(cases(), st.sampled_from([0.0, 30.0]))
@BOUNDED
def test_all_callers_get_equal_values_of_equal_types_and_none_is_anothers(
    case: tuple[Any, Any], l1_ttl: float
) -> None:
    annotation, value = case
    try:
        codec_for(annotation).encode(value)
    except UnsupportedValue:
        return  # said so, and not changed
    assert_alike_and_apart(value, [value, *asyncio.run(everybody(annotation, value, l1_ttl))])


@given(cases())
@settings(BOUNDED, max_examples=300)
def test_bytes_give_back_what_they_were_made_of(case: tuple[Any, Any]) -> None:
    annotation, value = case
    codec = codec_for(annotation)
    try:
        data = codec.encode(value)
    except UnsupportedValue:
        return
    backs = [codec.decode(data) for _ in range(3)]
    assert_alike_and_apart(value, [value, *backs])
    assert codec.encode(backs[0]) == data or difference(codec.decode(codec.encode(backs[0])), value) is None


@given(st.sampled_from(LEAVES).flatmap(lambda one: st.tuples(st.just(one[0]), one[1])))
@BOUNDED
def test_values_of_the_simple_types_are_all_stored(case: tuple[Any, Any]) -> None:
    """Or the tests above would pass with a codec that refuses everything."""
    annotation, value = case
    codec_for(annotation).encode(value)


SEEDS = {
    "records": (list[Record], [Record({"a": (1, [2])}, [1]), Record(None)]),
    "frozen": (dict[str, Frozen], {"a": Frozen(1, "x"), "b": Frozen(2)}),
    "rows": (tuple[Row, ...], (Row(1, ["a"]), Row(2, []))),
    "struct": (Struct, Struct(1, ["a", "b"])),
    "models": (list[Model], [Model(a=1), Model(a=2, b=["x"], c={"y": None})]),
    "extra": (FrozenModel, FrozenModel(a=1, more=[1, 2])),  # type: ignore[call-arg]
    "anything": (Any, {"a": [1, 2.5, None, True, b"x", (1, (2,)), {3}, decimal.Decimal("1.10")], 7: 2**70}),
    "colours": (set[Colour], {Colour.RED, Colour.BLUE}),
    "moments": (list[datetime.datetime], [datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.UTC)]),
    "nothing": (Record | None, None),
}

ELSEWHERE = """
import asyncio, sys
from stampede_guard import StampedeGuard
from stampede_guard.values.codec.likeness import difference
from tests.traps.test_values_property import SEEDS

async def main(url, namespace):
    async def never():
        raise AssertionError("computed anew")
    async with StampedeGuard.from_url(url, namespace=namespace) as guard:
        for name, (annotation, value) in SEEDS.items():
            got = await guard.get_or_compute(name, never, type=annotation)
            found = difference(value, got)
            assert found is None and type(got) is type(value), (name, found, got)
    print("alike", len(SEEDS))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_another_process_gets_equal_values_of_equal_types(valkey_url: str, namespace: str) -> None:
    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as guard:
        for name, (annotation, value) in SEEDS.items():

            async def compute(value: Any = value) -> Any:
                return value

            got = [await guard.get_or_compute(name, compute, type=annotation) for _ in range(2)]
            assert_alike_and_apart(value, [value, *got])

    def elsewhere() -> str:
        script = [sys.executable, "-c", ELSEWHERE, valkey_url, namespace]
        run = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
        return run.stdout + run.stderr

    assert await asyncio.to_thread(elsewhere) == f"alike {len(SEEDS)}\n"


@pytest.mark.parametrize("name", SEEDS)
def test_changing_a_value_in_any_place_changes_no_other(name: str) -> None:
    annotation, value = SEEDS[name]
    values = asyncio.run(everybody(annotation, value, 30.0))
    assert_alike_and_apart(value, [value, *values])
