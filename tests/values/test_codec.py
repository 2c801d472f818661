from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import inspect
import io
import ipaddress
import math
import pathlib
import subprocess
import sys
import typing
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Annotated, Any, ForwardRef, Generic, Literal, NamedTuple, NewType, Optional, TypeVar
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import msgpack
from starlette.background import BackgroundTasks
from starlette.responses import JSONResponse, Response, StreamingResponse
from typing_extensions import TypeAliasType, TypedDict

from stampede_guard.errors import Undecodable, UnsupportedValue
from stampede_guard.values.codec import codec_for, is_immutable, return_annotation
from tests.support.titles import titled

T = TypeVar("T")
UserId = NewType("UserId", int)
PARIS = ZoneInfo("Europe/Paris")
NOON = datetime.datetime(2024, 6, 1, 12, 0, 0, 123456, tzinfo=PARIS)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Animal:
    name: str
    legs: int = 4


@dataclasses.dataclass
class Dog(Animal):
    breed: str = ""


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0


@dataclasses.dataclass
class Event:
    at: datetime.datetime
    payload: Any = None
    tags: tuple[str, ...] = ()


@dataclasses.dataclass(eq=False)
class Incomparable:
    values: list[float]


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass
class Tree:
    value: int
    children: list[Tree] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Noted:
    value: int
    note: Any = dataclasses.field(default=None, compare=False)


class Row(TypedDict):
    category: str
    count: int
    note: typing.NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str


class Struct(msgspec.Struct, frozen=True):
    a: int
    b: str | None = None


class Cat(msgspec.Struct, tag=True):
    name: str


class Bird(msgspec.Struct, tag=True):
    name: str


class Quality(pydantic.BaseModel):
    project: int
    share: float = 0.0
    at: datetime.datetime | None = None
    tags: list[str] = []


class Better(Quality):
    extra: str = "x"


class Rich(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    raw: bytes = b""
    ratio: float = 0.0
    colour: Colour = Colour.RED
    price: decimal.Decimal = decimal.Decimal(0)
    ident: uuid.UUID = uuid.UUID(int=0)
    path: pathlib.PurePosixPath = pathlib.PurePosixPath("/")
    nested: Quality | None = None
    anything: Any = None
    named: int = pydantic.Field(0, alias="Named")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> float:
        return self.ratio * 2


class Renamed(pydantic.BaseModel):
    a: int = pydantic.Field(validation_alias="given", serialization_alias="shown")


class Stamped(pydantic.BaseModel):
    ident: uuid.UUID = pydantic.Field(default_factory=uuid.uuid4)
    note: str = ""


class Secretive(pydantic.BaseModel):
    password: pydantic.SecretStr


class Forgetful(pydantic.BaseModel):
    shown: int
    hidden: int = pydantic.Field(0, exclude=True)


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


class Plain:
    pass


def round_trip(annotation: Any, value: Any) -> Any:
    codec = codec_for(annotation)
    return codec.decode(codec.encode(value))


def exactly(value: Any) -> Any:
    """A value with the types, zones and order of everything in it, for comparing."""
    if isinstance(value, dict):
        return dict, [(exactly(key), exactly(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [exactly(item) for item in value]
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(exactly(item)) for item in value)
    if isinstance(value, datetime.datetime | datetime.time):
        return type(value), value.replace(tzinfo=None).isoformat(), value.fold, repr(value.tzinfo)
    if isinstance(value, float):
        return float, repr(value)
    if isinstance(value, decimal.Decimal):
        return decimal.Decimal, value.as_tuple()
    return type(value), value


# ------------------------------------------------------------------------------- no annotation: exact builtins

zones = st.sampled_from([None, datetime.UTC, PARIS, ZoneInfo("Asia/Tokyo")]) | st.timedeltas(
    datetime.timedelta(hours=-23), datetime.timedelta(hours=23)
).map(datetime.timezone)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**40), 10**40), st.floats(),
    st.text(st.characters(codec=None, exclude_categories=[])), st.binary(), st.dates(), st.uuids(), st.timedeltas(),
    st.decimals(), st.datetimes(timezones=zones), st.times(),
    st.times().map(lambda t: t.replace(tzinfo=datetime.UTC, fold=1)),
)  # fmt: skip
keys = st.recursive(
    leaves.filter(lambda value: "nan" not in repr(value).lower()),
    lambda inner: st.tuples(inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.sets(keys, max_size=3)
        | st.frozensets(keys, max_size=3)
    ),
    max_leaves=15,
)


