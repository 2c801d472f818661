"""The content of a request as a part of its key: QUERY (RFC 10008, 2.7), and a POST that a route treats like it."""

from __future__ import annotations

import json
import re
from typing import Any

from stampede_guard.http.spec.fields import lines
from stampede_guard.http.spec.message import Fields

__all__ = ["METADATA", "normal_json", "question"]

METADATA = (b"content-type", b"content-encoding", b"content-language")
"""What says how the content is to be read."""

_UTF_8 = re.compile(rb'^[ \t]*charset="?utf-8"?[ \t]*$')


def question(method: str, fields: Fields, body: bytes, *, json_bodies: bool = False) -> str:
    """All of a request that belongs to its key beside its URL. With `json_bodies`, JSON counts by its meaning."""
    kind = [lines(fields, name) for name in METADATA]
    meaning = normal_json(body) if json_bodies and _is_json(kind[0], kind[1]) else None
    content = f"json {meaning}" if meaning is not None else f"bytes {body.decode('latin-1')}"
    return f"{method} {kind!r} {content}"


def _is_json(types: list[bytes], codings: list[bytes]) -> bool:
    if len(types) != 1 or codings:
        return False
    kind, _, parameters = types[0].lower().partition(b";")
    kind = kind.strip()
    if b"charset" in parameters and _UTF_8.search(parameters) is None:
        # JSON has no such parameter, but an application may read the bytes as it says.
        return False
    return kind == b"application/json" or (kind.startswith(b"application/") and kind.endswith(b"+json"))


class _Number(str):
    """As it was written: 1 and 1.0 may be two values for an application."""


def normal_json(body: bytes) -> str | None:
    """One text for all spellings of a JSON value that differ in white space, escapes and the order of names only.

    None for anything that two parsers may read in two ways (RFC 8259, 4 and 8.1): a name twice in an object, a byte
    order mark, another encoding, NaN; and for what is nested too deeply.
    """
    try:
        return repr(_plain(json.loads(body.decode("utf-8"), **_READING)))
    except (ValueError, RecursionError):
        return None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_READING: dict[str, Any] = {
    "object_pairs_hook": _members,
    "parse_int": _Number,
    "parse_float": _Number,
    "parse_constant": _refuse,
}


def _plain(value: Any) -> Any:
    """With the type of each value, so that no value has the text of another."""
    if isinstance(value, dict):
        return ("o", [(name, _plain(value[name])) for name in sorted(value)])
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return ("n", str(value)) if isinstance(value, _Number) else value
