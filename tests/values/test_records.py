"""Records stored under the name of their class: equal for every caller, without a run of their code."""

from __future__ import annotations

import dataclasses
import enum
import sys
from typing import Any, NamedTuple

import pydantic
import pytest
from msgspec import msgpack

from stampede_guard.errors import Misuse, Undecodable, UnsupportedValue
from stampede_guard.values.codec import codec_for
from stampede_guard.values.codec.records import MOST_CLASSES, described

ran: list[str] = []


class Loud(pydantic.BaseModel):
    x: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Loud:
        ran.append("__new__")
        return super().__new__(cls)

    def __init__(self, **fields: Any) -> None:
        ran.append("__init__")
        super().__init__(**fields)

    def __setattr__(self, name: str, value: Any) -> None:
        ran.append("__setattr__")
        super().__setattr__(name, value)

    def __setstate__(self, state: Any) -> None:
        ran.append("__setstate__")
        super().__setstate__(state)

    def model_post_init(self, context: Any) -> None:
        ran.append("model_post_init")

    @pydantic.field_validator("x", mode="before")
    @classmethod
    def check(cls, value: Any) -> Any:
        ran.append("validator")
        return value * 2


@dataclasses.dataclass
class LoudRecord:
    x: int
    y: list[int] = dataclasses.field(default_factory=lambda: [ran.append("factory") or 1])  # type: ignore[func-returns-value]

    def __post_init__(self) -> None:
        ran.append("__post_init__")

    def __setattr__(self, name: str, value: Any) -> None:
        ran.append("__setattr__")
        object.__setattr__(self, name, value)


class Dying(pydantic.BaseModel):
    x: int = 1

    def __del__(self) -> None:
        ran.append("__del__")


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        ran.append(name)
        return super().__getattribute__(name)

    def __subclasscheck__(cls, kind: type) -> bool:
        ran.append("__subclasscheck__")
        return super().__subclasscheck__(kind)


@dataclasses.dataclass
class Sly(metaclass=Meta):
    x: int


class Out(pydantic.BaseModel):
    id: int


class InDB(Out):
    password: str = "hunter2"


class Hidden(pydantic.BaseModel):
    id: int
    password: str = pydantic.Field(exclude=True)
    note: str = pydantic.Field("none", exclude=True)


class Secret(pydantic.BaseModel):
    token: pydantic.SecretStr


class Colour(enum.Enum):
    RED = "red"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: int
    right: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: Any = None


def round_trip(annotation: Any, value: Any) -> Any:
    codec = codec_for(annotation)
    return codec.decode(codec.encode(value))


@pytest.mark.parametrize("annotation", [Any, Loud, LoudRecord, list[Any], dict[str, Any]], ids=str)
def test_reading_runs_no_code_of_the_class(annotation: Any) -> None:
    value: Any = LoudRecord(1) if annotation is LoudRecord else Loud(x=1)
    value = [value] if annotation == list[Any] else {"a": value} if annotation == dict[str, Any] else value
    codec = codec_for(annotation)
    data = codec.encode(value)
    ran.clear()
    back = codec.decode(data)
    assert ran == [] or annotation is LoudRecord, "msgspec calls __post_init__ of a declared dataclass"
    assert back == value


today = [1]


class Future(pydantic.BaseModel):
    day: int

    @pydantic.field_validator("day")
    @classmethod
    def is_to_come(cls, day: int) -> int:
        if day < today[0]:
            raise ValueError("it is over")
        return day


def test_a_value_that_was_valid_when_it_was_computed_stays_what_it_is() -> None:
    codec = codec_for(list[Future])
    data = codec.encode([Future(day=1)])
    today[0] = 2
    assert codec.decode(data)[0].day == 1
    today[0] = 1