@given(trees)
@example([1, True, 1.0, "1", b"1", None, (), [], {}, set(), frozenset(), -0.0, 2**63, 2**64, -(2**63) - 1])
@example({1: "a", "1": "b", None: "c", b"1": "d", (1, 2): "e", frozenset({1}): "f", 1.5: "g"})
@example("\ud800 alone")
@example([math.nan, math.inf, decimal.Decimal("sNaN"), decimal.Decimal("-0.00")])
@example(NOON.replace(fold=1))
@example(
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(microseconds=1), "odd name"))
)
def test_without_an_annotation_every_builtin_value_comes_back_the_same(value: Any) -> None:
    assert exactly(round_trip(Any, value)) == exactly(value)


@pytest.mark.parametrize("value", [None, False, 0, "", 0.0, [], {}, b"", ()])
def test_values_that_are_false_are_values(value: Any) -> None:
    assert exactly(round_trip(Any, value)) == exactly(value)


@pytest.mark.parametrize(
    "value",
    [
        Struct(1), collections.OrderedDict(a=1),
        collections.defaultdict(int, a=1), bytearray(b"x"), memoryview(b"x"), Plain(), object(), Plain, len, 1j,
        type("S", (str,), {})("x"),
        io.StringIO(), (number for number in ()),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.parametrize("place", ["alone", "in a list", "in a dict", "in a tuple", "as a key"])
def test_without_an_annotation_anything_else_is_an_error_that_names_its_type(value: Any, place: str) -> None:
    as_key = {value: 1} if type(value).__hash__ is not None else [[value]]
    placed = {"alone": value, "in a list": [1, value], "in a dict": {"a": value}, "in a tuple": (value,)}
    whole = as_key if place == "as a key" else placed[place]
    with pytest.raises(UnsupportedValue, match=type(value).__name__):
        codec_for(Any).encode(whole)


class Record(Mapping[str, int]):
    """A row as SQLAlchemy gives it."""

    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class KeyedRecord:
    """A row as asyncpg gives it: with keys, and no mapping."""

    def keys(self) -> Iterator[str]:
        return iter(["a"])


@pytest.mark.parametrize(
    ("annotation", "row"), [(Any, Record()), (Any, KeyedRecord()), (list[dict[str, int]], KeyedRecord())]
)
def test_a_row_of_a_database_driver_is_an_error_that_says_how_to_make_it_a_dict(
    annotation: Any, row: Any
) -> None:
    with pytest.raises(UnsupportedValue, match=r"dict\(row\)"):
        codec_for(annotation).encode([row])


def test_a_row_becomes_the_dict_that_is_declared() -> None:
    for annotation in (list[dict[str, Any]], list[dict[str, int]]):
        assert exactly(round_trip(annotation, [Record()])) == exactly([{"a": 1}])


def test_a_time_zone_that_cannot_come_back_is_an_error() -> None:
    class Odd(datetime.tzinfo):
        def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
            return datetime.timedelta(hours=1)

    with pytest.raises(UnsupportedValue, match=r"Odd.*zoneinfo"):
        codec_for(Any).encode(datetime.datetime(2024, 1, 1, tzinfo=Odd()))


def test_a_value_that_holds_itself_or_is_endlessly_deep_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    deep: Any = 1
    for _ in range(10_000):
        deep = (deep,)
    for value in (endless, deep):
        with pytest.raises(UnsupportedValue, match="nested"):
            codec_for(Any).encode(value)


# --------------------------------------------------------------------------------------------- declared types

DECLARED: list[tuple[Any, Any]] = [
    (None, None), (bool, True), (int, 7), (int, 2**80), (float, 1.5), (float, math.inf), (str, "é"), (str,
    "\ud800"), (bytes, b"\xff"),
    (int | None, None), (int | str, "7"), (int | str, 7), (int | float, 1.0), (int | float,
    1), (bool | int, True), (UserId, 7),
    (Literal["a", "b"], "a"), (Annotated[int, "positive"], 1), (list, [1, (2, {3})]), (dict, {1: {"a": (1,)}}),
    (tuple, (1, [2])), (set, {1}),
    (list[int], [1, 2]), (list[int | None], [1, None]), (list[list[str]], [["a"], []]), (tuple[int, str], (1,
    "a")), (tuple[int, ...], (1, 2)),
    (set[str], {"a", "b"}), (frozenset[int], frozenset({1})), (dict[str, int], {"b": 1, "a": 2}), (dict[int, str],
    {1: "a"}),
    (dict[tuple[int, int], str], {(1, 2): "a"}), (dict[str, Any], {"a": (1, {2}), "b": NOON}), (list[dict[str,
    Any]], [{"a": decimal.Decimal("1.10")}]),
    (Mapping[str, Sequence[int]], {"a": [1]}), (dict[str, list[float]], {"a": [1.5, -0.0]}), (dict[str,
    Any] | None, {"a": b"x"}),
    (datetime.datetime, NOON), (datetime.datetime, NOON.astimezone(datetime.UTC)), (datetime.datetime,
    NOON.replace(tzinfo=None, fold=1)),
    (datetime.date, datetime.date(2024, 1, 1)), (datetime.time, datetime.time(1, 2, 3, 4)), (datetime.timedelta,
    datetime.timedelta(-1, 2, 3)),
    (decimal.Decimal, decimal.Decimal("1.10")), (uuid.UUID, uuid.UUID(int=7)), (list[datetime.datetime], [NOON]),
    (dict[uuid.UUID, datetime.date], {}),
    (Colour, Colour.BLUE), (Level, Level.LOW), (list[Colour], [Colour.RED]), (dict[Colour, int], {Colour.RED: 1}),
    (pathlib.PurePosixPath, pathlib.PurePosixPath("/a")), (ipaddress.IPv4Address, ipaddress.IPv4Address("127.0.0.1")),
    (Animal, Animal("a", 3)), (list[Animal], [Animal("a")]), (Animal | None, None), (dict[str, Animal],
    {"a": Animal("b")}), (Point, Point(1.0)),
    (Event, Event(NOON, (1, {2: NOON}), ("a",))), (Event, Event(NOON.replace(tzinfo=None))), (Box[int], Box(1)),
    (Box[Animal], Box(Animal("a"))),
    (Tree, Tree(1, [Tree(2), Tree(3, [Tree(4)])])), (Row, {"category": "a", "count": 1}), (list[Row], [{"count": 1,
    "category": "a", "note": "n"}]),
    (Pair, Pair(1, "a")), (Struct, Struct(1)), (Struct, Struct(2**70, "\ud800")), (Cat | Bird, Bird("b")),
    (list[Cat | Bird], [Bird("b"), Cat("c")]),
    (Quality, Quality(project=1)), (Quality, Quality(project=1, at=NOON)), (Quality, Quality(project=1,
    share=math.inf)),
    (list[Quality] | None, [Quality(project=1)]), (dict[str, Quality], {"a": Quality(project=1)}), (Quality | int,
    3), (Quality | Animal, Animal("a")),
    (Rich, Rich(raw=b"\xff\x00", ratio=0.1, colour=Colour.BLUE, price=decimal.Decimal("1.10"),
    nested=Quality(project=2), Named=3)),
    (Rich, Rich(anything=(1, {2}), more=NOON)), (Stamped, Stamped()), (Page[Quality],
    Page[Quality](items=[Quality(project=1)])),
    (Better, Better(project=1)), (Quality | Better, Better(project=1)), (Forgetful, Forgetful(shown=1)),
    (dict[str, Any], {"a": Animal("b"), "c": [Colour.RED]}), (Event, Event(NOON, Animal("a"))),
    (pydantic.AnyUrl, pydantic.AnyUrl("http://a/")), (tuple[Quality, Animal], (Quality(project=1), Animal("a"))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "value"), DECLARED, ids=[f"{a}-{number}" for number, (a, _) in enumerate(DECLARED)]
)
def test_a_declared_value_comes_back_equal_and_of_the_same_types(annotation: Any, value: Any) -> None:
    back = round_trip(annotation, value)
    assert exactly(back) == exactly(value)


def test_an_infinite_or_missing_number_in_a_list_survives() -> None:
    back = round_trip(list[float], [math.nan, math.inf])
    assert math.isnan(back[0])
    assert back[1] == math.inf
    assert math.isnan(round_trip(Incomparable, Incomparable([math.nan])).values[0])


@pytest.mark.parametrize(
    ("annotation", "value", "declared"),
    [
        (list[int], (1, 2), [1, 2]),
        (list, (1, 2), [1, 2]),
        (tuple[int, int], [1, 2], (1, 2)),
        (float, 1, 1.0),
        (list[float], [1, 2.5], [1.0, 2.5]),
        (int, Level.LOW, 1),
        (dict[str, int], collections.OrderedDict(a=1), {"a": 1}),
        (dict[str, int], collections.defaultdict(int, a=1), {"a": 1}),
        (Colour, "red", Colour.RED),
        (Animal, {"name": "a"}, Animal("a")),
        (Quality, {"project": 1}, Quality(project=1)),
        (Rich, {"Named": 1}, Rich(Named=1)),
        (list[Quality], [{"project": 1}], [Quality(project=1)]),
    ],
    ids=str,
)
def test_a_value_that_holds_as_much_as_the_declared_type_becomes_it_for_everybody(
    annotation: Any, value: Any, declared: Any
) -> None:
    assert exactly(round_trip(annotation, value)) == exactly(declared)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "7"), (int, True), (int, 1.5), (int, None), (str, 7), (str, b"x"), (bytes, "x"), (bool, 1), (float,
        2**53 + 1),
        (list[int], ["1"]), (list[int], {1}), (list[int], {1: 2}), (list[int], (n for n in (1,))), (set[int], [1,
        1]), (dict[str, int], [("a", 1)]),
        (dict[str, Any], [1]), (dict[str, Any], {1: 2}), (dict[str, Any], {"a": Plain()}),
        (tuple[int, str], (1, "a", 2)),
        (datetime.date, NOON), (datetime.datetime, "2024-01-01"), (uuid.UUID, str(uuid.UUID(int=1))),
        (decimal.Decimal, 1.5), (Colour, "green"),
        (Animal, Dog("a")), (list[Animal], [Dog("a")]), (Animal, {"name": "a", "wings": 2}), (Animal, Plain()),
        (Animal, None), (Event, Event(NOON, Plain())),
        (Row, {"category": "a", "count": 1, "more": 2}), (Row, {"category": "a"}), (Struct, Animal("a")), (Struct,
        {"a": 1, "z": 2}),
        (Quality, {"project": "one"}), (Quality, Plain()), (Quality, None), (Rich, Rich(anything=Plain())),
    ],
    ids=titled,
)  # fmt: skip
def test_a_value_that_would_come_back_as_less_is_an_error(annotation: Any, value: Any) -> None:
    with pytest.raises(UnsupportedValue):
        codec_for(annotation).encode(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int, "hunter2"), (Quality, {"project": "hunter2"}), (Colour, "hunter2"), (dict[str, int], {"a": "hunter2"}),
    (Animal, {"name": 1, "x": "hunter2"})],
)  # fmt: skip
def test_the_error_names_the_types_and_never_the_value(annotation: Any, value: Any) -> None:
    with pytest.raises(UnsupportedValue) as caught:
        codec_for(annotation).encode(value)
    assert "hunter2" not in str(caught.value)
    assert type(value).__name__ in str(caught.value)
    assert annotation.__name__ in str(caught.value)


