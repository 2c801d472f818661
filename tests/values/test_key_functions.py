"""`key=` as a function: it gets every parameter of the call, by its name or in its place, with the defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Query

from stampede_guard.errors import KeyPartError
from stampede_guard.values.keys import KeyBuilder


async def orders(user: Any, page: int = 1, *, deep: bool = False) -> None: ...


async def listed(user: Any, page: int = Query(3)) -> None: ...


async def many(first: int, *rest: int, **named: int) -> None: ...


async def by_position(user: Any, /, page: int = 1) -> None: ...


def built(function: Callable[..., Any], key: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    return KeyBuilder(function, key=key, name="f").build(args, kwargs)


def seen(function: Callable[..., Any], key: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    got: list[Any] = []

    @functools.wraps(key)
    def noting(*args: Any, **kwargs: Any) -> str:
        got.append(key(*args, **kwargs))
        return "x"

    KeyBuilder(function, key=noting, name="f").build(args, kwargs)
    return got


@pytest.mark.parametrize(
    "key",
    [
        lambda user, page, deep: (user, page, deep),
        lambda deep, page, user: (user, page, deep),
        lambda user, page=5, deep=None: (user, page, deep),
        lambda user, **others: (user, others["page"], others["deep"]),
        lambda **named: (named["user"], named["page"], named["deep"]),
        lambda u, p, *, deep: (u, p, deep),
        lambda *args, deep: (*args, deep),
    ],
)
def test_it_gets_every_parameter_however_the_call_was_written(key: Callable[..., Any]) -> None:
    for args, kwargs in (
        ((7, 1), {}),
        ((7,), {}),
        ((), {"page": 1, "user": 7}),
        ((), {"user": 7, "deep": False}),
    ):
        assert seen(orders, key, *args, **kwargs) == [(7, 1, False)]


def test_parameters_of_every_kind_reach_it() -> None:
    assert seen(many, lambda first, *rest, **named: (first, rest, named), 1, 2, 3, a=4) == [
        (1, (2, 3), {"a": 4})
    ]
    assert seen(by_position, lambda user, page: (user, page), 7, page=2) == [(7, 2)]


def test_what_does_not_tell_its_parameters_gets_them_in_their_order() -> None:
    async def one(project: int) -> None: ...

    assert built(one, str, 7) == built(one, str, project=7) != built(one, str, 8)


def test_its_own_default_stands_for_one_that_only_fastapi_reads() -> None:
    assert seen(listed, lambda user, page=1: (user, page), 7) == [(7, 1)]


@pytest.mark.parametrize(
    "key",
    [
        lambda user: user,
        lambda user, page: (user, page),
        lambda: "all",
        lambda page, user, deep, more: "x",
        lambda page, other, *, deep: "swapped",
    ],
)
def test_one_that_cannot_take_a_call_is_refused_at_decoration(key: Callable[..., Any]) -> None:
    with pytest.raises(
        KeyPartError, match=r"key= of f\(\) gets every parameter of a call \(user, page, deep\)"
    ) as caught:
        KeyBuilder(orders, key=key, name="f")
    assert "write key=lambda user, page, deep: ..." in str(caught.value)
    assert "key='{user}:{page}:{deep}'" in str(caught.value)


def test_a_resource_is_no_part_of_a_call() -> None:
    async def with_db(user: Any, db: Any) -> None: ...

    assert KeyBuilder(with_db, resources=["db"], key=lambda user: user, name="f").build((7,), {})
    with pytest.raises(KeyPartError, match=r"'db' is in resources=, and opened after the key is made"):
        KeyBuilder(with_db, resources=["db"], key=lambda user, db: user, name="f")
