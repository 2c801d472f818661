"""Parts of a value that equality does not see: a repeated hour, and how a generic class was called."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Generic, TypeVar

import pydantic
import pytest

from stampede_guard import StampedeGuard
from stampede_guard.values.codec import codec_for

T = TypeVar("T")
MOMENT = datetime.datetime(2024, 10, 27, 2, 30, fold=1)


class Model(pydantic.BaseModel):
    at: Any
    declared: datetime.datetime = MOMENT


class Declared(pydantic.BaseModel):
    at: datetime.datetime


class Clock(pydantic.BaseModel):
    at: datetime.time


@dataclasses.dataclass
class Record:
    at: datetime.datetime


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Declared, Declared(at=MOMENT)),
        (Model, Model(at=MOMENT)),
        (Clock, Clock(at=MOMENT.time())),
        (Record, Record(MOMENT)),
        (list[Declared], [Declared(at=MOMENT)]),
        (datetime.datetime, MOMENT),
        (Any, Declared(at=MOMENT)),
    ],
    ids=str,
)
@pytest.mark.parametrize("fold", [0, 1])
def test_the_second_time_of_a_repeated_hour_comes_back_as_the_second(
    annotation: Any, value: Any, fold: int
) -> None:
    one = value[0] if isinstance(value, list) else value
    if not isinstance(one, datetime.datetime):
        one = type(one)(at=one.at.replace(fold=fold))
    given: Any = [one] if isinstance(value, list) else one
    codec = codec_for(annotation)
    back = codec.decode(codec.encode(given))
    back = back[0] if isinstance(value, list) else back
    assert getattr(back, "at", back).fold == getattr(one, "at", one).fold


@pytest.mark.parametrize("annotation", [Page[int], Page, Any, list[Page[int]]], ids=str)
async def test_a_generic_dataclass_that_was_called_with_its_arguments_is_cached(annotation: Any) -> None:
    async with StampedeGuard.from_url("memory://", namespace="n") as guard:

        async def page() -> Any:
            made = Page[int]([1])
            return [made] if annotation == list[Page[int]] else made

        page.__annotations__["return"] = annotation
        cached = guard.locked_cache(ttl=60)(page)
        for source in ("computed", "hit"):
            found = await cached.with_info()
            assert (found.source, found.value) == (source, await page())
