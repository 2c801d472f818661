"""A stored response: what is served, and everything that was computed from it in advance.

Everything that depends only on the response is computed when it is stored, so that a hit parses none of its header
fields. The encoding is our own and has a version. Other bytes count as a miss.
"""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import msgspec

from stampede_guard.core.entry import Reading
from stampede_guard.errors import Undecodable
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.requests.requester import IDENTITY_BYTES
from stampede_guard.http.spec.directives import Directives
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.ranges import ByteSpan, ContentRange
from stampede_guard.http.spec.reuse import Situation
from stampede_guard.http.spec.vary import nominated

__all__ = [
    "AGAIN",
    "ONCE",
    "REFUSED",
    "TWICE",
    "HttpCodec",
    "Lookup",
    "Refusal",
    "SearchNote",
    "StoredResponse",
    "is_note",
    "is_once",
]

_MAGIC = b"H1"
_OF_PARTS = b"H2"
"""Versions of this library without `spans` would read one part in it, so they must not decode it."""
_IN_PIECES = b"H3"
"""Versions without `pieces` would serve an empty body."""
_MAGIC_NOTE = b"S1"


class StoredResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`age` is its corrected initial age (RFC 9111, 4.2.3). `lifetime` is its freshness lifetime. Both are in seconds.

    - `vary`: the request fields that its Vary names. `nominated`: the request's values of them, normalised.
    - `nonce`: part of the names of the other variants of its URL.
    - `part`: the first byte, the last byte and the complete length (-1 = unknown) of a partial body. It is empty for a
      complete body. `asked`: the Range that the partial body answered.
    - `spans`: of several parts, whose bytes follow each other in `body`. `part` is then the first one.
    - `keep`: for how many seconds it may be useful after it is no longer fresh.
    - `unstorable`: it goes to the requests that wait for it, and to no others.
    - `guessed`: no field allowed to store it, so it is only for requests without fields of their own.
    - `again`: this is the response that was stored before. The waiting requests have no answer yet: they ask again.
    - `made_by`: the requester, if nobody may use the response without validation.
    - `search`: its rule for queries (`queries.rules`).
    - `tags`: names of the tags of its groups, without the namespace. `versions`: theirs before it was asked for.
    - `pieces`: where its body is, if that is stored in pieces. Then `body` is empty.
    """

    status: int
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes
    age: float
    lifetime: float
    directives: tuple[tuple[bytes, bytes | None], ...]
    vary: tuple[bytes, ...] = ()
    nominated: tuple[tuple[bytes, bytes], ...] = ()
    nonce: str = ""
    part: tuple[int, ...] = ()
    asked: bytes = b""
    keep: float = 0.0
    targeted: bool = False
    unstorable: bool = False
    again: bool = False
    guessed: bool = False
    made_by: bytes = b""
    tags: tuple[str, ...] = ()
    versions: tuple[bytes, ...] = ()
    spans: tuple[ByteSpan, ...] = ()
    search: str = ""
    pieces: PieceLayout | None = None

    @property
    def response(self) -> Response:
        return Response(self.status, self.fields, self.body)

    @property
    def held(self) -> ContentRange | None:
        if not self.part:
            return None
        first, last, length = self.part
        return ContentRange(first, last, None if length < 0 else length)

    def situation(self, age: float) -> Situation:
        return Situation(age, self.lifetime, Directives(dict(self.directives), self.targeted))

    def left(self, age: float) -> int:
        """Further seconds of freshness (RFC 9211, 2.4)."""
        return math.floor(self.lifetime - age)

    def serves_all(self, age: float) -> bool:
        """Fresh for every request without caching directives: a fast form of the verdict for a hit."""
        if age >= self.lifetime:
            return False
        for name, _ in self.directives:  # noqa: SIM110 - a generator would cost more than the search
            if name == b"no-cache":
                return False
        return True

    def is_for(self, request_fields: Fields) -> bool:
        """RFC 9111, 4.1."""
        return not self.vary or nominated(request_fields, self.vary) == self.nominated

    def may_be_shared(self, age: float) -> bool:
        """Whether it may answer the requests that waited for it. If it can never be used again, it is its
        requester's only.
        """
        situation = self.situation(age)
        return situation.is_fresh and not situation.always_validated and not self.unstorable


class Refusal:
    """The result of a flight whose response may not be stored. Each requester asks the application.

    `identities` are the refused requesters. A requester with one of them has waited in vain, and asks by itself.

    - `AGAIN`: this requester is the reason why the response may not be stored. Another one may bring one that may be.
    - `ONCE`: an ordinary visitor was refused. If another one is refused too, no request waits any more.
    - `TWICE`: the same visitor was refused again, or once for good. Requesters like it do not wait any more.
    """

    def __init__(self, mark: bytes, identities: frozenset[bytes] = frozenset()) -> None:
        self.mark = mark
        self.identities = identities

    @property
    def is_for_another_to_ask(self) -> bool:
        return self.mark != b""

    def __repr__(self) -> str:
        return f"Refusal({self.mark!r})"


REFUSED = Refusal(b"")
AGAIN = Refusal(b"A1")
ONCE = Refusal(b"O1")
TWICE = Refusal(b"O2")


def is_once(value: object) -> TypeGuard[Refusal]:
    return isinstance(value, Refusal) and value.mark in (ONCE.mark, TWICE.mark)


def is_note(begin: bytes, size: int) -> bool:
    """Whether a value is a refusal, by its first bytes and its size. No codec writes values that begin like one."""
    return begin[:2] in (AGAIN.mark, ONCE.mark, TWICE.mark) and size % IDENTITY_BYTES == 2


class SearchNote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The rule of a path, and the query of the response that told it first, which has a name of its own. A hint: what
    it leads to says for itself what it may be served for.
    """

    rule: str
    first: str | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredResponse).decode
