"""The texts of tags: templates, what may stand in them, and what is refused."""

from __future__ import annotations

import enum
import re
import uuid
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import KeyPartError, Misuse
from tests.support.sessions import patient


class Colour(enum.Enum):
    RED = "red"


A_UUID = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("value", "tag"),
    [(7, "7"), ("x y", "x y"), (True, "True"), (None, "None"), (A_UUID, str(A_UUID)), (Colour.RED, "red")],
    ids=str,
)
async def test_a_tag_is_written_as_a_format_string_writes_its_argument(value: Any, tag: str) -> None:
    async with StampedeGuard.from_url("memory://") as guard:
        calls: list[Any] = []

        @guard.locked_cache(tags=("{{k}}:{thing}!",))
        async def f(thing: Any) -> None:
            calls.append(thing)

        await f(value)
        await guard.invalidate_tag("{k}:" + tag)
        await f(value)
        assert len(calls) == 1
        await guard.invalidate_tag("{k}:" + tag + "!")
        await f(value)
        assert len(calls) == 2


async def test_what_no_tag_can_be_made_of_is_named_by_its_parameter() -> None:
    async with StampedeGuard.from_url("memory://") as guard:

        @guard.locked_cache(tags=("k:{thing}",))
        async def f(thing: Any) -> None: ...

        with pytest.raises(KeyPartError, match=r"'thing' of .*f.. is a list") as raised:
            await f([1])
        assert raised.value.parameter == "thing"


@pytest.mark.parametrize(
    ("tags", "error", "text"),
    [
        (("project:{projekt}",), KeyPartError, "f() has no such parameter (it has: project"),
        (("p:{}",), Misuse, "has {} in it"),
        (("p:{0}",), Misuse, "has {0} in it"),
        (("p:{project!r}",), Misuse, "has {project!r} in it"),
        (("p:{project:>3}",), Misuse, "has {project:>3} in it"),
        (("p:{project.id}",), Misuse, "has {project.id} in it"),
        (("p:{project[0]}",), Misuse, "has {project[0]} in it"),
        (("p:{project",), Misuse, "is not a template"),
        (("p:{session}",), KeyPartError, "unkeyed"),
        (("p:{db}",), KeyPartError, "no such parameter"),
        (("p:{others}",), KeyPartError, "many arguments"),
        (("p:{options}",), KeyPartError, "many arguments"),
        ("project:{project}", Misuse, "must be a tuple"),
        (7, Misuse, "must be a tuple"),
        (("",), Misuse, "1 to 512 characters"),
        (("x" * 513,), Misuse, "1 to 512 characters"),
        ((7,), Misuse, "1 to 512 characters"),
        (tuple(map(str, range(17))), Misuse, "17 tags are too many"),
    ],
)  # fmt: skip
def test_a_template_that_cannot_be_filled_in_is_an_error_at_decoration(
    tags: Any, error: type[Exception], text: str
) -> None:
    guard = StampedeGuard.from_url("memory://")

    async def f(project: int, session: Any, *others: int, db: Any, **options: int) -> None: ...

    with pytest.raises(error, match=re.escape(text)):
        guard.locked_cache(tags=tags, unkeyed=("session",), resources={"db": object})(f)


@pytest.mark.parametrize("tag", ["", 7, None, ["a"]])
async def test_what_is_no_tag_cannot_be_invalidated(tag: Any) -> None:
    async with StampedeGuard.from_url("memory://") as guard:
        with pytest.raises(Misuse, match="a tag is a text"):
            await guard.invalidate_tag(tag)


async def test_texts_from_outside_are_bounded_and_do_not_meet(valkey_url: str, namespace: str) -> None:
    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as guard:
        computed: list[str] = []

        @guard.locked_cache(tags=("user:{name}",))
        async def greet(name: str) -> str:
            computed.append(name)
            return name

        names = ["a", "a}b", "{a}", "a%7Db", "x" * 10_000, "x" * 9_999 + "y", "ü\udc80", "a\r\nb"]
        for name in names:
            await greet(name)
        for name in names:
            computed.clear()
            await guard.invalidate_tag(f"user:{name}")
            for other in names:
                await greet(other)
            assert computed == [name]
