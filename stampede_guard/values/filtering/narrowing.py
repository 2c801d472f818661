"""Narrows a value to its declared type: of a subclass, only what the declared class has is left.

FastAPI answers a `UserInDB` that is declared as `UserOut` with the fields of `UserOut`. `narrowed` makes that object
before it is stored. So no field beside the declared ones is in the store, and all callers get the same type. No code of
the classes runs.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stampede_guard.values.annotations import alternatives, root_package, unwrap
from stampede_guard.values.codec.attributes import attributes_of, per_class
from stampede_guard.values.codec.records import fill_state, is_model, is_record
from stampede_guard.values.filtering.generics import hints_of

__all__ = ["Foreign", "narrowed"]

_SET = object.__setattr__
_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Collection)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_EXACT = ("builtins", "datetime", "decimal", "uuid")
"""Modules whose classes take no subclass here: `True` does not count as an `int`, nor a `datetime` as a `date`."""
_ITEM_MARKS = ("Required", "NotRequired", "ReadOnly")


class Foreign(Exception):
    """A value, or a part of it, is not of the declared type. It must be converted first."""

    def __init__(self, part: object) -> None:
        self.part = part


def narrowed(annotation: Any, value: Any, *, trusted: bool = False) -> Any:
    """The value, with its declared parts only. The same object if nothing is left out. Raises `Foreign`.

    A `trusted` value was made by the program. Then the plain fields of its models are not looked at.
    """
    annotation = unwrap(annotation)
    origin = typing.get_origin(annotation)
    if getattr(origin, "_name", "") in _ITEM_MARKS:
        return narrowed(typing.get_args(annotation)[0], value, trusted=trusted)
    if isinstance(annotation, typing.TypeVar):
        return narrowed(_any_of(annotation), value, trusted=trusted)
    if annotation in (Any, object):
        return value
    if annotation is None or annotation is types.NoneType:
        return _of(types.NoneType, value)
    if origin is typing.Literal:
        if not any(type(value) is type(one) and value == one for one in typing.get_args(annotation)):
            raise Foreign(value)
        return value
    if origin in (typing.Union, types.UnionType):
        return _one_of(typing.get_args(annotation), value, trusted)
    arguments = typing.get_args(annotation)
    kind = origin or annotation
    if kind in _LISTS:
        return _items(_of(list, value), arguments[:1], list, trusted)
    if kind in _SETS:
        return _items(
            _of(set if kind not in (frozenset,) else frozenset, value), arguments[:1], type(value), trusted
        )
    if kind is tuple:
        return _tuple(_of(tuple, value), arguments, trusted)
    if kind in _DICTS:
        return _dict(_of(dict, value), arguments, trusted)
    return _object(kind, arguments, value, trusted) if isinstance(kind, type) else value


def _any_of(variable: typing.TypeVar) -> Any:
    """What a type variable without an argument stands for, as pydantic reads it."""
    if getattr(variable, "has_default", bool)():
        return variable.__default__  # type: ignore[attr-defined]  # Python 3.13 and later
    if variable.__constraints__:
        return typing.Union[variable.__constraints__]  # noqa: UP007
    return Any if variable.__bound__ is None else variable.__bound__


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise Foreign(value)
    return value


def _one_of(members: Iterable[Any], value: Any, trusted: bool) -> Any:
    """The member that the value fits without a change, else the first that it fits at all."""
    fitting = None
    for member in members:
        try:
            found = narrowed(member, value, trusted=trusted)
        except Foreign:
            continue
        if found is value:
            return value
        fitting = fitting or (found,)
    if fitting is None:
        raise Foreign(value)
    return fitting[0]


def _items(
    value: Any, arguments: tuple[Any, ...], make: Callable[[Iterable[Any]], Any], trusted: bool
) -> Any:
    if not arguments:
        return value
    items = [*value]
    kind = arguments[0]
    if trusted and isinstance(kind, type) and is_model(kind) and not _deep_fields(kind):
        # The usual answer, rows of plain fields, costs one look at each row.
        if set(map(type, items)) <= {kind}:
            return value
    found = [narrowed(arguments[0], item, trusted=trusted) for item in items]
    return value if _unchanged(found, items) else make(found)


def _tuple(value: tuple[Any, ...], arguments: tuple[Any, ...], trusted: bool) -> Any:
    if not arguments:
        return value
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _items(value, arguments[:1], tuple, trusted)
    if len(arguments) != len(value):
        raise Foreign(value)
    found = [narrowed(hint, item, trusted=trusted) for hint, item in zip(arguments, value, strict=True)]
    return value if _unchanged(found, value) else tuple(found)


def _dict(value: dict[Any, Any], arguments: tuple[Any, ...], trusted: bool) -> Any:
    if len(arguments) != 2:
        return value
    keys, items = [*value], [*value.values()]
    new_keys = [narrowed(arguments[0], key, trusted=trusted) for key in keys]
    new_items = [narrowed(arguments[1], item, trusted=trusted) for item in items]
    if _unchanged(new_keys, keys) and _unchanged(new_items, items):
        return value
    return dict(zip(new_keys, new_items, strict=True))


def _unchanged(found: Iterable[Any], before: Iterable[Any]) -> bool:
    return all(one is other for one, other in zip(found, before, strict=True))


def _object(kind: Any, arguments: tuple[Any, ...], value: Any, trusted: bool) -> Any:
    if hasattr(kind, "__required_keys__"):
        return _typed_dict(kind, hints_of(kind, arguments), value, trusted)
    if issubclass(kind, enum.Enum):
        return _of(kind, value)
    if is_model(kind):
        return _model(kind, value, trusted)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, hints_of(kind, arguments), value, trusted)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = hints_of(kind, arguments)
        items = tuple.__iter__(_of(kind, value))
        found = [
            narrowed(hints.get(name, Any), item, trusted=trusted)
            for name, item in zip(kind._fields, items, strict=True)
        ]
        return value if _unchanged(found, value) else tuple.__new__(kind, found)
    if not isinstance(value, kind) or (type(value) is not kind and root_package(kind) in _EXACT):
        raise Foreign(value)
    return value


def _typed_dict(kind: Any, hints: Mapping[str, Any], value: Any, trusted: bool) -> Any:
    if not kind.__required_keys__ <= _of(dict, value).keys():
        raise Foreign(value)
    # More keys than declared: pydantic decides what becomes of them.
    if not value.keys() <= hints.keys():
        raise Foreign(value)
    found = {name: narrowed(hints[name], item, trusted=trusted) for name, item in value.items()}
    return value if _unchanged(found.values(), value.values()) else found


def _model(kind: Any, value: Any, trusted: bool) -> Any:
    if not isinstance(value, kind):
        raise Foreign(value)
    exact = type(value) is kind
    if exact and trusted and not _deep_fields(kind):
        return value
    fields: Mapping[str, Any] = kind.model_fields
    held: dict[str, Any] = value.__dict__
    looked_at = _deep_fields(kind) if trusted else fields
    found = {
        name: narrowed(fields[name].annotation, held[name], trusted=trusted)
        if name in looked_at
        else held[name]
        for name in fields
        if name in held
    }
    extra = value.__pydantic_extra__ if kind.model_config.get("extra") == "allow" else None
    if exact and all(found[name] is held[name] for name in found):
        return value
    if not is_record(kind):
        raise Foreign(value)
    made = object.__new__(kind)
    others = {name: item for name, item in held.items() if name not in fields} if exact else {}
    private = value.__pydantic_private__
    declared = kind.__private_attributes__
    _SET(made, "__dict__", found | others)
    _SET(made, "__pydantic_fields_set__", value.__pydantic_fields_set__ & fields.keys())
    kept = {name: private[name] for name in declared if name in private} if declared and private else None
    fill_state(made, kind, extra, kept)
    return made


def _dataclass(kind: Any, hints: Mapping[str, Any], value: Any, trusted: bool) -> Any:
    if not isinstance(value, kind):
        raise Foreign(value)
    names = [field.name for field in dataclasses.fields(kind)]
    held = {name: getattr(value, name) for name in names if hasattr(value, name)}
    found = {name: narrowed(hints.get(name, Any), item, trusted=trusted) for name, item in held.items()}
    if type(value) is kind and _unchanged(found.values(), held.values()):
        return value
    if not is_record(kind) or (type(value) is kind and attributes_of(value, frozenset(names))):
        # A copy would lose the attributes beside its fields.
        raise Foreign(value)
    made = object.__new__(kind)
    for name, item in found.items():
        _SET(made, name, item)
    return made


@per_class
def _deep_fields(kind: type) -> frozenset[str]:
    """The fields of a model that may hold a record with undeclared parts."""
    fields: Mapping[str, Any] = kind.model_fields  # type: ignore[attr-defined]
    return frozenset(
        name for name, info in fields.items() if any(map(_is_deep, alternatives(info.annotation)))
    )


def _is_deep(annotation: Any) -> bool:
    kind = typing.get_origin(annotation) or annotation
    if isinstance(annotation, typing.TypeVar):
        return True
    if not isinstance(kind, type) or issubclass(kind, enum.Enum):
        return False
    fields = hasattr(kind, "_fields") or hasattr(kind, "__required_keys__")
    return fields or is_model(kind) or dataclasses.is_dataclass(kind)
