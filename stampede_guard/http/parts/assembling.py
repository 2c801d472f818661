"""A stored response of which parts are known, and a further part: together, or cut from it (RFC 9111, 3.3 and 3.4).

Parts are combined only if both have the same strong ETag, the origin's word that their bytes are of one body. What can
be checked is checked as well: the complete length, the number of bytes, the bytes that both parts have, Content-Type,
Content-Encoding and Vary. In all other cases the newer part replaces what was stored.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from stampede_guard.http.parts.spans import HeldBytes
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.fields import first, lines, without
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.ranges import (
    ByteRange,
    ByteSpan,
    bounds,
    content_range,
    part_of,
    partial,
    requested_range,
)
from stampede_guard.http.spec.updating import freshened

__all__ = ["assembled", "cut", "of_one_body", "request_for_the_rest"]

_THE_SAME = (b"content-type", b"content-encoding")


def of_one_body(stored: Fields, new: Fields) -> bool:
    """Whether an equal strong ETag says so. A response to If-Range may omit the other fields (RFC 9110, 15.3.7)."""
    tags = lines(new, b"etag")
    if len(tags) != 1 or not tags[0].startswith(b'"') or tags != lines(stored, b"etag"):
        return False
    return all(lines(new, name) in ([], lines(stored, name)) for name in _THE_SAME)


def assembled(
    old: StoredResponse | None,
    head: Response,
    body: bytes,
    judge: Callable[[Response], StoredResponse | str],
    *,
    asked: bytes,
    may_lack_fields: bool,
    most_bytes: int,
) -> StoredResponse | None:
    """`old` with the part in this 206, as a 200 if no byte is missing; None if they are not of one body. `judge`
    decides whether the result may be stored. Its fields are the stored ones, replaced by those of the new response.
    `asked`: the Range that it answers. `may_lack_fields`: it answers an If-Range, so its fields alone make no 200.
    """
    part = content_range(head)
    if part is None or part.length is None or len(body) != part.last + 1 - part.first:
        return None
    if not _lies_within(asked, ByteSpan(part.first, part.last), part.length):
        return None
    if old is not None and not of_one_body(old.fields, head.fields):
        old = None
    held = None if old is None else _held(old, part.length)
    if held is not None:
        more = held.adding(part.first, body, most_bytes=most_bytes)
    else:
        old, more = None, HeldBytes((ByteSpan(part.first, part.last),), body, part.length)
    if more is None or (old is None and (may_lack_fields or not more.are_all)):
        return None
    fields = head.fields if old is None else freshened(old.response, head).fields
    begin = more.spans[0]
    if more.are_all:
        length = (b"content-length", b"%d" % more.length)
        response = Response(200, (*without(fields, (b"content-range", b"content-length")), length))
    else:
        response = part_of(fields, begin.first, more.content[: begin.size], more.length)
    draft = judge(response)
    if isinstance(draft, str) or (old is not None and draft.vary != old.vary):
        return None
    # The Content-Range of several parts is that of the first one, so they are never sent as they are stored.
    several = len(more.spans) > 1
    told = b"" if several else b"bytes=%d-%d" % begin
    return replace(draft, body=more.content, asked=told, spans=more.spans if several else ())


def cut(stored: StoredResponse, response: Response, wanted: ByteRange) -> Response | None:
    """The 206 with the wanted bytes; None if one of them is not stored. `response`: its present form."""
    if not stored.spans:
        return partial(response, stored.held, wanted)
    length = stored.part[2]
    asked = bounds(wanted, length)
    body = None if asked is None else HeldBytes(stored.spans, stored.body, length).bytes_of(asked)
    return None if asked is None or body is None else part_of(response.fields, asked.first, body, length)


def request_for_the_rest(old: StoredResponse, *, most_bytes: int) -> Fields:
    """The fields that ask for the missing bytes of a stored part; empty if the whole must be asked for."""
    begin, _, length = old.part
    if length > most_bytes:
        # The whole could not be stored.
        return ()
    tag = first(old.fields, b"etag") or b""
    held = _held(old, length) if length >= 0 else None
    missing = held.missing if held is not None else None
    if held is not None and missing is None:
        return ()
    if missing is not None and tag.startswith(b'"') and missing.size < length:
        last = b"" if missing.last == length - 1 else b"%d" % missing.last
        asked = b"bytes=%d-%s" % (missing.first, last)
    elif begin == 0 and not old.spans:
        asked = b"bytes=%d-" % len(old.body)
    else:
        return ()
    return ((b"range", asked), (b"if-range", tag)) if tag.startswith(b'"') else ((b"range", asked),)


def _held(stored: StoredResponse, length: int) -> HeldBytes | None:
    """None if it is no part, or of a body of another length, or has not the bytes that it says, or not those that
    were asked for.
    """
    held = stored.held
    if held is None or held.length not in (None, length) or held.last >= length:
        return None
    one = ByteSpan(held.first, held.last)
    if not stored.spans and not _lies_within(stored.asked, one, length):
        return None
    found = HeldBytes(stored.spans or (one,), stored.body, length)
    return found if found.are_consistent else None


def _lies_within(asked: bytes, part: ByteSpan, length: int) -> bool:
    """A response may have fewer bytes than were asked for (RFC 9110, 15.3.7). Others are a mistake."""
    wanted = requested_range(((b"range", asked),))
    most = None if wanted is None else bounds(wanted, length)
    return most is not None and most.first <= part.first and part.last <= most.last