def test_the_error_says_where_the_difference_is() -> None:
    with pytest.raises(UnsupportedValue, match=r"the result\[1\]: a Dog would come back as a Animal"):
        codec_for(list[Animal]).encode([Animal("a"), Dog("b")])


def test_which_fields_of_a_model_were_set_is_kept() -> None:
    back = round_trip(list[Quality], [Quality(project=1, share=0.0)])
    assert back[0].model_fields_set == {"project", "share"}


def test_a_model_read_and_written_under_two_names_survives_or_is_an_error_with_an_old_pydantic() -> None:
    value = Renamed(given=1)
    if "by_name" in inspect.signature(pydantic.TypeAdapter.validate_json).parameters:
        assert round_trip(Renamed, value) == value
    else:
        with pytest.raises(UnsupportedValue):
            codec_for(Renamed).encode(value)


def test_defaults_that_are_computed_are_stored_and_not_computed_again() -> None:
    value = Stamped()
    codec = codec_for(Stamped)
    data = codec.encode(value)
    assert codec.decode(data) == codec.decode(data) == value


def test_a_default_that_depends_on_the_moment_is_that_of_the_computation() -> None:
    today = ["monday"]
    kind = pydantic.create_model("Kind", day=(str, pydantic.Field(default_factory=lambda: today[0])))
    codec = codec_for(kind)
    data = codec.encode(kind())
    today[0] = "tuesday"
    assert codec.decode(data).day == "monday"


