"""An argument that is a generic class with its arguments, as `Page[int](...)`, is a key like one of a plain class."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar

import msgspec
import pydantic
import pytest

from stampede_guard import KeyPartError, StampedeGuard

T = TypeVar("T")
Bound = TypeVar("Bound", bound=int)
Number = NewType("Number", int)


class Model(pydantic.BaseModel, Generic[T]):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    items: list[T]


@dataclasses.dataclass
class Record(Generic[T]):
    items: list[T]


class Struct(msgspec.Struct, Generic[T]):
    items: list[T]


class Plain(Generic[T]):
    def __init__(self, items: list[T]) -> None:
        self.items = items


def key_of(value: Any) -> str:
    guard = StampedeGuard.from_url("memory://", namespace="generic")

    @guard.locked_cache(ttl=60)
    async def load(page: Any) -> int:
        raise AssertionError(page)

    key: str = load.key(value)
    return key


ARGUMENTS = [
    int, str, None, int | None, list[int], list[str], Literal["int"], Literal[1], Callable[[int], str],
    Callable[[str], str], Annotated[int, "positive"], Number, Bound, Any,
]  # fmt: skip


@pytest.mark.parametrize("generic", [Model, Record, Plain])
def test_each_argument_of_a_generic_class_has_a_key_of_its_own(generic: Any) -> None:
    keys = [key_of(generic[argument](items=[])) for argument in ARGUMENTS]
    assert len({*keys, key_of(generic(items=[]))}) == len(ARGUMENTS) + 1
    assert [key_of(generic[argument](items=[])) for argument in ARGUMENTS] == keys
    assert key_of(generic[generic[int]](items=[])) != key_of(generic[generic[str]](items=[]))


@pytest.mark.parametrize("generic", [Model, Record, Plain, Struct])
async def test_a_computation_is_served_with_it(generic: Any) -> None:
    async with StampedeGuard.from_url("memory://", namespace="generic") as guard:

        @guard.locked_cache(ttl=60)
        async def load(page: Any) -> int:
            return len(page.items)

        for source in ("computed", "hit"):
            found = await load.with_info(generic[int](items=[1, 2]))
            assert (found.source, found.value) == (source, 2)


def test_a_struct_does_not_know_how_it_was_called() -> None:
    assert key_of(Struct[int](items=[1])) != key_of(Struct[str](items=["1"]))
    assert key_of(Struct[int](items=[])) == key_of(Struct(items=[]))


@pytest.mark.parametrize("generic", [Model, Record])
def test_two_classes_of_one_name_from_two_modules_are_two_arguments(generic: Any) -> None:
    found = []
    for module in ("one", "another"):
        there = types.ModuleType(f"tests.values.{module}_with_an_item")
        sys.modules[there.__name__] = there
        exec("class Item: pass", vars(there))
        found.append(generic[there.Item])
    assert key_of(found[0](items=[])) != key_of(found[1](items=[]))


@pytest.mark.parametrize("generic", [Model, Record])
def test_an_argument_from_inside_a_function_is_told_apart_or_refused(generic: Any) -> None:
    def made() -> Any:
        class Item:
            pass

        return generic[Item]

    guard, (one, another) = StampedeGuard.from_url("memory://", namespace="generic"), (made(), made())

    @guard.locked_cache(ttl=60)
    async def load(page: Any) -> int:
        raise AssertionError(page)

    load.key(one(items=[]))
    with pytest.raises(KeyPartError, match="another class of this name"):
        load.key(another(items=[]))


PROGRAM = """
from tests.values.test_generic_keys import Model, key_of
{first}
def run():
    print(key_of(Model[float](items=[1.0])))
run()
"""


def test_the_key_does_not_depend_on_where_the_class_was_first_used() -> None:
    """Pydantic puts a class that is first used at the top of a module into that module."""
    keys = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(first=first)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True, text=True, check=True,
        ).stdout
        for first in ("", "Model[float]", "import tests.values.test_generic_keys as m; exec('Model[float]', vars(m))")
    }  # fmt: skip
    assert len(keys) == 1
