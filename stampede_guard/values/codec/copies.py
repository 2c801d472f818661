"""Several equal values from one stored body, decoded or copied, so that no caller can change another caller's
value.

Copying a dictionary of plain values takes a quarter of the time of decoding it again. This matters when 64 callers
read one key at the same moment, or when a herd wakes up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stampede_guard.values.codec.immutable import is_immutable

__all__ = ["Copies", "copier"]

_DECODED_FIRST = 3
"""Values that are decoded before one is examined: for a few callers, the gain is smaller than the cost."""
_DEEPEST = 20
_LEAVES = frozenset({type(None), bool, int, float, str, bytes})

Copier = Callable[[Any], Any]


class Copies:
    """`copy(template)` returns another value, once `copy` is set. `another()` always does.

    `trees`: no value from `decode` contains an object twice. Other values (unpickled ones) are never copied.
    `shared`: all callers get the same object, because the user asked for it.
    """

    __slots__ = ("_decode", "_given", "_shared", "body", "copy", "template")

    def __init__(
        self, decode: Callable[[bytes], Any], body: bytes, *, trees: bool, shared: bool = False
    ) -> None:
        self._decode = decode
        self.body = body
        self._given = 0 if trees else _DECODED_FIRST
        self._shared = shared
        self.template: Any = None
        self.copy: Copier | None = None

    def another(self) -> Any:
        """Raises `Undecodable`."""
        if self.copy is not None:
            return self.copy(self.template)
        self._given += 1
        value = self._decode(self.body)
        if self._shared:
            # In this order: a thread that finds `copy` set also finds its template.
            self.template, self.copy = value, _itself
            return value
        if self._given == _DECODED_FIRST:
            copy = copier(value)
            if copy is not None:
                # Kept as the template, so this caller gets its own value.
                self.template, self.copy = value, copy
                return copy(value)
        return value


def copier(value: Any, depth: int = 0) -> Copier | None:
    """How to copy this value so that no mutable object is shared; None if only decoding does that."""
    kind = type(value)
    if kind is dict:
        return _container(dict.copy, value.items(), depth)
    if kind is list:
        return _container(list.copy, enumerate(value), depth)
    if kind is set and all(map(is_immutable, value)):
        return set.copy
    return _itself if is_immutable(value) else None


def _container(shallow: Copier, items: Iterable[tuple[Any, Any]], depth: int) -> Copier | None:
    inner: list[tuple[Any, Copier]] = []
    for place, item in items:
        if type(place) not in _LEAVES and not is_immutable(place):
            return None
        if type(item) in _LEAVES:
            continue
        copy = copier(item, depth + 1) if depth < _DEEPEST else None
        if copy is None:
            return None
        if copy is not _itself:
            inner.append((place, copy))
    if not inner:
        return shallow

    def deep(original: Any) -> Any:
        made = shallow(original)
        for place, copy in inner:
            made[place] = copy(original[place])
        return made

    return deep


def _itself(value: Any) -> Any:
    return value