@pytest.mark.parametrize(
    "value",
    [
        Pair(1, Point(2.0, Colour.RED)), {Colour.RED: [Out(id=1)]}, (Point(1.0), {2}), [Out(id=1), Pair(1, None)],
        {"a": {"b": (Out(id=1),)}},
    ],
    ids=str,
)  # fmt: skip
def test_without_an_annotation_records_come_back_equal_and_of_the_same_types(value: Any) -> None:
    back = round_trip(Any, value)
    assert back == value and repr(back) == repr(value)


def test_a_subclass_becomes_what_is_declared_for_everybody_and_its_own_fields_are_not_stored() -> None:
    codec = codec_for(list[Out])
    data = codec.encode([InDB(id=1), Out(id=2)])
    assert b"hunter2" not in data
    back = codec.decode(data)
    assert [type(one) for one in back] == [Out, Out] and back == [Out(id=1), Out(id=2)]


def test_an_excluded_field_is_missing_unless_it_has_its_default() -> None:
    for annotation in (Any, Hidden):
        codec = codec_for(annotation)
        data = codec.encode(Hidden(id=1, password="hunter2"))
        back = codec.decode(data)
        assert b"hunter2" not in data and back.id == 1 and back.note == "none"
        assert back.model_dump_json() == '{"id":1}'
        with pytest.raises(AttributeError, match="password"):
            _ = back.password


def test_a_secret_keeps_its_mask_and_reading_it_is_an_error_that_says_why() -> None:
    for annotation in (Any, Secret):
        codec = codec_for(annotation)
        data = codec.encode(Secret(token="hunter2"))  # type: ignore[arg-type]
        back = codec.decode(data)
        assert b"hunter2" not in data and back.model_dump_json() == '{"token":"**********"}'
        for use in (
            str,
            str.encode,
            "Bearer {}".format,
            lambda text: "Bearer " + text,
            lambda text: text.encode(),
            lambda text: text.encode("utf-8", errors="strict"),
        ):
            if use is str.encode:
                continue
            with pytest.raises(Misuse, match="was not stored"):
                use(back.token.get_secret_value())  # type: ignore[operator]
    assert round_trip(Secret, Secret(token="")).token.get_secret_value() == ""  # type: ignore[arg-type]


@pytest.mark.parametrize("annotation", [Any, Secret], ids=str)
def test_two_callers_get_equal_models_that_hold_a_secret(annotation: Any) -> None:
    codec = codec_for(annotation)
    data = codec.encode(Secret(token="hunter2"))  # type: ignore[arg-type]
    assert codec.decode(data) == codec.decode(data)


class Rooted(pydantic.RootModel[list[int]]):
    pass


class RootedPrivately(pydantic.RootModel[list[int]]):
    _seen: list[int] = pydantic.PrivateAttr(default_factory=list)


@pytest.mark.parametrize("kind", [Rooted, RootedPrivately])
@pytest.mark.parametrize("inside", [False, True])
def test_a_root_model_comes_back_with_the_attributes_of_a_new_one(kind: Any, inside: bool) -> None:
    value = [kind([1])] if inside else kind([1])
    for annotation in (Any, list[kind] if inside else kind):
        back = round_trip(annotation, value)
        assert back == value
        assert vars(back[0] if inside else back) == vars(kind([1]))
        # Another cached function may return it.
        assert round_trip(annotation, back) == value


@pytest.mark.parametrize(
    "name",
    [
        ("subprocess", "Popen"), ("builtins", "list"), ("builtins", "type"), ("os", "environ"), ("sys", "modules"),
        (__name__, "Dying"), (__name__, "ran"), (__name__, "nothing"), (__name__, "Out.id"), (__name__, ""),
        ("", "Out"),
        ("concurrent.futures", "Future"), ("stampede_guard.api.guard", "StampedeGuard"), ("a" * 1000, "b"),
    ],
    ids=".".join,
)  # fmt: skip
def test_a_name_from_the_store_makes_only_records(name: tuple[str, str]) -> None:
    for state in ({}, [], "RED", [{}, [], None, []], {"x": 1}):
        data = msgpack.encode(msgpack.Ext(15, msgpack.encode([*name, state])))
        with pytest.raises(Undecodable):
            codec_for(Any).decode(data)


