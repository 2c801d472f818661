"""Fixtures that are made for a list of stores. They import the package when a test asks for them, not before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from tests.support.guards import Guards

__all__ = ["guards_on"]


def guards_on(*stores: Literal["memory", "valkey", "cluster"]) -> Any:
    """A fixture: `Guards` on each of these stores, one after the other.

    No test stops these servers. So times that are meant for a store that is away or slow are so long here that a busy
    machine does not reach them: that of an answer, and that in which a batch is gathered.
    """

    @pytest.fixture(params=stores)
    async def guards(
        request: pytest.FixtureRequest, namespace: str, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[Guards]:
        from tests.support.guards import Guards
        from tests.support.sessions import LONG

        monkeypatch.setattr("stampede_guard.engine.flights.batch.GATHER_SECONDS", LONG)

        match request.param:
            case "memory":
                url = "memory"
            case "valkey":
                url = request.getfixturevalue("valkey_url")
            case _:
                port = request.getfixturevalue("valkey_cluster").servers[0].port
                url = f"redis+cluster://127.0.0.1:{port}"
        async with Guards(url, namespace, deadline=LONG) as made:
            yield made

    return guards
