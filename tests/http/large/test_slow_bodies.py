"""The age of a response counts from its fields, also while its body comes (RFC 9111, 4.2.3)."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard import CacheRoute
from tests.http.fleet import App, Fleet, cached, start
from tests.http.large.content import LARGE, OPTIONS, whole


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "unannounced"])
@pytest.mark.parametrize("size", [10, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    "seconds, routed, age", [(10, False, "10"), (100, False, "30"), (10, True, "0")], ids=str
)
async def test_the_time_that_a_body_takes_counts(
    size: int, announced: bool, seconds: int, routed: bool, age: str
) -> None:
    """At most for half of its lifetime: otherwise it would be useless to all who waited for it."""
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        headers = {} if routed else cached()
        if announced:
            headers["content-length"] = str(size)
        await start(send, headers)
        fleet.clock.advance(seconds)
        await send({"type": "http.response.body", "body": whole(number, size)})

    app.handler = handler
    routes = [CacheRoute("/*", ttl=60)] if routed else []
    async with Fleet(app, **OPTIONS, stream_timeout=60.0, routes=routes) as fleet:
        assert (await fleet.get()).body == whole(1, size)
        again = await fleet.get()
        assert (again.body, again.get("age"), app.calls) == (whole(1, size), age, 1)