def test_a_field_that_equality_ignores_must_survive_too() -> None:
    codec = codec_for(Noted)
    assert codec.decode(codec.encode(Noted(1, (2, NOON)))).note == (2, NOON)
    with pytest.raises(UnsupportedValue, match=r"the result\.note|holds a"):
        codec.encode(Noted(1, {"a": Plain()}))


def test_each_decoding_gives_an_object_of_its_own() -> None:
    for annotation, value in (
        (Any, {"a": []}),
        (dict[str, list[int]], {"a": []}),
        (Quality, Quality(project=1)),
        (Animal, Animal("a")),
    ):
        codec = codec_for(annotation)
        data = codec.encode(value)
        assert codec.decode(data) is not codec.decode(data)


# ------------------------------------------------------------------------------------------ types that are refused


@pytest.mark.parametrize(
    "annotation",
    [
        Response, JSONResponse, StreamingResponse, BackgroundTasks, Iterator[int], AsyncIterator[str],
        collections.abc.Generator,
        collections.abc.Coroutine, collections.abc.Callable[[], int], io.BytesIO, dict[str, Response],
        Response | None, list[StreamingResponse],
    ],
    ids=str,
)  # fmt: skip
def test_declaring_a_response_or_a_stream_is_an_error_that_says_what_to_do_instead(annotation: Any) -> None:
    with pytest.raises(UnsupportedValue, match=r"return the data itself.*StampedeMiddleware"):
        codec_for(annotation)