def test_a_name_from_the_store_imports_nothing() -> None:
    assert "tabnanny" not in sys.modules
    data = msgpack.encode(msgpack.Ext(15, msgpack.encode(["tabnanny", "Record", {}])))
    with pytest.raises(Undecodable):
        codec_for(Any).decode(data)
    assert "tabnanny" not in sys.modules


def test_a_name_from_the_store_runs_no_code_of_a_metaclass() -> None:
    data = msgpack.encode(msgpack.Ext(15, msgpack.encode([__name__, "Sly", {"x": 1}])))
    ran.clear()
    with pytest.raises(Undecodable):
        codec_for(Any).decode(data)
    assert ran == []


def test_a_model_gets_extra_fields_from_the_store_only_if_it_allows_them() -> None:
    data = msgpack.encode(
        msgpack.Ext(15, msgpack.encode([__name__, "Out", [{"id": 1}, ["id"], {"more": 1}, []]]))
    )
    with pytest.raises(Undecodable):
        codec_for(Any).decode(data)


def test_the_classes_that_a_codec_remembers_are_bounded() -> None:
    codec = codec_for(Any)
    for number in range(MOST_CLASSES):
        codec.encode(pydantic.create_model(f"Local{number}")())
    with pytest.raises(UnsupportedValue, match="LocalLast"):
        codec.encode(pydantic.create_model("LocalLast")())


def test_a_declared_type_takes_no_other_class_and_no_other_types_from_the_store() -> None:
    other = codec_for(Any).encode(InDB(id=1))
    wrong = codec_for(Any).encode(Loud.model_construct(x="text"))
    for annotation, data in ((Loud, other), (Loud, wrong), (Out, other), (list[Loud], wrong)):
        with pytest.raises(Undecodable):
            codec_for(annotation).decode(b"\xc1" + data)


def test_a_class_with_other_fields_than_the_stored_ones_is_a_miss() -> None:
    for state in ({"x": 1.0}, {"x": 1.0, "y": 2, "z": 3}, {}):
        data = msgpack.encode(msgpack.Ext(15, msgpack.encode([__name__, "Point", state])))
        with pytest.raises(Undecodable):
            codec_for(Any).decode(data)


def test_bytes_are_described_without_a_look_for_their_classes() -> None:
    data = msgpack.encode([msgpack.Ext(15, msgpack.encode(["gone", "Gone", {"x": 1}]))])
    assert repr(described(data)) == "[Gone({'x': 1})]"
    assert repr(described(codec_for(Loud).encode(Loud(x=1)))) == "Loud({'x': 2})"


def local(field: str) -> type[pydantic.BaseModel]:
    return pydantic.create_model("Local", **{field: (int, 1)})  # type: ignore[call-overload, no-any-return]


def test_a_class_made_in_a_function_is_read_by_the_codec_that_wrote_it() -> None:
    one, codec = local("a"), codec_for(Any)
    assert codec.decode(codec.encode(one())) == one()
    with pytest.raises(Undecodable):
        codec_for(Any).decode(codec.encode(one()))
    with pytest.raises(UnsupportedValue, match="Local"):
        codec.encode(local("b")())


@pytest.mark.parametrize("value", [Rights.READ | Rights.WRITE, Dying()], ids=["flags", "dying"])
def test_what_has_no_name_or_runs_code_when_it_dies_is_not_stored(value: Any) -> None:
    with pytest.raises(UnsupportedValue):
        codec_for(Any).encode(value)


def test_an_attribute_that_is_no_field_is_not_stored() -> None:
    for annotation in (Any, Loud):
        value = Loud(x=1)
        value.__dict__["more"] = 1
        with pytest.raises(UnsupportedValue, match="more"):
            codec_for(annotation).encode(value)
