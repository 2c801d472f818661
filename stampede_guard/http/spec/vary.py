"""Which stored response is for which request (RFC 9111, 4.1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping

from stampede_guard.http.spec.fields import combined, members, token
from stampede_guard.http.spec.message import Fields

__all__ = ["names_in_vary", "nominated", "normal_value"]


def names_in_vary(fields: Fields) -> tuple[bytes, ...] | None:
    """The request fields that Vary names, lower-case, sorted, each once; None for `*`, which matches no request.

    What is no field name makes the Vary unusable, which is as good as `*`.
    """
    found = set()
    for member in members(fields, b"vary"):
        if not token(member) or member == b"*":
            return None
        found.add(member.lower())
    return tuple(sorted(found))


def nominated(request_fields: Fields, names: tuple[bytes, ...]) -> Fields:
    """The request's fields of these names, normalised; one that is missing is not there, which only matches another
    request that lacks it (4.1)."""
    if len(names) > _FEW:
        # In one pass: an application that names thousands of fields must not have the request read as many times.
        wanted = frozenset(names)
        request_fields = tuple([pair for pair in request_fields if pair[0] in wanted])
        given = {name for name, _ in request_fields}
        names = tuple([name for name in names if name in given])
    found = []
    for name in names:
        value = combined(request_fields, name)
        if value is not None:
            found.append((name, _short(normal_value(name, value))))
    return tuple(found)


def _short(value: bytes) -> bytes:
    """What is long is kept as its digest: it is a client that chooses how much of a store its fields take. No field
    begins with a NUL (RFC 9110, 5.5), so none can be written to equal another's digest."""
    if len(value) <= _LONGEST and value[:1] != b"\0":
        return value
    return b"\0" + hashlib.blake2b(value, digest_size=24).digest()


def normal_value(name: bytes, value: bytes) -> bytes:
    """The value without differences that mean nothing: white space around list members, and what is known of the field.

    RFC 9111, 4.1, allows it where the field's own definition says that the values are equivalent. For an unknown field
    that is the white space of a list; a value with a quoted string in it is left alone.
    """
    if b'"' in value:
        return value
    special = _KNOWN.get(name)
    if special is not None:
        return special(value)
    return b",".join(part.strip() for part in value.split(b","))


def _weighted(value: bytes) -> list[tuple[float, bytes]] | None:
    """Members of a preference list, lower-case, with their weight (RFC 9110, 12.4.2); None where one is malformed."""
    found = []
    for member in value.lower().split(b","):
        what, *parameters = (part.strip() for part in member.split(b";"))
        if not what:
            continue
        weight = 1.0
        for parameter in parameters:
            key, _, number = parameter.partition(b"=")
            if key.strip() != b"q" or _QVALUE.fullmatch(number.strip()) is None:
                return None
            weight = float(number)
        found.append((weight, what))
    return found


def _preferences(value: bytes) -> bytes:
    """In order of preference, equals in the order of the alphabet; what is refused (`q=0`) comes last, as such. Two old
    names mean what the new ones mean (8.4.1)."""
    weighted = _weighted(value)
    if weighted is None:
        return b",".join(part.strip().lower() for part in value.split(b","))
    codings = {(weight, _CODINGS.get(what, what)) for weight, what in weighted}
    return _written(sorted(codings, key=lambda pair: (-pair[0], pair[1])))


def _languages(value: bytes) -> bytes:
    """Language tags have no case (RFC 5646, 2.1.1), and are in order of preference. The order of equals is kept: it is
    not said to mean anything, but servers take the first (RFC 9110, 12.5.4)."""
    weighted = _weighted(value)
    if weighted is None:
        return b",".join(part.strip().lower().replace(b" ", b"") for part in value.split(b","))
    return _written(sorted(weighted, key=lambda pair: -pair[0]))


def _written(weighted: list[tuple[float, bytes]]) -> bytes:
    return b",".join(what if weight == 1 else b"%b;q=%.3f" % (what, weight) for weight, what in weighted)


_LONGEST = 256
_FEW = 8
_QVALUE = re.compile(rb"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
_CODINGS = {b"x-gzip": b"gzip", b"x-compress": b"compress"}


_KNOWN: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"accept-encoding": _preferences,
    b"accept-language": _languages,
}
