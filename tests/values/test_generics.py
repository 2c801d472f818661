"""`Page[UserOut]` filters what its fields hold, wherever the type variable stands in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import pydantic
import pytest
from typing_extensions import TypedDict

from stampede_guard import StampedeGuard
from stampede_guard.errors import UnsupportedValue
from stampede_guard.values.codec import codec_for
from stampede_guard.values.filtering.narrowing import narrowed

T = TypeVar("T")
S = TypeVar("S")


class UserOut(pydantic.BaseModel):
    id: int


class UserInDB(UserOut):
    password: str = "hunter2"


@dataclasses.dataclass
class Direct(Generic[T]):
    item: T


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    total: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Maybe(Generic[T]):
    item: T | None = None


@dataclasses.dataclass
class ByName(Generic[S, T]):
    items: Mapping[S, Annotated[dict[str, T], "x"]]


@dataclasses.dataclass
class Nested(Generic[T]):
    page: Page[T]
    others: list[tuple[Direct[T], ...]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Swapped(ByName[T, S]):
    first: S | None = None
    second: T | None = None


@dataclasses.dataclass
class Wrapper(Direct[list[T]], Generic[T]):
    pass


@dataclasses.dataclass
class Redefined(Direct[int], Generic[T]):
    item: T  # type: ignore[assignment]


@dataclasses.dataclass
class Beside(Direct[int], Generic[T]):
    pass


@dataclasses.dataclass
class Diamond(Beside[T], Redefined[T]):
    pass


@dataclasses.dataclass
class Users(Page[UserOut]):
    pass


class Row(NamedTuple, Generic[T]):  # type: ignore[misc]
    items: list[T]
    first: T | None = None


class Doc(TypedDict, Generic[T]):
    items: list[T]


class LargerDoc(Doc[T], Generic[T, S]):
    other: S


class Inner(pydantic.BaseModel, Generic[T]):
    item: T


@dataclasses.dataclass
class OfModels(Generic[T]):
    inner: Inner[T]


class Holder(pydantic.BaseModel):
    page: Page[UserOut]


USER = UserInDB(id=1)
CASES: dict[str, tuple[Any, Any]] = {
    "itself": (Direct[UserOut], Direct(USER)),
    "list": (Page[UserOut], Page([USER])),
    "union": (Maybe[UserOut], Maybe(USER)),
    "argument that is a union": (Page[UserOut | int], Page([1, USER])),
    "second of two, annotated": (ByName[str, UserOut], ByName({"a": {"b": USER}})),
    "nested": (Nested[UserOut], Nested(Page([USER]), [(Direct(USER),)])),
    "redefined": (Redefined[UserOut], Redefined(USER)),
    "named tuple": (Row[UserOut], Row([USER], USER)),
    "typed dict": (Doc[UserOut], {"items": [USER]}),
    "inherited typed dict": (LargerDoc[UserOut, int], {"items": [USER], "other": 1}),
    "model in a dataclass": (OfModels[UserOut], OfModels(Inner[UserOut](item=USER))),
    "in a model": (Holder, Holder(page=Page([USER]))),
    "in a union": (Page[UserOut] | None, Page([USER])),
    "in a list": (list[Page[UserOut]], [Page([USER])]),
}


@pytest.mark.parametrize(("annotation", "value"), CASES.values(), ids=CASES)
def test_what_the_argument_of_a_generic_type_leaves_out_is_not_stored(annotation: Any, value: Any) -> None:
    codec = codec_for(annotation)
    data = codec.encode(value)
    back = codec.decode(data)
    assert b"hunter2" not in data and "hunter2" not in repr(back)
    assert type(back) is type(value) and repr(back) == repr(value).replace(repr(USER), repr(UserOut(id=1)))


@pytest.mark.parametrize(("annotation", "value"), CASES.values(), ids=CASES)
def test_a_value_that_fits_its_generic_type_is_not_copied(annotation: Any, value: Any) -> None:
    fitting = narrowed(annotation, value)
    assert narrowed(annotation, fitting) is fitting


def test_a_field_has_the_type_of_the_class_that_declares_it_last() -> None:
    assert narrowed(Diamond[UserOut], Diamond(USER)) == Diamond(UserOut(id=1))


INHERITED: list[tuple[Any, Any]] = [
    (Users, Users([USER])),
    (Wrapper[UserOut], Wrapper([USER])),
    (Swapped[str, UserOut], Swapped({"a": {"b": USER}}, USER, "a")),
]


@pytest.mark.parametrize(("annotation", "value"), INHERITED)
def test_what_pydantic_itself_does_not_filter_is_not_stored_with_more_than_it_declares(
    annotation: Any, value: Any
) -> None:
    with pytest.raises(UnsupportedValue):
        codec_for(annotation).encode(value)
    expected = repr(value).replace(repr(USER), repr(UserOut(id=1)))
    assert repr(narrowed(annotation, value)) == expected


def test_attributes_beside_the_fields_are_not_lost_in_silence() -> None:
    value = Page([USER])
    value.note = "kept"  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedValue):
        codec_for(Page[UserOut]).encode(value)


async def test_all_callers_get_what_is_declared() -> None:
    async with StampedeGuard.from_url("memory://", namespace="generics") as guard:

        @guard.locked_cache(ttl=60)
        async def page() -> Page[UserOut]:
            return Page([USER])

        for source in ("computed", "hit"):
            found = await page.with_info()
            assert (found.source, found.value) == (source, Page([UserOut(id=1)]))
            assert type(found.value.items[0]) is UserOut
