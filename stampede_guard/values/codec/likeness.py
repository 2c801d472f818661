"""Whether a decoded value equals the encoded one. It compares the contents, and never calls a user's `__eq__`.

A class that compares by id would treat a dog as equal to the animal it was stored as, and the dog's own fields
would be lost.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import marshal
import types
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

from stampede_guard.values.annotations import field_names
from stampede_guard.values.codec.attributes import NO_FIELDS, attributes_of, is_standard, own_slots, per_class
from stampede_guard.values.codec.hidden import is_excluded, is_secret, masked, public_kind

__all__ = ["alike", "difference", "same", "shown_difference"]

_ORDER_COUNTS: ContextVar[bool] = ContextVar("stampede_guard_order_counts", default=True)
_HIDDEN_COUNTS: ContextVar[bool] = ContextVar("stampede_guard_hidden_counts", default=True)
_SEQUENCES = (list, tuple)
_SETS = (set, frozenset)
_LEAVES = frozenset({types.NoneType, bool, int, float, str, bytes})
_SCALARS = (str, int, float, bytes, bytearray, complex)
_MOST_PAIRED = 256
"""Items of a set that are compared with each other one by one."""


def difference(original: Any, back: Any, where: str = "the result") -> str | None:
    """The difference that a caller would notice if it got `back` instead of `original`; None if there is none.

    A declared type may replace one that holds no more than it: a list for a tuple, `1.0` for `1`, a model for a
    dict with the same content. The answer contains no values, because it is logged.
    """
    kind = type(original)
    if kind is not type(back):
        return _conversion(original, back, where)
    if kind in _LEAVES:
        return None if original == back or (original != original and back != back) else _changed(kind, where)
    if kind in _EXACT:
        return _EXACT[kind](original, back, where)
    if isinstance(original, enum.Enum):
        return None if original is back else difference(original._value_, back._value_, where)
    if _is_all_in_its_attributes(kind) and _same_attributes(original, back):
        return None
    names = _field_names(kind)
    if names is not None and not issubclass(kind, _SEQUENCES + _SETS + _SCALARS):
        return _record(original, back, names, where)
    return _content(kind, original, back, where) or _attributes(original, back, NO_FIELDS, where)


def shown_difference(original: Any, back: Any) -> str | None:
    """The difference in what pydantic shows: see `values.codec.hidden`."""
    token = _HIDDEN_COUNTS.set(False)
    try:
        return difference(original, back)
    finally:
        _HIDDEN_COUNTS.reset(token)


def same(one: Any, other: Any) -> bool:
    """Whether two results of one function hold the same. Two dictionaries may do so in another order."""
    token = _ORDER_COUNTS.set(False)
    try:
        return difference(one, other) is None
    finally:
        _ORDER_COUNTS.reset(token)


def alike(value: Any, back: Any) -> bool:
    """A fast check for Python's own types, exactly. False if it cannot decide.

    It does not distinguish a bytearray from bytes.
    """
    try:
        # Format 2 writes equal objects in the same way, however often they are referred to.
        return marshal.dumps(value, 2) == marshal.dumps(back, 2)
    except ValueError:
        return False


@per_class
def _is_all_in_its_attributes(kind: type) -> bool:
    """Whether `__dict__` is the complete state of a record class's value."""
    return field_names(kind) is not None and kind.__basicsize__ == _OPEN_SIZE and not own_slots(kind)


class _Open:
    pass


_OPEN_SIZE = _Open.__basicsize__


def _same_attributes(original: Any, back: Any) -> bool:
    mine, others = vars(original), vars(back)
    return mine.keys() == others.keys() and _same_leaves([*mine.values()], [others[name] for name in mine])


def _content(kind: type, original: Any, back: Any, where: str) -> str | None:
    """For two values of one class: the content of the built-in type that it is or derives from."""
    if issubclass(kind, _SEQUENCES):
        return _sequence(original, back, where)
    if issubclass(kind, dict):
        return _mapping(original, back, where)
    if issubclass(kind, _SETS):
        return _set(original, back, where)
    if issubclass(kind, datetime.datetime | datetime.time):
        base = datetime.datetime if issubclass(kind, datetime.datetime) else datetime.time
        same = base.__eq__(original, back) is True and _same_zone(original, back)
        return None if same else f"{where}: its time zone is lost"
    if issubclass(kind, decimal.Decimal):
        # 1.0 and 1.00 are equal, but are written differently
        same = decimal.Decimal.as_tuple(original) == decimal.Decimal.as_tuple(back)
        return None if same else _changed(kind, where)
    equal = _trusted_equality(kind)
    if equal is None:
        return None  # all of its content is in its attributes
    same = equal(original, back) is True or (equal(original, original) is equal(back, back) is False)
    return None if same else _changed(kind, where)


