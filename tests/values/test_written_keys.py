"""Two arguments that differ have two keys, whatever text their class shows to people."""

from __future__ import annotations

import collections
import datetime
import enum
import ipaddress
import pathlib
import types
from typing import Any

import numpy
import pydantic
import pytest
from starlette.datastructures import URL, URLPath

from stampede_guard.values.parts.parts import Unkeyable, text_of

HERE = "tests.values.test_written_keys"


class Open(enum.Enum):
    """Keeps unknown values, as clients of foreign APIs do."""

    CAT = "cat"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        member = object.__new__(cls)
        member._name_ = "UNKNOWN"
        member._value_ = value
        return member


class Posing(enum.Enum):
    CAT = "cat"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        member = object.__new__(cls)
        member._name_ = "CAT"
        member._value_ = "cat"
        member.__dict__["asked"] = value
        return member


class Plan(enum.Enum):
    FREE = 1
    PAID = 2

    @property
    def name(self) -> str:
        return "plan"

    @property
    def value(self) -> str:
        return "plan"


class Rights(enum.Flag, boundary=enum.KEEP):
    READ = 1
    WRITE = 2


class Client(ipaddress.IPv4Address):
    def __str__(self) -> str:
        return "10.0.x.x"


class Subnet(ipaddress.IPv6Address):
    __str__ = Client.__str__  # type: ignore[assignment]


class Home(pathlib.PurePosixPath):
    def __str__(self) -> str:
        return "~/" + self.name


class Bucket(pathlib.PurePosixPath):
    __slots__ = ("bucket",)


class Endpoint(ipaddress.IPv4Address):
    __slots__ = ("port",)


class Masked:
    def items(self) -> Any:
        return [(key, "***") for key in self]  # type: ignore[attr-defined]


class Ordered(Masked, collections.OrderedDict[str, Any]):
    pass


class Default(Masked, collections.defaultdict[str, Any]):
    @property
    def default_factory(self) -> Any:
        return int


class Plain(Masked, dict[str, Any]):
    pass


class Queue(collections.deque[int]):
    maxlen = 3  # type: ignore[assignment]

    def __iter__(self) -> Any:
        return iter(())


class Address(pydantic.AnyUrl):
    def __str__(self) -> str:
        return "http://***"


class Moment(datetime.datetime):
    year = 2000  # type: ignore[assignment]
    hour = fold = 0  # type: ignore[assignment]


class Day(datetime.date):
    month = 1  # type: ignore[assignment]


class Clock(datetime.time):
    minute = 1  # type: ignore[assignment]


class Span(datetime.timedelta):
    days = 1  # type: ignore[assignment]


def bucket(kind: Any, place: str, **more: Any) -> Any:
    made = kind(place)
    for name, item in more.items():
        setattr(made, name, item)
    return made


DIFFERENT: list[list[Any]] = [
    [Open.CAT, Open("zebra"), Open("lion"), Open(3)],
    [Posing.CAT, Posing("zebra"), Posing("lion")],
    [Plan.FREE, Plan.PAID],
    [Rights(0), Rights.READ, Rights(3), Rights(11), Rights(9)],
    [Client("10.0.0.1"), Client("10.0.9.9")],
    [Subnet("::1"), Subnet("::2")],
    [Home("/srv/ann/tax"), Home("/srv/bob/tax")],
    [Ordered(user="ann"), Ordered(user="bob")],
    [Default(int, user="ann"), Default(int, user="bob"), Default(list, user="bob")],
    [Plain(user="ann"), Plain(user="bob")],
    [types.MappingProxyType(Plain(user="ann")), types.MappingProxyType(Plain(user="bob"))],
    [Queue([1]), Queue([2]), Queue([2], 7)],
    [Address("http://ann.shop"), Address("http://bob.shop")],
    [URLPath("/me"), URLPath("/me", host="ann"), URLPath("/me", host="bob"), URLPath("/me", "http", "bob")],
    [numpy.bytes_(b"id"), numpy.bytes_(b"id\x00"), numpy.str_("id"), numpy.str_("id\x00")],
    [Moment(2020, 1, 1), Moment(2021, 1, 1), Moment(2021, 1, 1, 2), Moment(2021, 1, 1, 2, fold=1)],
    [Day(2020, 1, 1), Day(2020, 2, 1)],
    [Clock(1, 0), Clock(1, 2)],
    [Span(1), Span(2)],
]


@pytest.mark.parametrize("values", DIFFERENT, ids=lambda values: type(values[0]).__name__)
def test_what_a_class_shows_does_not_decide_its_keys(values: list[Any]) -> None:
    assert len(set(map(text_of, values))) == len(values)


def test_equal_values_that_a_class_made_apart_share_a_key() -> None:
    assert text_of(Open("zebra")) == text_of(Open("zebra")) and Open("zebra") is not Open("zebra")
    assert text_of(Rights(11)) == text_of(Rights(11))


@pytest.mark.parametrize("value", [bucket(Bucket, "a", bucket="ann"), bucket(Endpoint, "10.0.0.1", port=80)])
def test_a_path_or_an_address_with_more_than_its_text_is_refused(value: Any) -> None:
    with pytest.raises(Unkeyable, match="attributes of its own"):
        text_of(value)


ORDINARY: list[tuple[Any, str]] = [
    (Open.CAT, f"{HERE}.Open(CAT)"),
    (Rights.READ | Rights.WRITE, f"{HERE}.Rights(READ%7CWRITE)"),
    (Rights(0), f"{HERE}.Rights(value,0)"),
    (Rights(9), f"{HERE}.Rights(READ%7C8)"),
    (pathlib.PurePosixPath("/a b"), "pathlib.PurePosixPath(/a%20b)"),
    (Bucket("/a"), f"{HERE}.Bucket(/a)"),
    (ipaddress.ip_network("10.0.0.0/8"), "ipaddress.IPv4Network(10.0.0.0/8)"),
    (ipaddress.ip_interface("10.0.0.1/8"), "ipaddress.IPv4Interface(10.0.0.1/8)"),
    (Endpoint("10.0.0.1"), f"{HERE}.Endpoint(10.0.0.1)"),
    (collections.OrderedDict(b=1, a=2), "collections.OrderedDict('b':1,'a':2)"),
    (collections.defaultdict(int, a=1), "defaultdict(builtins.int,'a':1)"),
    (collections.deque([1], 3), "deque(3,1)"),
    (types.MappingProxyType({"b": 1, "a": 2}), "mappingproxy('a':2,'b':1)"),
    (types.MappingProxyType(collections.UserDict(b=1, a=2)), "mappingproxy('a':2,'b':1)"),
    (collections.Counter(a=2), "collections.Counter('a':2)"),
    (pydantic.AnyUrl("http://a/b"), "pydantic.networks.AnyUrl(http://a/b)"),
    (URL("http://a/b?c=1"), "starlette.datastructures.URL(http://a/b%3Fc=1)"),
    (URLPath("/me"), "starlette.datastructures.URLPath(/me)"),
    (numpy.bytes_(b"id"), "numpy.bytes_(bytes(6964))"),
    (numpy.str_("id"), "numpy.str_('id')"),
    (numpy.int32(1), "numpy.int32(1)"),
]


@pytest.mark.parametrize(("value", "text"), ORDINARY, ids=[text for _, text in ORDINARY])
def test_keys_of_ordinary_values_have_these_texts(value: Any, text: str) -> None:
    """Else the entries of a running fleet would be missed once."""
    assert text_of(value) == text
