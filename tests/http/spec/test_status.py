"""What a `Cache-Status` field says: RFC 9211."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.status import CacheStatus


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (CacheStatus(hit=True, ttl=30), b"mine; hit; ttl=30"),
        (CacheStatus(hit=True, ttl=-5), b"mine; hit; ttl=-5"),
        (
            CacheStatus(forwarded="uri-miss", forwarded_status=200, stored=True, ttl=60),
            b"mine; fwd=uri-miss; fwd-status=200; stored; ttl=60",
        ),
        (CacheStatus(forwarded="stale", collapsed=True), b"mine; fwd=stale; collapsed"),
        (CacheStatus(forwarded="bypass", detail="credentials"), b"mine; fwd=bypass; detail=credentials"),
        (CacheStatus(hit=True, key='a "b" \\ \xe4'), b'mine; hit; key="a \\"b\\" \\\\ ?"'),
        (CacheStatus(forwarded="miss", detail="two words"), b'mine; fwd=miss; detail="two words"'),
    ],
)  # fmt: skip
def test_cache_status_is_written_as_structured_fields(status: CacheStatus, expected: bytes) -> None:
    assert status.serialise("mine") == expected
