"""The figures of requests that the cache cannot help."""

from __future__ import annotations

from bench.http.uncacheable import measure


async def test_distinct_private_urls_send_no_command_behind_the_middleware(valkey_url: str) -> None:
    found = await measure(valkey_url, calls=20, rounds=5)
    assert set(found) == {"alone", "first", "behind", "excluded"}
    assert found["first"]["commands"] > 0
    assert found["alone"]["commands"] == found["behind"]["commands"] == found["excluded"]["commands"] == 0