def _changed(kind: type, where: str) -> str:
    return f"{where}: a {kind.__name__} comes back changed"


@per_class
def _trusted_equality(kind: type) -> Callable[[Any, Any], Any] | None:
    """The first `__eq__` of the class or its bases that is not written by a user."""
    for base in kind.__mro__[:-1]:
        equal = vars(base).get("__eq__")
        if equal is not None and (not isinstance(equal, types.FunctionType) or is_standard(base)):
            return cast("Callable[[Any, Any], Any]", equal)
    return None


_field_names = per_class(field_names)


def _conversion(original: Any, back: Any, where: str) -> str | None:
    kind: type = type(original)
    target: Any = type(back)
    if not _HIDDEN_COUNTS.get() and is_secret(kind) and public_kind(kind) is public_kind(target):
        return None if masked(original) == masked(back) else _changed(kind, where)
    if not isinstance(original, enum.Enum) and isinstance(original, (*_SEQUENCES, *_SETS, dict, *_SCALARS)):
        found = _attributes(original, None, NO_FIELDS, where)
        if found is not None:
            return found
    if isinstance(original, _SEQUENCES) and isinstance(back, _SEQUENCES):
        return _sequence(original, back, where)
    if isinstance(original, Mapping) and target is dict:
        return _mapping(original, back, where)
    if isinstance(original, dict) and _field_names(target) is not None:
        return _dict_as_record(original, back, where)
    if isinstance(back, enum.Enum) and not isinstance(original, enum.Enum):
        return difference(original, back._value_, where)
    if target is float and kind is int and original == back:
        return None
    if target in _SETS and isinstance(original, target):
        return _set(original, back, where)
    if target in (int, str, float, bytes) and isinstance(original, target):
        return None if target.__eq__(original, back) is True else _changed(kind, where)
    return f"{where}: a {kind.__name__} would come back as a {target.__name__}"


def _same_leaf(item: Any, other: Any) -> bool:
    kind = type(item)
    return kind is type(other) and kind in _LEAVES and bool(item == other)


def _same_leaves(items: list[Any], others: list[Any]) -> bool:
    """All at once: for rows of plain values, Python's own loops would take most of the time."""
    return (
        _LEAVES.issuperset(map(type, items))
        and list(map(type, items)) == list(map(type, others))
        and items == others
    )


def _items(value: Any) -> list[Any]:
    """The items of a list, tuple or set, without its class's own methods."""
    base: Any
    for base in (list, tuple, set, frozenset):
        if isinstance(value, base):
            return [*base.__iter__(value)]
    return [*value]


def _sequence(original: Any, back: Any, where: str) -> str | None:
    items, others = _items(original), _items(back)
    if len(items) != len(others):
        return f"{where}: of {len(items)} items {len(others)} come back"
    if _same_leaves(items, others):
        return None
    for index, (item, other) in enumerate(zip(items, others, strict=True)):
        if _same_leaf(item, other):
            continue
        if found := difference(item, other, f"{where}[{index}]"):
            return found
    return None


def _mapping(original: Mapping[Any, Any], back: Mapping[Any, Any], where: str) -> str | None:
    keys, other_keys = [*original], [*back]
    if len(keys) != len(other_keys):
        return f"{where}: of {len(keys)} keys {len(other_keys)} come back"
    values, other_values = [*original.values()], [*back.values()]
    if not _same_leaves(keys, other_keys):
        if (
            not _ORDER_COUNTS.get()
            and {*map(_form, keys)} == {*map(_form, other_keys)}
            and None not in map(_form, keys)
        ):
            return _values_by_key(original, back, where)
        for key, other_key in zip(keys, other_keys, strict=True):
            if not _same_leaf(key, other_key) and difference(key, other_key):
                return f"{where}: a key of type {type(key).__name__} comes back changed or in another place"
    if _same_leaves(values, other_values):
        return None
    for item, other in zip(values, other_values, strict=True):
        if not _same_leaf(item, other) and (found := difference(item, other, f"{where}[...]")):
            return found
    return None


