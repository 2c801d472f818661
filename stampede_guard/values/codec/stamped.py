"""Values whose annotation leaves their shape open, with a stamp of the code that computed them.

The key of an entry holds the shape of the return type, so old and new pods of a rolling deploy use different entries.
If the type has no shape (no annotation, `dict`, `Any`), they serve each other's values. The stamp does not change
which value a caller gets. It makes the mix visible: one line in the log names the function and the cure.

A stamp is an extension of MessagePack whose number no value uses. No JSON and no pickle begins with it. It holds the
minor version of Python and seven bytes of `code_version`. An older version of this library wrote no stamps: such a body
is decoded as it is.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import KeyPartError
from stampede_guard.values.codec.compressed import unpacked
from stampede_guard.values.keys.codeversion import code_version

if TYPE_CHECKING:
    from stampede_guard.values.codec import Codec

__all__ = ["STAMP_BYTES", "Stamped", "opened_stamp", "stamp_of"]

log = logging.getLogger("stampede_guard")

STAMP_BYTES = 10
_MARK = b"\xd7\x0d"
"""Eight bytes of extension 13: see `values.codec.builtin`."""
_CURE = "annotate what it returns, or pass version='auto' (docs/deploying.md, rolling deploys)"

MOST_SHAPES = 8
"""Shapes that are kept of one function's own values, and as many of values of other code."""
MOST_LOOKS = 100
"""Own values that are examined, and as many values of other code. After these, no more are compared."""
MOST_FUNCTIONS = 4096
LARGE = 64 * 1024
"""A value of this many bytes or more is not decoded only for its shape."""
_DEPTH = 3
_MOST_PARTS = 32


def stamp_of(function: Callable[..., Any]) -> bytes:
    """Equal for equal code. A builtin has no Python code: its stamp is empty."""
    try:
        digest = bytes.fromhex(code_version(function))
    except KeyPartError:
        return b""
    return _MARK + bytes((sys.version_info[1],)) + digest[:7]


def opened_stamp(data: bytes) -> bytes:
    """The body without its stamp, if it has one."""
    return data[STAMP_BYTES:] if data[:2] == _MARK else data


class Stamped:
    """The codec `inner` of the function `title`, whose values carry `stamp`."""

    def __init__(self, inner: Codec, stamp: bytes, title: str) -> None:
        self.inner = inner
        self.fingerprint = inner.fingerprint
        self.shareable = inner.shareable
        self._stamp = stamp
        self._seen = _seen_of(title, stamp)
        self.decode = self._decoder()

    def encode(self, value: Any) -> bytes:
        """Raises `UnsupportedValue`."""
        body = self.inner.encode(value)
        if self._seen.wants_mine and len(body) < LARGE:
            # Decoded, as others will see it: an encoding may make a list of a tuple.
            self._seen.mine(self.inner.decode(body))
        return self._stamp + body

    def _decoder(self) -> Callable[[bytes], Any]:
        """`decode`, without a look-up of any attribute: each hit pays for it. Raises `Undecodable`."""
        stamp, size, read, others = self._stamp, STAMP_BYTES, self.inner.decode, self._decode_others
        unexplained, mine = self._seen.unexplained, self._seen.mine

        def decode(data: bytes) -> Any:
            if data[:size] != stamp:
                return others(data)
            value = read(data[size:])
            if unexplained:
                # Computed by another process that runs the same code as this one, which has computed nothing yet.
                mine(value)
            return value

        return decode

    def _decode_others(self, data: bytes) -> Any:
        if data[:2] != _MARK or len(data) < STAMP_BYTES:
            body = unpacked(data)
            return self.inner.decode(data) if body is None else self.decode(body)
        value = self.inner.decode(data[STAMP_BYTES:])
        # Two minor versions of Python compile the same source to different code.
        self._seen.others(value, other_code=data[2] == self._stamp[2])
        return value