@pytest.mark.parametrize("annotation", [Any, dict, dict[str, Any], Quality, Animal])
def test_returning_a_response_is_an_error_under_every_annotation(annotation: Any) -> None:
    codec = codec_for(annotation)
    with pytest.raises(UnsupportedValue, match="Response"):
        codec.encode(JSONResponse({}))
    assert codec_for(Any).encode({})


def test_returning_a_response_without_an_annotation_says_to_use_the_middleware() -> None:
    with pytest.raises(UnsupportedValue, match="StampedeMiddleware"):
        codec_for(Any).encode([StreamingResponse(iter(()))])


@pytest.mark.parametrize(
    "annotation",
    [
        Plain,
        list[Plain],
        dict[str, Plain] | None,
        typing.Iterable[int],
        "Unknown",
        list[ForwardRef("Unknown")],
    ],
)
def test_a_type_that_nothing_can_store_is_an_error_when_the_function_is_decorated(annotation: Any) -> None:
    with pytest.raises(UnsupportedValue):
        codec_for(annotation)


def test_a_record_whose_annotations_cannot_be_evaluated_is_an_error_that_says_so() -> None:
    class Local: ...

    @dataclasses.dataclass
    class Holder:
        inner: Local

    with pytest.raises(UnsupportedValue, match="cannot be evaluated"):
        codec_for(Holder)


# ---------------------------------------------------------------------------------------------------- damaged bytes

CODECS = [
    codec_for(annotation)
    for annotation in (
        Any,
        int,
        dict[str, Any],
        tuple[int, ...],
        datetime.datetime,
        Event,
        Animal,
        Struct,
        Colour,
        Quality,
        Rich,
    )
]


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\xc9\xff\xff\xff\xff\x05")
@example(b"\x91" * 5000 + b"\xc0")
@example(b"{" * 100_000)
@example(b"[" * 100_000)
@example(msgpack.encode(msgpack.Ext(6, msgpack.encode(["2024-01-01", 0, "../../etc/passwd"]))))
@example(msgpack.encode(msgpack.Ext(6, msgpack.encode(["2024-01-01", 7, [10**18]]))))
@example(msgpack.encode(msgpack.Ext(4, msgpack.encode([[], {}]))))
@example(msgpack.encode({"a": msgpack.Ext(100, b"")}))
def test_bytes_that_are_not_a_value_raise_undecodable_and_nothing_else(data: bytes) -> None:
    for codec in CODECS:
        with contextlib.suppress(Undecodable):
            codec.decode(data)


