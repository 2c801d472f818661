"""Whatever distinguishes two arguments is in the key, or the argument is refused."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import functools
import os
import subprocess
import sys
import uuid
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import multidict
import numpy
import pandas
import pendulum
import pydantic
import pytest
from asyncpg.pgproto.pgproto import UUID as DriversUUID
from litestar.datastructures import Headers as LitestarsHeaders
from starlette.datastructures import URL, Headers, QueryParams

from stampede_guard import StampedeGuard
from stampede_guard.errors import KeyPartError
from stampede_guard.values.keys import KeyBuilder


async def anything(value: Any) -> None: ...


BUILDER = KeyBuilder(anything)


def key_of(value: Any) -> str:
    return BUILDER.build((value,), {})


def key_or_none(value: Any) -> str | None:
    try:
        return key_of(value)
    except KeyPartError:
        return None


@dataclasses.dataclass
class Initialised:
    x: int
    extra: dataclasses.InitVar[int] = 0

    def __post_init__(self, extra: int) -> None:
        self.hidden = extra


@dataclasses.dataclass
class Compared:
    x: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass
class ListRecord(list[int]):
    x: int = 0


@dataclasses.dataclass
class TextRecord(str):
    x: int = 0


class Slotted(list[int]):
    __slots__ = ("tenant",)


class SlottedText(str):
    __slots__ = ("tenant",)


class AB(NamedTuple):
    a: int
    b: int


class XY(NamedTuple):
    x: int
    y: int


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    _private: int = 0
    x: int = 0


class WithDict(msgspec.Struct, dict=True):
    x: int = 0


class Plain:
    def __init__(self, x: int) -> None:
        self.x = x


class Slots:
    __slots__ = ("x", "y")


class Order(uuid.UUID):
    pass


class User(uuid.UUID):
    pass


def having(value: Any, **attributes: Any) -> Any:
    for name, item in attributes.items():
        setattr(value, name, item)
    return value


def filled(value: Any, *items: int) -> Any:
    value.extend(items)
    return value


def local(multiple: int) -> Any:
    @dataclasses.dataclass
    class Local:
        x: int

        def price(self) -> int:
            return self.x * multiple

    return Local(1)


def local_enum(value: int) -> Any:
    return enum.Enum("Local", {"A": value}, module=__name__, qualname="local_enum.<locals>.Local").A


NOON = datetime.datetime(2024, 1, 1, 12)
HOUR = datetime.timedelta(hours=1)
PAIRS: dict[str, tuple[Any, Any]] = {
    "InitVar": (Initialised(1, 1), Initialised(1, 2)),
    "set later": (Initialised(1), having(Initialised(1), later=1)),
    "not compared": (Compared(1), Compared(2)),
    "a record that is a list": (filled(ListRecord(1), 1), filled(ListRecord(1), 2)),
    "a field of one": (filled(ListRecord(1), 1), filled(ListRecord(2), 1)),
    "slots of a list": (having(Slotted([1]), tenant=1), having(Slotted([1]), tenant=2)),
    "slots of a text": (having(SlottedText("a"), tenant=1), having(SlottedText("a"), tenant=2)),
    "named tuples": (AB(1, 2), XY(1, 2)),
    "extra": (Open(x=1, y=1), Open(x=1, y=2)),
    "private": (having(Open(), _private=1), having(Open(), _private=2)),
    "a Struct with a dict": (having(WithDict(), later=1), having(WithDict(), later=2)),
    "plain": (Plain(1), Plain(2)),
    "slots": (having(Slots(), x=1), having(Slots(), y=1)),
    "subclasses": (Order(int=1), User(int=1)),
    "subclass and base": (Order(int=1), uuid.UUID(int=1)),
    "local classes": (local(2), local(3)),
    "local classes that are alike": (local(2), local(2)),
    "local enums": (local_enum(1), local_enum(2)),
    "factories": (collections.defaultdict(int), collections.defaultdict(list)),
    "a factory": (collections.defaultdict(int), collections.defaultdict(None)),
    "order": (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
    "lengths": (collections.deque([1], 1), collections.deque([1], 2)),
    "names of zones": (
        NOON.replace(tzinfo=datetime.timezone(HOUR, "A")),
        NOON.replace(tzinfo=datetime.timezone(HOUR, "B")),
    ),
    "numpy": (numpy.int64(1), numpy.int32(1)),
    "numpy and Python": (numpy.float64(1), 1.0),
    "queries": (QueryParams("a=1&a=2"), QueryParams("a=2")),
    "urls": (URL("http://a/?b=1"), URL("http://a/?b=2")),
    "headers": (Headers({"a": "1"}), Headers({"a": "2"})),
    "pendulum": (pendulum.datetime(2024, 1, 1), pendulum.datetime(2024, 1, 2)),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_two_that_differ_never_share_a_key(kind: str) -> None:
    one, other = PAIRS[kind]
    keys = key_or_none(one), key_or_none(other)
    assert keys[0] is None or keys[0] != keys[1]


# Made by a call: their module has them under no name, or under another one's.
MADE_BY_CALLS: dict[str, Any] = {
    "type": lambda: (type("Made", (), {"f": lambda self: 1}), type("Made", (), {"f": lambda self: 2})),
    "type, alike": lambda: (type("Made", (), {}), type("Made", (), {})),
    "dataclass": lambda: (
        dataclasses.make_dataclass("Made", [("x", int)], namespace={"f": lambda self: 1}),
        dataclasses.make_dataclass("Made", [("x", int)], namespace={"f": lambda self: 2}),
    ),
    "model": lambda: (pydantic.create_model("Made", x=(int, ...)), pydantic.create_model("Made", x=(float, ...))),
    "struct": lambda: (
        msgspec.defstruct("Made", [("x", int)], namespace={"f": lambda self: 1}),
        msgspec.defstruct("Made", [("x", int)], namespace={"f": lambda self: 2}),
    ),
    "enum": lambda: (enum.Enum("Made", "A B"), enum.Enum("Made", "B A")),
    "int": lambda: (type("Made", (int,), {"f": lambda self: 1}), type("Made", (int,), {"f": lambda self: 2})),
}  # fmt: skip


def _one_of(kind: Any) -> Any:
    if issubclass(kind, enum.Enum):
        return kind["A"]
    if issubclass(kind, int):
        return kind(1)
    if (
        hasattr(kind, "__dataclass_fields__")
        or hasattr(kind, "model_fields")
        or hasattr(kind, "__struct_fields__")
    ):
        return kind(x=1)
    made = kind()
    made.x = 1
    return made


@pytest.mark.parametrize("kind", MADE_BY_CALLS)
def test_two_classes_that_calls_have_made_under_one_name_never_share_a_key(kind: str) -> None:
    values = [_one_of(made) for made in MADE_BY_CALLS[kind]()]
    keys = [key_or_none(value) for value in values]
    assert keys[0] is not None, "one such class alone is an ordinary argument"
    assert keys[0] != keys[1]


async def of_class(cls: type) -> None: ...


def test_a_class_that_a_call_has_made_is_told_from_another_as_cls() -> None:
    builder = KeyBuilder(of_class)
    one, other = type("Made", (), {"table": "a"}), type("Made", (), {"table": "b"})
    assert builder.build((one,), {}) != builder.build((other,), {})


Item = TypeVar("Item")


class Page(pydantic.BaseModel, Generic[Item]):
    items: list[Item]

    def has(self, kind: str) -> bool:
        return kind in {"orders", "users", "baskets"}


IN_ANOTHER_PROCESS = """
from tests.traps import test_arguments_distinct as here
print(here.key_of(here.page()), here.key_of(here.local(7)), here.key_of(here.of_a_set()))
"""


def page() -> Any:
    return Page[int](items=[1])


def of_a_set() -> Any:
    class Kinds:
        x = 1

        def has(self, kind: str) -> bool:
            return kind in {"orders", "users", "baskets"}

    made = Kinds()
    vars(made)["y"] = 2
    return made


def test_a_class_without_a_place_has_the_same_name_in_every_process() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS], env=os.environ | {"PYTHONHASHSEED": seed}, timeout=120,
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "12345"
    }  # fmt: skip
    assert len(told) == 1


def test_rows_of_a_driver_are_ordinary_arguments() -> None:
    rows = [collections.namedtuple("Row", "id name")(1, "a") for _ in range(2)]  # as drivers do
    assert key_of(rows[0]) == key_of(rows[1])
    assert key_of(Page[int](items=[1])) != key_of(Page[str](items=["1"]))


ACCEPTED: list[Any] = [
    Order(int=1), DriversUUID(str(uuid.UUID(int=1))), pendulum.datetime(2024, 1, 1), numpy.int64(1), numpy.float64(0.5),
    numpy.bool_(True), numpy.str_("a"), Plain(1), URL("http://a/b?c=1"), QueryParams("a=1"), Headers({"a": "b"}),
    local(7),
]  # fmt: skip


@pytest.mark.parametrize("value", ACCEPTED, ids=lambda value: type(value).__name__)
def test_what_equals_a_plain_value_or_shows_all_it_holds_is_accepted(value: Any) -> None:
    assert key_of(value) == key_of(value)


def test_a_drivers_uuid_is_the_uuid() -> None:
    assert key_of(DriversUUID(str(uuid.UUID(int=1)))) == key_of(uuid.UUID(int=1))


@pytest.mark.parametrize(
    "value",
    [functools.partial(print), (x for x in ()), print, lambda: 1, ValueError("x"), memoryview(b"x"), numpy.zeros(2),
     collections.defaultdict(lambda: 1), object(), Plain, Plain(print), Slots()],  # type: ignore[arg-type]
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_does_not_show_all_it_holds_is_refused(value: Any) -> None:
    with pytest.raises(KeyPartError):
        key_of(value)


class NotedQuery(multidict.MultiDictProxy[str]):
    def __init__(self, **given: str) -> None:
        super().__init__(multidict.MultiDict(given))
        self.parsed = None


class SlottedQuery(multidict.MultiDictProxy[str]):
    __slots__ = ("parsed",)

    def __init__(self, **given: str) -> None:
        super().__init__(multidict.MultiDict(given))
        self.parsed = None


class Weak:
    __slots__ = ("__weakref__", "x")

    def __init__(self, x: int) -> None:
        self.x = x


Item = TypeVar("Item")


class Both(Weak, Plain):
    """Slots from its first base, a dict from its second."""

    __slots__ = ("y",)

    def __init__(self, x: int) -> None:
        super().__init__(0)
        self.y, self.z = 0, x


class Few(Generic[Item]):
    __slots__ = ("x",)

    def __init__(self, x: int) -> None:
        self.x = x


@pytest.mark.parametrize(
    "made",
    [NotedQuery, SlottedQuery, lambda **given: LitestarsHeaders(given),
     lambda **given: {"headers": LitestarsHeaders(given)}],
    ids=["a dict beside it", "slots beside it", "Litestar's headers", "headers in a dict"],
)  # fmt: skip
def test_content_that_c_code_keeps_under_an_attribute_of_a_subclass_is_refused(made: Any) -> None:
    assert made(user="alice") != made(user="bob")
    with pytest.raises(KeyPartError, match="not in attributes"):
        key_of(made(user="alice"))


@pytest.mark.parametrize("made", [Plain, Weak, Both, Few, Few[int]])
def test_slots_weak_references_and_dicts_of_python_hide_nothing(made: Any) -> None:
    assert key_of(made(1)) == key_of(made(1))
    assert key_of(made(1)) != key_of(made(2))


@pytest.mark.parametrize("annotation", [Any, datetime.datetime, datetime.datetime | None])
async def test_a_moment_that_is_none_is_refused_in_the_librarys_own_words(annotation: Any) -> None:
    guard = StampedeGuard.from_url("memory://")

    @guard.locked_cache(name=f"of {annotation}")
    async def of_declared(value: annotation) -> None: ...

    for use in (of_declared, of_declared.invalidate):
        with pytest.raises(KeyPartError, match="NaTType"):
            await use(pandas.NaT)
    await guard.aclose()


def test_what_a_cached_property_remembers_does_not_count() -> None:
    @dataclasses.dataclass
    class Total:
        x: int

        @functools.cached_property
        def double(self) -> int:
            return 2 * self.x

    value = Total(1)
    key = key_of(value)
    assert value.double == 2
    assert key_of(value) == key
