"""Whatever ranges are requested while a file changes: no response mixes the bytes of two versions."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.http.asgi import request
from tests.http.fleet import Fleet
from tests.http.parts.test_stored_parts import File, get
from tests.http.suite.play import Answer

LENGTHS = (40, 40, 64, 20)
"""Of the versions of the file, one after the other."""
BLOCKS = [f"bytes={first}-{first + 7}" for first in range(0, 64, 8)]
RANGES = st.sampled_from(
    [*BLOCKS, *BLOCKS[:5], "bytes=4-11", "bytes=20-", "bytes=-8", "bytes=-50", "bytes=0-1,3-4"]
)
KINDS = st.sampled_from(["range"] * 5 + ["if-range", "no-cache", "whole", "changed", "changed", "later"])
STEPS = st.lists(st.tuples(KINDS, RANGES, st.sampled_from(['"0"', '"1"', '"2"'])), min_size=3, max_size=12)


def body_of(version: int) -> bytes:
    return bytes((version * 70 + place) % 256 for place in range(LENGTHS[version % len(LENGTHS)]))


class Changing(File):
    """`weak`: so is the tag of each odd version."""

    def __init__(self, *, weak: bool, obeys: bool) -> None:
        super().__init__()
        self.version, self.weak, self.obeys_if_range = -1, weak, obeys
        self.change()

    def change(self) -> None:
        self.version += 1
        self.body = body_of(self.version)
        weak = "W/" if self.weak and self.version % 2 else ""
        self.fields["etag"] = f'{weak}"{self.version}"'


def check(answer: Answer, asked: dict[str, str], *, obeys: bool) -> None:
    if answer.status == 416:
        return
    if answer.status == 206 and obeys and "if_range" in asked:
        assert answer.get("etag") == asked["if_range"], "the client adds these bytes to those of that version"
    whole = body_of(int((answer.get("etag") or "").removeprefix("W/").strip('"')))
    if answer.status == 200:
        assert answer.body == whole and answer.get("content-range") is None
        return
    assert answer.status == 206 and "range" in asked
    told = (answer.get("content-range") or "").removeprefix("bytes ")
    place, _, length = told.partition("/")
    first, last = map(int, place.split("-"))
    assert (answer.body, int(length)) == (whole[first : last + 1], len(whole))
    if not asked["range"].startswith("bytes=-"):
        begin, _, end = asked["range"].removeprefix("bytes=").partition("-")
        assert (first, last) == (int(begin), min(int(end or 99), len(whole) - 1))


async def play(steps: list[tuple[str, str, str]], *, weak: bool, obeys: bool, most: int) -> None:
    app = Changing(weak=weak, obeys=obeys)
    async with Fleet(app, processes=2, max_body_bytes=most) as fleet:
        for number, (kind, wanted, tag) in enumerate(steps):
            if kind == "changed":
                app.change()
            elif kind == "later":
                fleet.clock.advance(61)
            else:
                asked = {} if kind == "whole" else {"range": wanted}
                asked |= {"if_range": tag} if kind == "if-range" else {}
                asked |= {"cache_control": "no-cache"} if kind == "no-cache" else {}
                check(await fleet.get(process=number % 2, **asked), asked, obeys=obeys)
        await fleet.settled()


@settings(max_examples=60, deadline=None)
@given(STEPS, st.booleans(), st.booleans(), st.sampled_from([30, 1000]))
def test_no_response_has_bytes_of_two_versions(
    steps: list[tuple[str, str, str]], weak: bool, obeys: bool, most: int
) -> None:
    asyncio.run(play(steps, weak=weak, obeys=obeys, most=most))


@pytest.mark.parametrize("lines", [["bytes=0-4", "bytes=5-9"], ["bytes=5-9", "bytes=0-4"]])
async def test_of_two_range_lines_the_application_may_have_answered_either(lines: list[str]) -> None:
    async with Fleet(File()) as fleet:
        fields = [("range", line) for line in lines]
        await request(fleet.middlewares[0], "GET", "/", fields=fields)
        await get(fleet, 0, 4)
        await get(fleet, 5, 9)
