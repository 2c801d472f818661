"""Which stored response matches which request (RFC 9111, 4.1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping

from stampede_guard.http.spec.fields import lines, members, token
from stampede_guard.http.spec.message import Fields

__all__ = ["names_in_vary", "nominated", "normal_value"]


def names_in_vary(fields: Fields) -> tuple[bytes, ...] | None:
    """The request fields that Vary names, lower-case, sorted, each once; None for `*`, which matches no request.

    An invalid field name makes the whole Vary unusable, like `*`.
    """
    found = set()
    for member in members(fields, b"vary"):
        if not token(member) or member == b"*":
            return None
        found.add(member.lower())
    return tuple(sorted(found))


def nominated(request_fields: Fields, names: tuple[bytes, ...]) -> Fields:
    """The request's fields with these names, normalised. A missing field is left out, and matches only another
    request that lacks it (4.1).
    """
    # Loops, because a hit runs them: a generator would cost more than the search.
    for name, _ in request_fields:
        if b"_" in name:
            return _in_all_spellings(request_fields, names)
    for name in names:
        if b"_" in name:
            return _in_all_spellings(request_fields, names)
    if len(names) > _FEW:
        # In one pass: if an application names thousands of fields, the request must not be read as many times.
        wanted = frozenset(names)
        request_fields = tuple([pair for pair in request_fields if pair[0] in wanted])
        given = {name for name, _ in request_fields}
        names = tuple([name for name in names if name in given])
    found = []
    for name in names:
        values = lines(request_fields, name)
        if values:
            # Lines stay apart. 1. A client sends `User-Agent: Old (KHTML` and a second line, `like Gecko)`. 2. Its
            # application reads the first. 3. Combined, as 4.1 allows, its answer would be for browsers with this name.
            found.append((name, _short(b"\n".join([normal_value(name, value) for value in values]))))
    return tuple(found)


def _in_all_spellings(request_fields: Fields, names: tuple[bytes, ...]) -> Fields:
    """Behind CGI or WSGI, an application reads `X_Color` as one more line of `X-Color`, or in its place. So the lines
    of both count, in their order.

    1. A client sends `Accept_Language: x` beside its Accept-Language. 2. Its application reads both in one line. 3. By
    the exact name, its answer would be for all who send the same Accept-Language.
    """
    spelt: dict[bytes, list[tuple[bytes, bytes]]] = {}
    for name, value in request_fields:
        spelt.setdefault(name.replace(b"_", b"-"), []).append((name, value.strip(b" \t")))
    found: list[tuple[bytes, bytes]] = []
    for name in names:
        pairs = tuple(spelt.get(name.replace(b"_", b"-"), ()))
        if b"_" not in name and all(spelling == name for spelling, _ in pairs):
            found += nominated(pairs, (name,))
        elif pairs:
            found.append((name, _OF_SPELLINGS + _digest(repr(pairs).encode())))
    return tuple(found)


def _short(value: bytes) -> bytes:
    """A long value is stored as its digest, because a client could otherwise fill the store with its fields. No
    field begins with a NUL (RFC 9110, 5.5), so no field can equal another one's digest.
    """
    if len(value) <= _LONGEST and value[:1] != b"\0":
        return value
    return b"\0" + _digest(value)


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=24).digest()


def normal_value(name: bytes, value: bytes) -> bytes:
    """The value without differences that have no meaning: white space around list members, and known rules of the
    field.

    RFC 9111, 4.1, allows this if the field's own definition makes the values equivalent. For an unknown field only
    the white space of a list is normalised. A value with a quoted string in it stays unchanged. So does a field that is
    no list, and a malformed value:

    1. A client sends `Accept-Language: fr,,`. 2. Its application cannot read that, and answers in its own language.
    3. Read leniently, it would be the answer for `fr`.
    """
    if b'"' in value:
        return value
    special = _KNOWN.get(name)
    if special is not None:
        return special(value)
    return b",".join(part.strip(b" \t") for part in value.split(b","))


def _weighted(value: bytes) -> list[tuple[float, bytes]] | None:
    """Members of a preference list, lower-case, with their weight (RFC 9110, 12.4.2); None if one is malformed, or
    empty.
    """
    found = []
    for member in value.lower().split(b","):
        read = _PREFERENCE.fullmatch(member.strip(b" \t"))
        if read is None:
            return None
        found.append((float(read[2] or 1), read[1]))
    return found


def _preferences(value: bytes) -> bytes:
    """In order of preference, equal weights in alphabetical order. Refused members (`q=0`) come last. Two old names
    mean the same as the new ones (8.4.1). Empty members count as missing: at worst the answer is not compressed.
    """
    weighted = _weighted(b",".join([member for member in value.split(b",") if member.strip(b" \t")]))
    if weighted is None:
        return value
    codings = {(weight, _CODINGS.get(what, what)) for weight, what in weighted}
    return _written(sorted(codings, key=lambda pair: (-pair[0], pair[1])))


def _languages(value: bytes) -> bytes:
    """Language tags ignore case (RFC 5646, 2.1.1), and are sorted by preference. Equal weights keep their order: it
    officially has no meaning, but servers take the first (RFC 9110, 12.5.4).
    """
    weighted = _weighted(value)
    if weighted is None:
        return value
    return _written(sorted(weighted, key=lambda pair: -pair[0]))


def _written(weighted: list[tuple[float, bytes]]) -> bytes:
    return b",".join(what if weight == 1 else b"%b;q=%.3f" % (what, weight) for weight, what in weighted)


_LONGEST = 256
_OF_SPELLINGS = b"\0_"
"""Before the digest of lines whose names are spelt differently. Digests have one length, so this is no other one."""
_FEW = 8
_PREFERENCE = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?"
)
_CODINGS = {b"x-gzip": b"gzip", b"x-compress": b"compress"}
_NO_LISTS = (
    b"authorization",
    b"cookie",
    b"from",
    b"host",
    b"origin",
    b"proxy-authorization",
    b"referer",
    b"user-agent",
)


def _unchanged(value: bytes) -> bytes:
    return value


_KNOWN: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"accept-encoding": _preferences,
    b"accept-language": _languages,
    **dict.fromkeys(_NO_LISTS, _unchanged),
}
