"""Fixtures that are made for a list of stores. They import the package when a test asks for them, not before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from tests.support.guards import Guards

__all__ = ["guards_on"]


def guards_on(*stores: Literal["memory", "valkey", "cluster"]) -> Any:
    """A fixture: `Guards` on each of these stores, one after the other."""

    @pytest.fixture(params=stores)
    async def guards(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Guards]:
        from tests.support.guards import Guards

        match request.param:
            case "memory":
                url = "memory"
            case "valkey":
                url = request.getfixturevalue("valkey_url")
            case _:
                port = request.getfixturevalue("valkey_cluster").servers[0].port
                url = f"redis+cluster://127.0.0.1:{port}"
        async with Guards(url, namespace) as made:
            yield made

    return guards
