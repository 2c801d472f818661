"""Fields of megabytes are read in a time that grows like their length.

Measured is the growth of the processor time of this thread over eight times the length: a square would be 64 times.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stampede_guard.http.requests import requester
from stampede_guard.http.spec import directives, reuse
from tests.http.spec.test_hostile import READERS

SHORT, LONG = 32 * 1024, 256 * 1024
MOST = 30
"""Times. Eight are expected."""
UNITS = [
    b"x=1,",
    b"no-cache=a,",
    b'private="a",',
    b"x,",
    b'"',
    b"a ",
    b'a", ',
    b"a=(b c),",
    b"a;b=1,",
    b"\\",
    b", ",
]
UNITS += [
    b"max-age=1,",
    b"stale-if-error=60, ",
    b'W/"a", ',
    b"gzip;q=0.5,",
    b"a;q=0.1;",
    b"9",
    b" ",
    b"=",
    b"=(",
]

ALL: dict[str, Callable[[bytes], Any]] = READERS | {
    "effective": lambda text: directives.effective(((b"cache-control", text),), (b"cdn-cache-control",)),
    "targeted": lambda text: directives.effective(((b"cdn-cache-control", text),), (b"cdn-cache-control",)),
    "a client's": lambda text: reuse.request_directives(((b"cache-control", text),)),
    "forwarded": lambda text: requester.forwarded_part(
        {b"forwarded"}, ((b"forwarded", text),), scheme="http", host="a"
    ),
    "who asks": lambda text: requester.requester({}, ((b"x-any", text),)),
}


def seconds(read: Callable[[bytes], Any], text: bytes, *, enough: float = 0.0) -> float:
    """The least of two. A time of at most `enough` is not measured again."""
    found: list[float] = []
    while len(found) < 2 and (not found or found[0] > enough):
        began = time.thread_time()
        read(text)
        found.append(time.thread_time() - began)
    return min(found)


@pytest.mark.parametrize("name", ALL)
def test_the_time_to_read_a_field_grows_like_its_length(name: str) -> None:
    read = ALL[name]
    for unit in UNITS:
        short = seconds(read, unit * (SHORT // len(unit)))
        # Too short to be measured is short enough.
        most = max(0.05, MOST * max(short, 0.0005))
        long = seconds(read, unit * (LONG // len(unit)), enough=most)
        assert long <= most, (unit, short, long)


@pytest.mark.parametrize("name", ["effective", "targeted", "a client's", "vary", "if-none-match"])
@pytest.mark.parametrize("unit", [b"x=1,", b'no-cache="a",'])
def test_it_does_up_to_four_megabytes(name: str, unit: bytes) -> None:
    # Measured once, the shorter one may only seem to take longer, but not by a factor of eight.
    most = MOST * max(seconds(ALL[name], unit * (512 * 1024 // len(unit)), enough=math.inf), 0.001)
    assert seconds(ALL[name], unit * (4 * 1024 * 1024 // len(unit)), enough=most) <= most


def test_many_lines_are_one_list_and_read_once() -> None:
    def of_lines(count: int) -> float:
        fields = tuple((b"cache-control", b"x=1, no-cache=a") for _ in range(count))
        return seconds(lambda _: directives.cache_control(fields), b"", enough=math.inf)

    assert of_lines(80_000) <= MOST * max(of_lines(10_000), 0.0005)


def test_unknown_directives_are_dropped() -> None:
    text = b"x=1," * 100_000 + b'max-age=60, no-cache="a", no-cache="b"'
    found = directives.cache_control(((b"cache-control", text),))
    assert dict(found.values) == {b"max-age": b"60", b"no-cache": b"a,b"}


def test_each_test_that_the_page_names_is_there() -> None:
    here = Path(__file__).parents[1]
    page = (here.parent / "docs" / "guarantees.md").read_text("utf-8")
    rows = [line for line in page.partition("## Threat model")[2].splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 19
    for row in rows:
        named = re.findall(r"`([a-z_0-9]+)\.(test_[a-z_0-9]+)`", row.rsplit("|", 2)[1])
        assert named, row
        for module, name in named:
            found = [path for path in here.rglob(f"{module}.py") if f"def {name}(" in path.read_text("utf-8")]
            assert len(found) == 1, (module, name)
