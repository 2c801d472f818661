"""Equal keys mean equal arguments, whatever they are made of."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import types
import uuid
import zoneinfo
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy
import pydantic
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stampede_guard.errors import KeyPartError
from stampede_guard.values.arguments.captured import Copying
from stampede_guard.values.keys import KeyBuilder


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    RED = 1


class Name(enum.StrEnum):
    RED = "1"


class Pair(NamedTuple):
    x: Any
    y: Any


class OtherPair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


@dataclasses.dataclass
class ListPoint(list[Any]):
    x: Any
    y: Any


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: Any
    y: Any


class Struct(msgspec.Struct, dict=True):
    x: Any
    y: Any


class Plain:
    def __init__(self, x: Any, y: Any) -> None:
        self.x = x
        self.y = y


class OwnText(str):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def __str__(self) -> str:
        return "same"

    __repr__ = __str__


ZONES = [None, datetime.UTC, zoneinfo.ZoneInfo("UTC"), zoneinfo.ZoneInfo("Europe/Paris"),
         datetime.timezone(datetime.timedelta(hours=1)),
         datetime.timezone(datetime.timedelta(hours=1), "CET")]  # fmt: skip
NUMBERS = [0, 1, True, False, 0.0, -0.0, 1.0, float("nan"), float("inf"), decimal.Decimal(1), decimal.Decimal("1.0"),
           decimal.Decimal("-0"), Fraction(1), 1 + 0j, complex(0.0, -0.0), numpy.int64(1), numpy.int32(1),
           numpy.float64(1),
           numpy.bool_(True), Level.RED, Colour.RED, 10**30, -(10**30)]  # fmt: skip
TEXTS = ["", "1", "True", "None", "a", "A", "\u00e9", "e\u0301", "x" * 60, "x,y", "x=1", "'", "list(1)", "~0",
         Name.RED,
         OwnText("a"), OwnText("b"), numpy.str_("a"), b"a", b"1", bytearray(b"a")]  # fmt: skip
scalars = st.one_of(
    st.none(),
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.integers(-3, 3),
    st.text(max_size=3),
    st.sampled_from(
        [uuid.UUID(int=1), uuid.UUID(int=2), datetime.date(2024, 1, 1), datetime.timedelta(1), range(3)]
    ),
    st.builds(
        lambda zone, fold, hour: datetime.datetime(2024, 10, 27, hour, tzinfo=zone, fold=fold),
        st.sampled_from(ZONES),
        st.sampled_from([0, 1]),
        st.sampled_from([0, 2]),
    ),
)
keys = st.sampled_from(["a", "b", "x", "1", 1, 2.5, None, ("a",)])


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=3)
    pairs = st.tuples(inner, inner)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(collections.deque),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3).map(collections.OrderedDict),
        st.builds(
            lambda factory, content: collections.defaultdict(factory, content),
            st.sampled_from([None, int, list]),
            st.dictionaries(keys, inner, max_size=2),
        ),
        st.frozensets(keys, max_size=3),
        st.frozensets(keys, max_size=3).map(set),
        st.builds(lambda x: types.SimpleNamespace(x=x), inner),
        pairs.map(lambda pair: [*pair]),
        st.builds(
            lambda kind, pair, more: made(kind, pair, more),
            st.sampled_from([Pair, OtherPair, Point, ListPoint, Model, Struct, Plain]),
            pairs,
            st.dictionaries(st.sampled_from(["x", "later", "z"]), inner, max_size=1),
        ),
    )


def made(kind: Any, pair: tuple[Any, Any], more: dict[str, Any]) -> Any:
    names = ("a", "b") if kind is OtherPair else ("x", "y")
    value = kind(**dict(zip(names, pair, strict=True)))
    if kind not in (Pair, OtherPair):
        for name, item in more.items():
            setattr(value, name, item)
    if kind is ListPoint:
        value.extend(pair[:1])
    return value


arguments = st.recursive(scalars, wider, max_leaves=6)


def shape(value: Any) -> Any:
    """All that anybody could tell two values apart by: never their own opinion."""
    kind = type(value)
    if isinstance(value, enum.Enum):
        return kind, value.name
    if isinstance(value, str):
        return kind, str.encode(value, "utf-8", "surrogatepass")
    if isinstance(value, datetime.datetime):
        zone = value.tzinfo
        return kind, value.isoformat(), value.fold, type(zone), str(zone)
    own: Any = sorted((name, shape(item)) for name, item in _attributes(value).items())
    if isinstance(value, dict):
        items = [(shape(key), shape(item)) for key, item in value.items()]
        ordered = items if isinstance(value, collections.OrderedDict) else sorted(items, key=repr)
        return kind, repr(ordered), repr(getattr(value, "default_factory", None)), repr(own)
    if isinstance(value, set | frozenset):
        return kind, repr(sorted(map(shape, value), key=repr))
    if isinstance(value, list | tuple | collections.deque):
        return kind, repr([shape(item) for item in value]), repr(own)
    return kind, repr(own) if own else repr(value)


def _attributes(value: Any) -> dict[str, Any]:
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__} | vars(value)
    if isinstance(value, pydantic.BaseModel):
        return vars(value) | (value.__pydantic_extra__ or {})
    return dict(getattr(value, "__dict__", {}))


async def anything(*args: Any, **kwargs: Any) -> None: ...


BUILD = KeyBuilder(anything).build


def key_of(args: list[Any], kwargs: dict[str, Any]) -> str | None:
    try:
        return BUILD(tuple(args), kwargs)
    except KeyPartError:
        return None


calls = st.tuples(
    st.lists(arguments, max_size=2), st.dictionaries(st.sampled_from(["p", "q"]), arguments, max_size=2)
)


@settings(max_examples=400, deadline=None)
@given(calls, calls)
@example(([Pair(1, 2)], {}), ([OtherPair(1, 2)], {}))
@example(([True], {}), ([1], {}))
@example(([0.0], {}), ([-0.0], {}))
@example(([made(ListPoint, (1, 2), {})], {}), ([made(ListPoint, (1, 2), {"later": 1})], {}))
def test_equal_keys_mean_equal_arguments(
    one: tuple[list[Any], dict[str, Any]], other: tuple[list[Any], dict[str, Any]]
) -> None:
    keys = key_of(*one), key_of(*other)
    if keys[0] is not None and keys[0] == keys[1]:
        assert shape(one) == shape(other)


@settings(max_examples=400, deadline=None)
@given(arguments, st.data())
def test_two_arguments_that_differ_in_one_place_have_two_keys(value: Any, data: st.DataObject) -> None:
    leaf = data.draw(scalars)
    for around in (
        lambda item: [item],
        lambda item: {"a": item},
        lambda item: Point(1, item),
        lambda item: made(Model, (1, 2), {"later": item}),
        lambda item: made(Struct, (1, 2), {"later": item}),
        lambda item: made(ListPoint, (1, 2), {"later": item}),
        lambda item: Plain(item, 1),
        lambda item: types.SimpleNamespace(x=item),
    ):
        one, other = key_of([around(value)], {}), key_of([around(leaf)], {})
        assert one is None or (one == other) == (shape(value) == shape(leaf))


@settings(max_examples=300, deadline=None)
@given(arguments)
def test_a_copy_has_the_key_of_what_was_copied(value: Any) -> None:
    key = key_of([value], {})
    if key is not None:
        copying = Copying()
        assert key_of([copying.of(value)], {}) == key
        assert not copying.live
