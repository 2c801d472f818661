"""The values of a function of many ids, one by one: an id that the function left out has the value `ABSENT`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stampede_guard.errors import Misuse, Undecodable
from stampede_guard.values.codec import Codec
from stampede_guard.values.codec.compressed import unpacked

__all__ = ["ABSENT", "ManyCodec", "checked"]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""The value of an id that the function left out."""


class ManyCodec:
    """The codec of one id's value, which may be absent."""

    def __init__(self, inner: Codec) -> None:
        self.inner = inner
        self.fingerprint = f"many {inner.fingerprint}"
        self.shareable = inner.shareable

    def encode(self, value: Any) -> bytes:
        return b"0" if value is ABSENT else b"1" + self.inner.encode(value)

    def decode(self, data: bytes) -> Any:
        if data[:1] == b"1":
            return self.inner.decode(data[1:])
        if self.says_absent(data):
            return ABSENT
        if (body := unpacked(data)) is not None:
            return self.decode(body)
        raise Undecodable("stored bytes are not those of an entry of a batch")

    @staticmethod
    def says_absent(data: bytes) -> bool:
        return data == b"0"


def checked(result: Any, ids: list[Any], title: str) -> Mapping[Any, Any]:
    """The result. Raises `Misuse` if it is not a dictionary of some of the ids; the text names types, never values."""
    if not isinstance(result, Mapping):
        raise Misuse(f"{title} must return a dict from id to value, and returned a {type(result).__name__}")
    asked = set(ids)
    others = [id for id in result if id not in asked]
    if others:
        kinds = ", ".join(sorted({type(id).__name__ for id in others}))
        wanted = ", ".join(sorted({type(id).__name__ for id in ids}))
        raise Misuse(
            f"{title} returned {len(others)} ids that nobody asked for ({kinds}); it was given {len(ids)} ({wanted}). "
            f"Use the given ids as keys of the result, and leave out those that do not exist"
        )
    return result
