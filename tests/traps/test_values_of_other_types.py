"""Values that do not fit their annotation, or fail when they are read: served, not stored, and never an error."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Annotated, Any

import pydantic
import pytest
from typing_extensions import TypeAliasType

from stampede_guard import UnsupportedValue
from stampede_guard.values.codec import codec_for
from tests.support.fixtures import guards_on
from tests.support.guards import Guards

guards = guards_on("memory")


class Price(pydantic.BaseModel):
    amount: int = 1


class Comment(pydantic.BaseModel):
    answers: list[Comment] = []


class Proxy:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def assigned() -> Price:
    price = Price()
    price.amount = "free"  # type: ignore[assignment]  # pydantic does not look at it
    return price


def circle() -> Comment:
    comment = Comment()
    comment.answers.append(comment)
    return comment


def deep() -> Comment:
    comment = Comment()
    for _ in range(2000):
        comment = Comment.model_construct(answers=[comment])
    return comment


VALUES: dict[str, tuple[Any, Any]] = {
    "a field that was assigned": (Price, assigned),
    "a field that was never validated": (Price, lambda: Price.model_construct(amount="free")),
    "a field of a list of models": (list[Price], lambda: [assigned()]),
    "a model in itself": (Comment, circle),
    "a model that is nested too deeply": (Comment, deep),
    "an object whose attributes raise": (Any, Proxy),
}


@pytest.mark.parametrize("case", VALUES)
async def test_it_is_served_and_not_stored(case: str, guards: Guards) -> None:
    annotation, make = VALUES[case]
    made: list[Any] = []

    async def load() -> Any:
        made.append(make())
        return made[-1]

    load.__annotations__["return"] = annotation
    lenient = guards.guard().locked_cache(ttl=60, name="lenient")(load)
    assert type(await lenient()) is type(made[0])
    await lenient()
    assert len(made) == 2
    with pytest.raises(UnsupportedValue):
        await guards.guard().locked_cache(ttl=60, name="strict", strict=True)(load)()
    with pytest.raises(UnsupportedValue):
        await lenient.set(make())


async def test_the_error_names_the_type_that_does_not_fit(guards: Guards) -> None:
    with pytest.raises(UnsupportedValue, match="holds a str in a place that is declared otherwise"):
        codec_for(Price).encode(assigned())


# --- types that use themselves ------------------------------------------------------------------------

Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")  # type: ignore[misc]


class Document(pydantic.BaseModel):
    content: pydantic.JsonValue
    more: Json = None


TREE = {"a": [1, "b", None, {"c": {}}]}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (pydantic.JsonValue, TREE),
        (dict[str, pydantic.JsonValue], TREE),
        (Json, TREE),
        (Annotated[Json, "of a page"] | None, TREE),
        (list[Json], [TREE, 5]),
        (Document, Document(content=TREE, more=TREE)),
    ],
    ids=str,
)
def test_a_type_that_uses_itself_can_be_stored(annotation: Any, value: Any) -> None:
    codec = codec_for(annotation)
    assert codec.decode(codec.encode(value)) == value
    with pytest.raises(UnsupportedValue):
        codec.encode({1: object()})


async def test_a_parameter_of_such_a_type_is_part_of_the_key(guards: Guards) -> None:
    @guards.guard().locked_cache(ttl=60)
    async def count(filters: Json, more: pydantic.JsonValue = None) -> int:
        return len(str(filters))

    assert await count(TREE) == len(str(TREE))
    assert count.key(TREE) != count.key({"a": []})
    assert await count.invalidate(TREE) == "done"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this syntax is Python 3.12's")
def test_the_statement_may_use_itself_and_take_parameters() -> None:
    module = ModuleType("aliases")
    sys.modules["aliases"] = module
    exec(
        "type Tree = dict[str, Tree] | int\n"
        "type Swapped[A, B] = dict[B, list[A]]\n"
        "type Maybe[T] = T | None\n",
        vars(module),
    )
    try:
        for annotation, value in (
            (module.Tree, {"a": {"b": 1}}),
            (module.Swapped[int, str], {"a": [1]}),
            (module.Maybe[int], None),
        ):
            codec = codec_for(annotation)
            assert codec.decode(codec.encode(value)) == value
    finally:
        del sys.modules["aliases"]