@given(trees, st.data())
def test_a_value_with_bytes_changed_decodes_to_something_or_raises_undecodable(
    value: Any, draw: st.DataObject
) -> None:
    damaged = bytearray(codec_for(Any).encode(value))
    place = draw.draw(st.integers(0, len(damaged) - 1))
    damaged[place] ^= draw.draw(st.integers(1, 255))
    for data in (bytes(damaged), bytes(damaged[:place])):
        for codec in CODECS:
            with contextlib.suppress(Undecodable):
                codec.decode(data)


def test_extensions_nested_without_end_raise_undecodable() -> None:
    data = b"\xc0"
    for _ in range(3000):
        data = msgpack.encode(msgpack.Ext(3, b"\x91" + data))
    with pytest.raises(Undecodable):
        codec_for(Any).decode(data)


@pytest.mark.parametrize("annotation", [int, dict[str, int], Animal, Quality, Colour, Event])
def test_bytes_of_another_type_raise_undecodable(annotation: Any) -> None:
    for other in (codec_for(Any).encode(["x"]), codec_for(Any).encode("x"), b'"x"', b"null"):
        with pytest.raises(Undecodable):
            codec_for(annotation).decode(other)


# ----------------------------------------------------------------------------------------------------------- pickle


def test_pickle_is_used_only_when_asked_for_by_name() -> None:
    codec = codec_for(complex | Plain, pickle=True)
    assert codec.decode(codec.encode(1j)) == 1j
    assert isinstance(codec.decode(codec.encode(Plain())), Plain)
    assert codec.shareable is None
    with pytest.raises(UnsupportedValue):
        codec.encode(lambda: 1)
    for data in (b"", b"nonsense", codec.encode(1j)[:-1]):
        with pytest.raises(Undecodable):
            codec.decode(data)
    assert codec.fingerprint != codec_for(Any).fingerprint


# ------------------------------------------------------------------------------------------------------ fingerprints


def test_every_type_has_a_fingerprint_of_its_own() -> None:
    annotations: list[Any] = [
        Any, None, int, float, str, bool, bytes, int | None, int | str, list[int], list[str], list[Any], tuple[int,
        ...], tuple[int], set[int],
        frozenset[int], dict[str, int], dict[int, str], Literal["a"], Literal[1], Literal["1"], Colour, Level,
        Animal, Dog, Point, Event, Row, Pair, Struct,
        Box[int], Box[str], Quality, Better, Page[int], Page[str], list[Quality], Quality | None, uuid.UUID,
        datetime.date, datetime.datetime,
    ]  # fmt: skip
    fingerprints = {codec_for(annotation).fingerprint for annotation in annotations}
    assert len(fingerprints) == len(annotations)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Optional[int], int | None),  # noqa: UP045
        (int | str, str | int),
        (typing.List[int], list[int]),  # noqa: UP006
        (list, list[Any]),
        (Annotated[int, "note"], int),
        (UserId, int),
        (TypeAliasType("Identifier", dict[str, int]), dict[str, int]),
        (Literal["a", "b"], Literal["b", "a"]),
    ],
    ids=str,
)
def test_spellings_of_one_type_share_a_fingerprint(one: Any, other: Any) -> None:
    assert codec_for(one).fingerprint == codec_for(other).fingerprint


def model(docs: str = "", **fields: Any) -> Any:
    return pydantic.create_model("Model", __doc__=docs, __module__="app", **fields)


def test_changing_a_field_of_a_model_changes_the_fingerprint_and_its_documentation_does_not() -> None:
    base = codec_for(model(a=(int, 1))).fingerprint
    same = [model("Other words.", a=(int, 1)), model(a=(int, pydantic.Field(1, description="words", gt=0)))]
    changed = [
        model(a=(str, "1")), model(a=(int | None, 1)), model(a=(int, ...)), model(a=(int, 2)), model(b=(int, 1)),
        model(a=(int, 1), b=(int, 1)),
        model(a=(list[int], 1)), model(a=(Quality, 1)),
    ]  # fmt: skip
    assert {codec_for(kind).fingerprint for kind in same} == {base}
    assert len({base} | {codec_for(kind).fingerprint for kind in changed}) == len(changed) + 1