def _values_by_key(original: Mapping[Any, Any], back: Mapping[Any, Any], where: str) -> str | None:
    for key, item in original.items():
        if found := difference(item, back[key], f"{where}[...]"):
            return found
    return None


class _Form(NamedTuple):
    """Equal for equal items of a set, without any user code."""

    kind: type
    content: Any


def _form(item: Any) -> _Form | None:
    kind = type(item)
    if kind in _LEAVES:
        return _Form(kind, repr(item))
    if kind is tuple or kind is frozenset:
        inner = [_form(one) for one in item]
        return None if None in inner else _Form(kind, kind(inner))
    return None


def _set(original: Any, back: Any, where: str) -> str | None:
    items, others = _items(original), _items(back)
    if len(items) != len(others):
        return f"{where}: of {len(items)} items {len(others)} come back"
    forms, other_forms = {_form(item) for item in items}, {_form(item) for item in others}
    if None not in forms and forms == other_forms:
        return None
    if len(items) > _MOST_PAIRED:
        return f"{where}: a set of {len(items)} items of this type is too large to be compared"
    for item in items:
        index = next((n for n, other in enumerate(others) if difference(item, other) is None), None)
        if index is None:
            return f"{where}: an item of type {type(item).__name__} comes back changed"
        del others[index]
    return None


def _record(original: Any, back: Any, names: Iterable[str], where: str) -> str | None:
    hidden = not _HIDDEN_COUNTS.get()
    if hidden and (fields := getattr(type(original), "model_fields", None)):
        names = [name for name in names if not is_excluded(fields[name], getattr(original, name, None))]
    values = [getattr(original, name, None) for name in names]
    others = [getattr(back, name, None) for name in names]
    if not _same_leaves(values, others):
        for name, item, other in zip(names, values, others, strict=True):
            if not _same_leaf(item, other) and (found := difference(item, other, f"{where}.{name}")):
                return found
    if _ORDER_COUNTS.get() and (
        getattr(original, "__pydantic_fields_set__", None) != getattr(back, "__pydantic_fields_set__", None)
    ):
        return f"{where}: it is no longer known which of its fields were set"
    for state in ("__pydantic_extra__",) if hidden else ("__pydantic_extra__", "__pydantic_private__"):
        extra, other_extra = getattr(original, state, None) or {}, getattr(back, state, None) or {}
        if (extra or other_extra) and (found := difference(extra, other_extra, f"{where}.{state}")):
            return found
    if isinstance(original, dict) and (found := _mapping(original, back, where)):
        return found
    return _attributes(original, back, frozenset(_field_names(type(original)) or names), where)


def _attributes(original: Any, back: Any, names: frozenset[str], where: str) -> str | None:
    """The attributes of a value beside its fields. `back` None: it has no place for them."""
    if is_secret(type(original)) and not _HIDDEN_COUNTS.get():
        return None
    mine = attributes_of(original, names)
    others = {} if back is None else attributes_of(back, names)
    if not mine and not others:
        return None
    for name in mine.keys() | others.keys():
        if name not in mine or name not in others:
            return f"{where}: its attribute {name!r}, which is no field, would be lost"
        if found := difference(mine[name], others[name], f"{where}.{name}"):
            return found
    return None


def _dict_as_record(original: dict[Any, Any], back: Any, where: str) -> str | None:
    aliases = {
        field.alias: name for name, field in getattr(type(back), "model_fields", {}).items() if field.alias
    }
    for key, item in original.items():
        name = aliases.get(key, key)
        if not isinstance(name, str) or not hasattr(back, name):
            return f"{where}: a {type(back).__name__} has no place for one of the keys of the dict"
        if found := difference(item, getattr(back, name), f"{where}.{name}"):
            return found
    return None


def _same_zone(original: Any, back: Any) -> bool:
    if original.tzinfo is None:
        # The first or second time of an hour that the clocks repeat.
        return back.tzinfo is None and bool(original.fold == back.fold)
    if isinstance(original.tzinfo, zoneinfo.ZoneInfo) or isinstance(back.tzinfo, zoneinfo.ZoneInfo):
        return bool(original.tzinfo == back.tzinfo and original.fold == back.fold)
    return bool(original.utcoffset() == back.utcoffset())


_EXACT: dict[type, Callable[[Any, Any, str], str | None]] = {
    list: _sequence, tuple: _sequence, dict: _mapping, set: _set, frozenset: _set,
}  # fmt: skip
"""Types without attributes."""