@dataclass(frozen=True, slots=True)
class _Shape:
    """`parts`: of a dictionary by key, of a sequence one that stands for all. None: anything may stand there."""

    kind: str
    parts: dict[Any, _Shape | None] = field(default_factory=dict)

    def fits(self, other: _Shape) -> bool:
        if self.kind != other.kind:
            return False
        if not self.parts or not other.parts:
            return True
        if self.parts.keys() != other.parts.keys():
            return False
        return all(_fit(part, other.parts[key]) for key, part in self.parts.items())


def _fit(one: _Shape | None, other: _Shape | None) -> bool:
    return one is None or other is None or one.fits(other)


def _shape_of(value: Any, depth: int = _DEPTH) -> _Shape | None:
    """Of the outermost levels. None fits everything: a part that is absent in one value may be there in the next."""
    if value is None or depth == 0:
        return None
    kind = type(value)
    if kind is int or kind is float:
        return _Shape("number")
    if isinstance(value, dict):
        if len(value) > _MOST_PARTS or not all(type(key) is str for key in value):
            # Such keys are data, and other ones in each value.
            return _Shape("dict", {"": next((_shape_of(part, depth - 1) for part in value.values()), None)})
        return _Shape("dict", {key: _shape_of(part, depth - 1) for key, part in value.items()})
    if kind in (list, tuple, set, frozenset):
        one = next((shape for part in value if (shape := _shape_of(part, depth - 1)) is not None), None)
        return _Shape(kind.__name__, {} if one is None else {"": one})
    return _Shape(f"{kind.__module__}.{kind.__qualname__}")


class _Seen:
    """What one process has seen of one function's values. Nothing of it raises."""

    def __init__(self, title: str) -> None:
        self.wants_mine = True
        self.unexplained: list[_Shape] = []
        """Of other code, while none of this code is known."""
        self._title = title
        self._mine: list[_Shape] = []
        self._others: list[_Shape] = []
        self._looks = self._own_looks = 0
        self._told_of_code = self._told_of_shape = False

    def mine(self, value: Any) -> None:
        """A value of this process's code."""
        shape = _shape_of(value)
        if shape is None:
            return
        self.unexplained.clear()
        if not any(shape.fits(known) for known in self._mine):
            self._mine.append(shape)
        self._own_looks += 1
        self.wants_mine = len(self._mine) < MOST_SHAPES and self._own_looks < MOST_LOOKS
        self._compare()

    def others(self, value: Any, *, other_code: bool) -> None:
        """A value of other code, or of another Python's."""
        if self._told_of_shape or self._looks >= MOST_LOOKS:
            return
        self._looks += 1
        shape = _shape_of(value)
        if shape is None:
            return
        if len(self._others) < MOST_SHAPES and not any(shape.fits(known) for known in self._others):
            self._others.append(shape)
        if self._mine:
            self._compare()
            return
        self.unexplained[:] = [shape]
        if other_code and not self._told_of_code:
            self._told_of_code = True
            log.warning(
                "%s: a stored value was computed by another version of its code. Its return type tells no shape, so "
                "old and new processes serve each other's values: %s",
                self._title,
                _CURE,
            )

    def _compare(self) -> None:
        if self._told_of_shape or all(map(self._is_known, self._others)):
            return
        self._told_of_shape = True
        log.warning(
            "%s: another version of its code returned values of another shape. Its return type tells no shape, so old "
            "and new processes serve each other's values: %s",
            self._title,
            _CURE,
        )

    def _is_known(self, other: _Shape) -> bool:
        if len(self._mine) > 1:
            # Its own values differ from each other, so their keys are data: only the kinds tell.
            return any(other.kind == mine.kind for mine in self._mine)
        return any(other.fits(mine) for mine in self._mine)


_functions: dict[tuple[str, bytes], _Seen] = {}
"""They outlive the codecs, so a function that is decorated anew in each request causes one line, too."""


def _seen_of(title: str, stamp: bytes) -> _Seen:
    known = _functions.get((title, stamp))
    if known is None:
        if len(_functions) >= MOST_FUNCTIONS:
            _functions.clear()
        known = _functions.setdefault((title, stamp), _Seen(title))
    return known
