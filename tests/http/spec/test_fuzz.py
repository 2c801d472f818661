"""Whatever bytes come as fields: no exception escapes, and what cannot be read is not reused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.http.spec import (
    dates,
    directives,
    fields,
    freshness,
    invalidation,
    ranges,
    reuse,
    storing,
    updating,
    validation,
    vary,
)
from stampede_guard.http.spec.message import Fields, Request, Response

NOW = 1_750_000_000.0
NAMES = st.sampled_from(
    [
        b"cache-control", b"cdn-cache-control", b"expires", b"date", b"age", b"vary", b"etag", b"last-modified",
        b"if-none-match", b"if-modified-since", b"range", b"if-range", b"content-range", b"content-length",
        b"connection", b"pragma", b"location", b"content-location", b"set-cookie", b"authorization", b"foo",
    ]
)  # fmt: skip
WORDS = st.sampled_from(
    [
        b"max-age", b"s-maxage", b"no-store", b"no-cache", b"private", b"public", b"stale-while-revalidate", b"=",
        b"=60", b'"', b"\\", b",", b";", b" ", b"\t", b"-", b"0", b"99999999999999999999", b"bytes", b"bytes=",
        b"W/", b"*", b"GMT", b"Thu, 18 Aug 2050 02:01:18", b"/", b"[", b":", b"\x00", b"\xff", b"?1", b"1.5",
    ]
)  # fmt: skip
VALUES = st.lists(WORDS | st.binary(max_size=6), max_size=8).map(b"".join)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=8).map(tuple)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "M-SEARCH"])


@given(FIELDS, FIELDS, METHODS, st.integers(min_value=100, max_value=999), st.binary(max_size=12))
def test_no_exception_escapes(asked: Fields, given_: Fields, method: str, status: int, body: bytes) -> None:
    response = Response(status, given_, body)
    told = directives.effective(given_, (b"cdn-cache-control",))
    life = freshness.lifetime(response, told, received_at=NOW)
    assert 0 <= life.seconds <= max(directives.MOST_SECONDS, 1e12)
    assert freshness.corrected_initial_age(given_, requested_at=NOW - 1, received_at=NOW) >= 0
    storing.may_store(Request(method, "http://a/", asked), response, told, life)
    kept = storing.stored_fields(response, told)
    assert not fields.has(kept, b"connection")
    situation = reuse.Situation(1.0, life.seconds, told)
    reuse.verdict(situation, asked)
    reuse.may_serve_on_error(situation, asked)
    names = vary.names_in_vary(given_)
    if names is not None:
        vary.nominated(asked, names)
    validation.is_not_modified(asked, given_, now=NOW)
    updating.freshened(response, Response(304, asked))
    updating.head_verdict(response, Response(200, asked))
    wanted, held = ranges.requested_range(asked), ranges.content_range(response)
    if wanted is not None:
        part = ranges.partial(response, held, wanted)
        assert part is None or len(part.body) <= len(body)
    ranges.if_range_holds(asked, given_, now=NOW)
    invalidation.invalidated_targets(method, "https://example.org/a", response)


@given(VALUES)
def test_a_date_is_a_number_or_nothing(value: bytes) -> None:
    found = dates.parse_date(value, now=NOW)
    assert found is None or isinstance(found, float)


@given(VALUES, METHODS)
def test_what_forbids_storing_is_seen_in_any_surroundings(value: bytes, method: str) -> None:
    if value.count(b'"') % 2 or b"\\" in value or b'"' in value:
        return  # within an open quote it is no directive
    for word in (b"no-store", b"private"):
        line = (b"cache-control", value + b"," + word)
        response = Response(200, (line, (b"expires", b"Thu, 18 Aug 2050 02:01:18 GMT")))
        told = directives.cache_control(response.fields)
        if word == b"private" and told.names(b"private"):
            continue
        if word == b"no-store" and b"must-understand" in told:
            continue
        life = freshness.lifetime(response, told, received_at=NOW)
        assert storing.may_store(Request("GET", "http://a/"), response, told, life) is not None