_decode_note = msgspec.msgpack.Decoder(SearchNote).decode


class HttpCodec:
    """Encodes a `StoredResponse`, a `SearchNote`, or `AGAIN` or `ONCE`; `REFUSED` has no bytes."""

    fingerprint = "http1"
    shareable: bool | None = True

    def encode(self, value: Any) -> bytes:
        if isinstance(value, Refusal):
            return value.mark + b"".join(sorted(value.identities))
        if isinstance(value, SearchNote):
            return _MAGIC_NOTE + _encode(value)
        mark = _OF_PARTS if value.spans else _IN_PIECES if value.pieces is not None else _MAGIC
        return mark + _encode(value)

    def decode(self, data: bytes) -> StoredResponse | SearchNote | Refusal:
        if not data:
            return REFUSED
        if data[:2] in (AGAIN.mark, ONCE.mark, TWICE.mark):
            told = bytes(data[2:])
            places = range(0, len(told), IDENTITY_BYTES)
            identities = frozenset(told[place : place + IDENTITY_BYTES] for place in places)
            return Refusal(bytes(data[:2]), identities)
        if data[:2] not in (_MAGIC, _OF_PARTS, _IN_PIECES, _MAGIC_NOTE):
            raise Undecodable("not a stored response of this version")
        try:
            if data[:2] == _MAGIC_NOTE:
                return _decode_note(memoryview(data)[2:])
            return _decode(memoryview(data)[2:])
        except msgspec.MsgspecError as error:
            raise Undecodable(str(error)) from error


class Lookup(msgspec.Struct, frozen=True):
    """What was read for a request. `key` is the entry's name without the guard's prefix. `stored` is None if the store
    has no response for this request. Then `reading` may be of another value there. `varies`: the store has a response
    for other requests. `crowded`: a response that is used more has its place. `replaces`: nothing was read, because a
    flight replaces a stale one. `age` is its age at the time `at`; None = now. The identities in `refused` need not
    wait."""

    key: str
    stored: StoredResponse | None = None
    reading: Reading | None = None
    age: float = 0.0
    varies: bool = False
    replaces: bool = False
    crowded: bool = False
    at: float | None = None
    refused: frozenset[bytes] = frozenset()
