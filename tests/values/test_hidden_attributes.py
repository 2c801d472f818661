"""Attributes that the usual look at an object does not show as they are: two slots of one name, a `__dict__` that a
class defines itself, and values that only cache others.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

from stampede_guard.values.parts.parts import Unkeyable, text_of


class Slotted:
    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        Slotted.place.__set__(self, place)  # type: ignore[attr-defined]


class SlottedAgain(Slotted):
    __slots__ = ("place",)

    def __init__(self, place: int, own: int) -> None:
        super().__init__(place)
        self.place = own


class WithDictionary(Slotted):
    def __init__(self, place: int, own: int) -> None:
        super().__init__(place)
        vars(self)["place"] = own


@pytest.mark.parametrize("kind", [SlottedAgain, WithDictionary])
def test_attributes_of_one_name_at_two_places_are_both_in_the_key(kind: Callable[[int, int], Any]) -> None:
    assert len({text_of(kind(*places)) for places in [(1, 1), (1, 2), (2, 1), (2, 2)]}) == 4


def shown(self: Any) -> dict[str, int]:
    return {"shown": 1}


class Base:
    def __init__(self, number: int) -> None:
        self.number = number


class Showing(Base):
    __dict__ = property(shown)


class SlottedShowing:
    __slots__ = ("number",)
    __dict__ = property(shown)

    def __init__(self, number: int) -> None:
        self.number = number


class Hiding:
    __dict__ = property(shown)

    def __init__(self, number: int) -> None:
        self.number = number


@dataclasses.dataclass
class HidingRecord:
    number: int
    __dict__ = property(shown)


@pytest.mark.parametrize("kind", [Showing, SlottedShowing])
def test_a_dictionary_that_a_class_shows_is_not_the_one_in_the_key(kind: Callable[[int], Any]) -> None:
    assert text_of(kind(1)) != text_of(kind(2))
    assert "number=1" in text_of(kind(1))


@pytest.mark.parametrize("kind", [Hiding, HidingRecord])
def test_an_object_whose_dictionary_nobody_can_read_is_refused(kind: Callable[[int], Any]) -> None:
    with pytest.raises(Unkeyable, match="not in attributes"):
        text_of(kind(1))


def twice(self: Any) -> int:
    return 2 * int(self.number)


class Cached(Base):
    twice = functools.cached_property(twice)


class CachedAgain(Cached):
    twice = functools.cached_property(twice)


@dataclasses.dataclass(frozen=True)
class CachedRecord:
    number: int
    twice = functools.cached_property(twice)


class CachedModel(pydantic.BaseModel):
    number: int

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @functools.cached_property
    def twice(self) -> int:
        return 2 * self.number


class CachedStruct(msgspec.Struct, dict=True):
    number: int
    twice = functools.cached_property(twice)


@attrs.define
class CachedAttrs:
    number: int

    @functools.cached_property
    def twice(self) -> int:
        return 2 * self.number


@attrs.frozen
class Below(CachedAttrs):
    more: int = 0

    @functools.cached_property
    def thrice(self) -> int:
        return 3 * self.number


class PlainBelow(Below):
    pass


class CachedList(list[int]):
    number = 1
    twice = functools.cached_property(twice)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cached(1), lambda: CachedAgain(1), lambda: CachedRecord(1), lambda: CachedModel(number=1),
        lambda: CachedStruct(1), lambda: CachedAttrs(1), lambda: Below(1), lambda: PlainBelow(1),
        lambda: CachedList([1]),
    ],
)  # fmt: skip
def test_the_key_does_not_depend_on_whether_a_cached_property_was_read(make: Callable[[], Any]) -> None:
    untouched, read = make(), make()
    assert read.twice == 2
    assert getattr(read, "thrice", 3) == 3
    assert text_of(untouched) == text_of(read)


class Given(Cached):
    """Replaces the property of its base by a plain attribute."""

    twice = 0

    def __init__(self, number: int, twice: int) -> None:
        super().__init__(number)
        self.twice = twice


def test_an_attribute_that_replaces_a_cached_property_is_in_the_key() -> None:
    assert text_of(Given(1, 2)) != text_of(Given(1, 3))


@attrs.define
class Repeated(CachedAttrs):
    number: int


def test_a_slot_that_attrs_uses_again_is_one_attribute() -> None:
    assert text_of(Repeated(1)).endswith("Repeated(number=1)")
