"""The parameters that are read are those with which Python calls the object."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import pytest

from stampede_guard.values.arguments.signatures import signature_of


def pair(a: int, b: int) -> tuple[int, int]:
    return a, b


class Usual:
    def __call__(self, a: int, b: int) -> tuple[int, int]:
        return a, b


class Static:
    __call__ = staticmethod(pair)


class OfClass:
    @classmethod
    def __call__(cls, a: int, b: int) -> tuple[int, int]:
        return a, b


class Heir(Static):
    pass


class Described:
    __signature__ = signature_of(pair)

    def __call__(self, *args: Any) -> Any:
        return args


OBJECTS = {
    "function": pair,
    "lambda": lambda a, b: (a, b),
    "method": Usual().__call__,
    "object": Usual(),
    "static": Static(),
    "inherited": Heir(),
    "of the class": OfClass(),
    "described": Described(),
    "partial of a partial": functools.partial(functools.partial(lambda c, a, b: (a, b), 0)),
}


@pytest.mark.parametrize("what", OBJECTS)
def test_they_are_all_that_a_call_needs(what: str) -> None:
    given: Any = OBJECTS[what]
    signature = signature_of(given)
    assert list(signature.parameters) == ["a", "b"]
    assert given(*signature.bind(1, 2).args) == (1, 2)


@pytest.mark.parametrize("what", OBJECTS)
def test_a_partial_needs_what_it_does_not_bring(what: str) -> None:
    given: Any = functools.partial(OBJECTS[what], 1)
    assert list(signature_of(given).parameters) == ["b"]
    assert given(2) == (1, 2)


@pytest.mark.parametrize(
    "given",
    [mock.AsyncMock(), functools.partial(mock.AsyncMock()), mock.AsyncMock(spec=pair)],
    ids=["mock", "partial of a mock", "mock with a spec"],
)
def test_mocks_can_be_read(given: Any) -> None:
    assert signature_of(given).bind(1, 2)


@pytest.mark.parametrize("given", [min, functools.partial(min), functools.partial(pair, 1, 2, 3), 7])
def test_what_cannot_be_read_is_an_error_of_pythons_own_kind(given: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        signature_of(given)
