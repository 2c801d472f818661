"""Fields written to be slow to read: the time that one takes grows like its length, or one request stops a process."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stampede_guard.http.requests.entries import target_of
from stampede_guard.http.requests.routes import CacheRoute
from stampede_guard.http.spec import (
    dates,
    directives,
    fields,
    freshness,
    invalidation,
    ranges,
    reuse,
    validation,
    vary,
)
from stampede_guard.http.spec.message import Response

LENGTH = 12_000
MOST_SECONDS = 40
"""For all fields of one function. A square of the length is minutes."""

UNITS = [
    b" ",
    b"\t",
    b'"',
    b",",
    b";",
    b"=",
    b"\\",
    b"a ",
    b'a" ',
    b'W/"',
    b"0",
    b"-",
    b"[",
    b":",
    b"; ",
    b'"a" ',
]
UNITS += [b'\\"', b"a=", b'a="', b",  ", b"/a", b"%2", b"a-", b"./", b"a,", b"gzip;q=0.5, ", b"a;q="]
AROUND = [(b"", b""), (b"a", b"b c"), (b"bytes=", b"x"), (b"max-age=1", b'"'), (b"/", b"!")]

READERS: dict[str, Callable[[bytes], Any]] = {
    "if-none-match": lambda text: validation.is_not_modified(
        ((b"if-none-match", text),), ((b"etag", b'"x"'),), now=0.0
    ),
    "if-modified-since": lambda text: dates.parse_date(text, now=0.0),
    "if-range": lambda text: ranges.if_range_holds(((b"if-range", text),), ((b"etag", b'"x"'),), now=0.0),
    "range": lambda text: ranges.requested_range(((b"range", text),)),
    "cache-control": lambda text: directives.cache_control(((b"cache-control", text),)).names(b"no-cache"),
    "of a request": lambda text: reuse.request_directives(((b"pragma", text),)),
    "cdn-cache-control": lambda text: directives.targeted(((b"c", text),), b"c"),
    "age": lambda text: freshness.age_value(((b"age", text),)),
    "vary": lambda text: vary.names_in_vary(((b"vary", text),)),
    "accept-encoding": lambda text: vary.normal_value(b"accept-encoding", text),
    "accept-language": lambda text: vary.normal_value(b"accept-language", text),
    "any": lambda text: vary.normal_value(b"any", text),
    "content-range": lambda text: ranges.content_range(Response(206, ((b"content-range", text),))),
    "connection": lambda text: fields.without_hops(((b"connection", text),)),
    "location": lambda text: invalidation.invalidated_targets(
        "POST", "http://a/b", Response(200, ((b"location", text),))
    ),
    "host": lambda text: target_of({"path": "/"}, ((b"host", text),)),
    "path": lambda text: CacheRoute("/*a/*-a/b*/*", ttl=1).matches(text),
}


@contextmanager
def soon(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"not read after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", READERS)
def test_a_long_field_is_read_in_a_time_like_its_length(name: str) -> None:
    with soon(MOST_SECONDS):
        for unit, (before, after) in itertools.product(UNITS, AROUND):
            READERS[name](before + unit * (LENGTH // len(unit)) + after)