def test_a_change_deep_inside_changes_the_fingerprint_of_what_holds_it() -> None:
    one, other = model(a=(int, 1)), model(a=(str, "1"))
    assert codec_for(dict[str, list[one]]).fingerprint != codec_for(dict[str, list[other]]).fingerprint  # type: ignore[valid-type]
    holders = [
        dataclasses.make_dataclass("Holder", [("inner", kind | None)], namespace={"__module__": "app"})
        for kind in (one, other)
    ]
    assert codec_for(holders[0]).fingerprint != codec_for(holders[1]).fingerprint


def test_how_a_struct_is_stored_is_part_of_its_fingerprint() -> None:
    kinds = [
        msgspec.defstruct("S", [("a_b", int, 1)], module="app", **options)
        for options in ({}, {"rename": "camel"}, {"tag": True}, {"array_like": True}, {"omit_defaults": True})
    ]
    assert len({codec_for(kind).fingerprint for kind in kinds}) == len(kinds)


def test_fingerprints_are_the_same_in_every_process_and_python_version() -> None:
    assert codec_for(dict[str, int]).fingerprint == "78e35ace57e8db61"
    assert codec_for(list[Row | None]).fingerprint == "e733ccba64855a76"
    script = (
        "from tests.values.test_codec import *\n"
        "for kind in (list[Row | None], Rich, Tree): print(codec_for(kind).fingerprint)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [codec_for(kind).fingerprint for kind in (list[Row | None], Rich, Tree)]


# ----------------------------------------------------------------------------------------------------------- sharing


@pytest.mark.parametrize(
    ("annotation", "shareable"),
    [
        (int, True), (str | None, True), (tuple[int, ...], True), (frozenset[str], True), (Colour, True),
        (datetime.datetime, True), (Point, False), (Struct, True),
        (Pair, True), (tuple[Pair, ...] | None, True), (tuple[Struct, Pair], True), (tuple[Point, Point], False),
        (Any, None), (tuple[Any, ...],
        None), (int | list[int],
        None), (Quality | None, None),
        (list[int], False), (dict[str, int], False), (tuple[list[int], ...], False), (Animal, False), (Quality,
        False), (Row, False), (Tree, False),
    ],
    ids=str,
)  # fmt: skip
def test_a_codec_says_whether_callers_may_share_one_object(annotation: Any, shareable: bool | None) -> None:
    assert codec_for(annotation).shareable is shareable


class FrozenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    a: int = 1
    b: Any = None


@dataclasses.dataclass(frozen=True)
class FrozenHolder:
    inner: Any


@pytest.mark.parametrize(
    "value",
    [None, True, 1, 1.5, "a", b"a", (), (1, ("a", None)), frozenset({1}), Colour.RED, NOON, uuid.UUID(int=1),
    decimal.Decimal(1), Struct(1), Pair(1, "a"), (Struct(1, "b"), frozenset({Pair(1, "a")}))],
    ids=titled,
)  # fmt: skip
def test_what_nobody_can_change_is_immutable(value: Any) -> None:
    assert is_immutable(value)


@pytest.mark.parametrize(
    "value",
    [[], {}, set(), bytearray(), ([],), (1, (2, {})), Animal("a"), Quality(project=1), Plain(), FrozenModel(b=[]),
    FrozenModel(), Point(1.0), FrozenHolder((1, Point(1))), FrozenHolder([]),
    FrozenHolder((1, Animal("a"))), Cat("c"), object()],
    ids=titled,
)  # fmt: skip
def test_what_somebody_can_change_is_not_immutable(value: Any) -> None:
    assert not is_immutable(value)


# ---------------------------------------------------------------------------------------------- reading annotations


def test_the_return_annotation_is_evaluated_and_any_if_there_is_none() -> None:
    async def annotated() -> list[Quality]: ...  # type: ignore[empty-body]

    async def silent(): ...  # type: ignore[no-untyped-def]

    assert return_annotation(annotated) == list[Quality]
    assert return_annotation(silent) is Any


@attrs.define
class WithPrivate:
    _number: int
    name: str = ""


@pytest.mark.parametrize("annotation", [WithPrivate, list[WithPrivate], WithPrivate | None], ids=str)
def test_the_error_names_a_private_attribute_of_attrs_that_no_encoding_holds(annotation: Any) -> None:
    value: Any = [WithPrivate(1)] if annotation == list[WithPrivate] else WithPrivate(1)
    with pytest.raises(UnsupportedValue, match=r"leaves out WithPrivate\._number, .* Rename the attribute"):
        codec_for(annotation).encode(value)
