"""A function of many ids as an endpoint: the response model of its route describes a dict of the values."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from fastapi import FastAPI

from stampede_guard import StampedeGuard
from stampede_guard.stores.memory import MemoryStore
from tests.integration.fastapi.cases import client_of, row
from tests.integration.fastapi.models import SECRET, UserOut, UserRow


class Wide(UserOut):
    age: int


class Users(pydantic.RootModel[dict[int, UserOut]]):
    pass


@pytest.mark.parametrize(
    ("annotation", "model", "make", "expected"),
    [
        (None, dict[int, UserOut], row, {"id": 7, "name": "ann"}),
        (dict[int, UserRow], dict[int, UserOut], row, {"id": 7, "name": "ann"}),
        (dict[int, UserOut], dict[int, UserOut], row, {"id": 7, "name": "ann"}),
        (None, dict[int, Wide], lambda: {"id": 7, "name": "ann", "age": 3, "password": SECRET},
         {"id": 7, "name": "ann", "age": 3}),
        (dict[int, UserOut], Users, row, {"id": 7, "name": "ann"}),
    ],
)  # fmt: skip
async def test_each_value_is_stored_as_the_route_declares_it(
    annotation: Any, model: Any, make: Any, expected: Any
) -> None:
    guard, computed = StampedeGuard(MemoryStore(), namespace="many"), []
    app = FastAPI()
    guard.install(app)

    async def users(ids: list[int]):  # type: ignore[no-untyped-def]
        computed.append(ids)
        return {id: make() for id in ids}

    if annotation is not None:
        users.__annotations__["return"] = annotation
    app.post("/users", response_model=model)(guard.cached_many(ttl=60)(users))
    async with client_of(app) as client:
        answers = [(await client.post("/users", json=[1, 2])).json() for _ in range(2)]
    assert answers == [{"1": expected, "2": expected}] * 2
    assert computed == [[1, 2]], "a hit answers the second request"
