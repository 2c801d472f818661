"""Stored parts of one body: RFC 9110, 15.3.7.3."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.http.parts.spans import MOST_SPANS, HeldBytes
from stampede_guard.http.spec.ranges import ByteSpan

LENGTH = 80
BODY = bytes(range(LENGTH))
BOUNDS = st.tuples(st.integers(0, LENGTH - 1), st.integers(0, LENGTH - 1)).map(sorted)
SHORT = st.integers(0, LENGTH - 1).map(lambda first: [first, first])


def held(first: int, last: int, length: int = LENGTH) -> HeldBytes:
    return HeldBytes((ByteSpan(first, last),), BODY[first : last + 1], length)


def known(parts: HeldBytes) -> set[int]:
    return {place for span in parts.spans for place in range(span.first, span.last + 1)}


@given(st.lists(BOUNDS | SHORT, min_size=1, max_size=40), st.integers(1, 2 * LENGTH), BOUNDS)
def test_whatever_parts_come_in_whatever_order_each_held_byte_is_the_bodys(
    parts: list[list[int]], most: int, asked: list[int]
) -> None:
    (begin, end), *others = parts
    found = held(begin, end)
    every = known(found)
    for first, last in others:
        if last - first + 1 > most:
            continue
        new = found.adding(first, BODY[first : last + 1], most_bytes=most)
        assert new is not None
        every |= set(range(first, last + 1))
        assert found is not new and new.are_consistent
        assert set(range(first, last + 1)) <= known(new) <= known(found) | set(range(first, last + 1))
        assert len(new.content) <= most and len(new.spans) <= MOST_SPANS
        assert all(one.last + 1 < other.first for one, other in zip(new.spans, new.spans[1:], strict=False))
        if most >= LENGTH and len(found.spans) < MOST_SPANS:
            assert known(found) <= known(new)
        found = new
    for span in found.spans:
        assert found.bytes_of(span) == BODY[span.first : span.last + 1]
    wanted = ByteSpan(*asked)
    inside = set(range(wanted.first, wanted.last + 1)) <= known(found)
    assert found.bytes_of(wanted) == (BODY[wanted.first : wanted.last + 1] if inside else None)
    absent = set(range(LENGTH)) - known(found)
    assert found.are_all == (not absent)
    assert found.missing == (ByteSpan(min(absent), max(absent)) if absent else None)


@given(BOUNDS, BOUNDS, st.integers(0, LENGTH - 1))
def test_a_part_that_contradicts_a_held_byte_is_of_another_body(
    one: list[int], other: list[int], place: int
) -> None:
    changed = bytearray(BODY)
    changed[place] ^= 1
    first, last = other
    found = held(*one).adding(first, bytes(changed[first : last + 1]), most_bytes=LENGTH)
    contradicts = one[0] <= place <= one[1] and first <= place <= last
    assert (found is None) == contradicts


def test_a_part_beyond_the_end_or_without_bytes_is_not_added() -> None:
    assert held(0, 3).adding(LENGTH - 1, b"ab", most_bytes=LENGTH) is None
    assert held(0, 3).adding(-1, b"ab", most_bytes=LENGTH) is None
    assert held(0, 3).adding(5, b"", most_bytes=LENGTH) is None


def test_a_flood_of_small_parts_does_not_displace_a_large_one() -> None:
    found = held(0, 19)
    for first in range(22, LENGTH, 2):
        found = found.adding(first, BODY[first : first + 1], most_bytes=LENGTH) or found
    assert found.spans[0] == ByteSpan(0, 19)
    assert len(found.spans) == MOST_SPANS
    assert found.bytes_of(ByteSpan(LENGTH - 2, LENGTH - 2)) == BODY[-2:-1]
