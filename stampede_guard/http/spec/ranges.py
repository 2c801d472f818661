"""Byte ranges: requested, stored, and served from stored bytes (RFC 9110, 14; RFC 9111, 3.3 and 3.4)."""

from __future__ import annotations

import re
from typing import NamedTuple

from stampede_guard.http.spec.dates import date_of
from stampede_guard.http.spec.fields import first, lines, without
from stampede_guard.http.spec.message import Fields, Response

__all__ = [
    "ContentRange",
    "ByteSpan",
    "bounds",
    "content_range",
    "if_range_holds",
    "part_of",
    "partial",
    "requested_range",
    "unsatisfiable",
]

_RANGE = re.compile(
    rb"bytes[ \t]*=[ \t]*(?:(?P<first>[0-9]{1,18})-(?P<last>[0-9]{0,18})|-(?P<suffix>[0-9]{1,18}))[ \t]*",
    re.I,
)
_CONTENT_RANGE = re.compile(rb"bytes[ \t]+([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.I)


class ContentRange(NamedTuple):
    """First and last byte, both included, and the complete length if it is known."""

    first: int
    last: int
    length: int | None


class ByteSpan(NamedTuple):
    """First and last byte, both included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class ByteRange(NamedTuple):
    """One byte range: from `first` to `last` (None = to the end), or the last `suffix` bytes."""

    first: int | None
    last: int | None
    suffix: int | None = None


def requested_range(fields: Fields) -> ByteRange | None:
    """The one range of a request. None without one, for several, or for a malformed one: a server may then ignore
    it and send the whole (RFC 9110, 14.2).
    """
    found = lines(fields, b"range")
    if len(found) != 1:
        return None
    match = _RANGE.fullmatch(found[0])
    if match is None:
        return None
    if match["suffix"] is not None:
        return ByteRange(None, None, int(match["suffix"]))
    first_byte, last = int(match["first"]), int(match["last"]) if match["last"] else None
    return None if last is not None and last < first_byte else ByteRange(first_byte, last)


def content_range(response: Response) -> ContentRange | None:
    """Of a 206; None if it is missing or malformed, or contradicts itself. Also None if the body has several ranges,
    because then it is no field of the response itself (RFC 9110, 15.3.7.2).
    """
    found = lines(response.fields, b"content-range")
    if (first(response.fields, b"content-type") or b"")[:20].lower() == b"multipart/byteranges":
        return None
    match = _CONTENT_RANGE.fullmatch(found[0]) if len(found) == 1 else None
    if match is None:
        return None
    start, end = int(match[1]), int(match[2])
    length = None if match[3] == b"*" else int(match[3])
    if end < start or (length is not None and end >= length):
        return None
    return ContentRange(start, end, length)


def bounds(wanted: ByteRange, length: int) -> ByteSpan | None:
    """First and last byte of a complete body of `length`; None if there are no such bytes."""
    if wanted.suffix is not None:
        return ByteSpan(max(0, length - wanted.suffix), length - 1) if wanted.suffix and length else None
    start = wanted.first or 0
    if start >= length:
        return None
    return ByteSpan(start, length - 1 if wanted.last is None else min(wanted.last, length - 1))


def partial(stored: Response, held: ContentRange | None, wanted: ByteRange) -> Response | None:
    """The 206 that answers a range from a stored 200, or from a stored 206 whose bytes `held` include it; else
    None.

    A stored 206 may have fewer bytes than its Content-Range states. The present bytes are served, with their true
    range (a server may send less than the request asks for, 15.3.7).
    """
    offset = 0 if held is None else held.first
    length = len(stored.body) if held is None else held.length
    if length is None or (asked := bounds(wanted, length)) is None:
        return None
    start, end = asked
    if held is not None and (start < held.first or end > held.last):
        return None
    body = stored.body[start - offset : end - offset + 1]
    if wanted.suffix is not None and held is not None and len(stored.body) > end - start:
        # Its last bytes are the last bytes, even if the first number in Content-Range is wrong.
        body = stored.body[start - end - 1 :]
    return part_of(stored.fields, start, body, length) if body else None


def part_of(fields: Fields, start: int, body: bytes, length: int) -> Response:
    """The 206 with these bytes of a body of `length`."""
    told = b"bytes %d-%d/%d" % (start, start + len(body) - 1, length)
    own = ((b"content-range", told), (b"content-length", b"%d" % len(body)))
    return Response(206, (*without(fields, (b"content-range", b"content-length")), *own), body)


def unsatisfiable(stored: Response, held: ContentRange | None = None) -> Response | None:
    """RFC 9110, 15.5.17, for a complete stored body, or a part with a known complete length; else None."""
    length = len(stored.body) if held is None else held.length
    if length is None:
        return None
    return Response(416, ((b"content-range", b"bytes */%d" % length), (b"content-length", b"0")))


def if_range_holds(request: Fields, stored: Fields, *, now: float) -> bool:
    """RFC 9110, 13.1.5: an equal strong tag, or exactly the Last-Modified; True without the field.

    If Last-Modified is the second in which the response was made, two contents may share it (8.8.2.2).
    """
    condition = first(request, b"if-range")
    if condition is None:
        return True
    if condition.startswith((b'"', b"W/")):
        return not condition.startswith(b"W/") and condition == first(stored, b"etag")
    since, modified = (
        date_of(fields, name, now=now)
        for fields, name in ((request, b"if-range"), (stored, b"last-modified"))
    )
    date = date_of(stored, b"date", now=now)
    strong = modified is not None and (date is None or date - modified >= 1)
    return since is not None and strong and since == modified
