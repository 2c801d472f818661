"""Records as exact bytes: objects of classes that bytes name, for values whose type no annotation tells.

A record is a dataclass, a pydantic model, a named tuple, an enum, a path or an address. Its bytes hold the name of its
class and its fields. It comes back without a call of the class: no `__init__`, no validator, no property. So a
validator that changes its input cannot change it twice. The class must be known already: nothing is imported.

What pydantic never shows is not stored: fields with `exclude=True`, private attributes, and what a `SecretStr` holds.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import ipaddress
import pathlib
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import msgpack

from stampede_guard.errors import Undecodable, UnsupportedValue
from stampede_guard.values.annotations import comes_from, root_package
from stampede_guard.values.classnames import members_of, name_of, named
from stampede_guard.values.codec.attributes import attributes_of, per_class
from stampede_guard.values.codec.builtin import dumps, lift_with, refusal
from stampede_guard.values.codec.hidden import is_excluded, is_secret, masked, public_kind, unmasked
from stampede_guard.values.codec.immutable import is_plain_tuple

__all__ = ["MOST_CLASSES", "NAMED", "Records", "described", "fill_state", "is_model", "is_record"]

NAMED = b"\xc1"
"""Begins a value of a declared type whose records are stored by name. No JSON and no MessagePack begins with it."""

MOST_CLASSES = 1000
"""Classes that one codec remembers because their name does not lead to them."""
_RECORD = 15
"""The number of the extension. See `values.codec.builtin`."""
_HEAP_TYPE = 1 << 9
_TEXTS = frozenset({
    pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath,
    ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
    ipaddress.IPv4Interface, ipaddress.IPv6Interface,
})  # fmt: skip
_METACLASSES = frozenset({type, ABCMeta, enum.EnumMeta})
_LEAVES = (bool, int, float, str, bytes)
_NEW = object.__new__
_SET = object.__setattr__
_HARMLESS = (list, dict, set)
"""Factories of private attributes. Others are code of the application, which does not run here."""


@per_class
def is_model(kind: type) -> bool:
    """Whether a class is a model of pydantic."""
    return comes_from(kind, "pydantic") and isinstance(getattr(kind, "model_fields", None), dict)


def is_record(kind: type) -> bool:
    """Whether objects of the class can be stored by its name, and made without running its code."""
    # Asked first: a metaclass of the application may run code for any question about the class.
    meta = type(kind)
    return (meta in _METACLASSES or _is_of_pydantic(meta)) and _is_record(kind)


def _is_of_pydantic(meta: type) -> bool:
    return meta.__module__.startswith("pydantic.") and type(meta) is type


@per_class
def _is_record(kind: type) -> bool:
    if kind in _TEXTS or is_secret(kind) or _is_url(kind):
        return True
    if issubclass(kind, enum.Enum):
        return True
    if issubclass(kind, tuple):
        return kind is not tuple and is_plain_tuple(kind) and hasattr(kind, "_fields")
    names = _names(kind)
    return names is not None and _is_plain(kind, names)


def _is_plain(kind: type, names: Iterable[str]) -> bool:
    """Whether nothing runs when an object is made, filled or dies, and all of it is in its attributes."""
    bases = kind.__mro__[:-1]
    if any(not base.__flags__ & _HEAP_TYPE or "__del__" in members_of(base) for base in bases):
        return False
    fields = frozenset(names)
    return not any(
        name in fields and hasattr(type(member), "__set__") and type(member).__module__ != "builtins"
        for base in bases
        for name, member in members_of(base).items()
    ) and not any(isinstance(members_of(base).get(name), property) for base in bases for name in fields)


@per_class
def _fields(kind: type) -> frozenset[str]:
    return frozenset(_names(kind) or ())


@per_class
def _has_hidden(kind: type) -> bool:
    return any(map(is_excluded, kind.model_fields.values()))  # type: ignore[attr-defined]


@per_class
def _names(kind: type) -> tuple[str, ...] | None:
    if is_model(kind):
        return tuple(kind.model_fields)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return None


def _is_url(kind: type) -> bool:
    return root_package(kind) in ("pydantic", "pydantic_core") and kind.__name__.endswith(("Url", "Dsn"))


class Records:
    """How the values of one function hold records.

    `classes` are those of its declared type. With `is_open`, the declared type leaves a place for others.
    """

    def __init__(self, classes: Iterable[type] = (), *, is_open: bool = True) -> None:
        self._classes: dict[tuple[str, str], type] = {}
        self._is_open = is_open
        # Looked up once: a value may hold thousands of records of one class.
        self._names: dict[type, tuple[str, str]] = {}
        self._found: dict[tuple[str, str], type] = {}
        for kind in classes:
            self._know(kind)
        self.loads: Callable[[Any], Any] = msgpack.Decoder(ext_hook=self._lift).decode
        """The value of bytes made by `dumps`. Raises any error that damaged bytes cause."""

    def dumps(self, value: Any) -> bytes:
        """The bytes of a value. Raises `UnsupportedValue`, which names a type that cannot be stored."""
        return dumps(value, self._lower)

    def _know(self, kind: type) -> None:
        # Of two classes of one name, only one can be stored.
        self._classes[_name(kind)] = kind

    def _lower(self, value: Any, inner: Callable[[Any], Any]) -> Any:
        kind = public_kind(type(value))
        name = self._names.get(kind)
        if name is None:
            if not is_record(kind) or not self._is_named(kind):
                raise refusal(value)
            name = _name(kind)
            if len(self._names) < MOST_CLASSES:
                self._names[kind] = name
        return msgpack.Ext(_RECORD, msgpack.encode([*name, _state(value, kind, inner)]))

    def _is_named(self, kind: type) -> bool:
        name = _name(kind)
        if name not in self._classes:
            if not self._is_open:
                return False
            if named(*name, is_record) is not kind:
                # A class that was made in a function: this codec reads its own bytes.
                if len(self._classes) >= MOST_CLASSES:
                    return False
                self._know(kind)
            return True
        return self._classes[name] is kind

    def _lift(self, code: int, data: memoryview) -> Any:
        if code != _RECORD:
            return lift_with(self.loads, code, data)
        module, qualname, state = self.loads(data)
        kind = self._classes.get((module, qualname))
        if kind is None and self._is_open:
            kind = self._found.get((module, qualname)) or named(module, qualname, is_record)
            if kind is not None and len(self._found) < MOST_CLASSES:
                self._found[module, qualname] = kind
        if kind is None:
            raise Undecodable("stored bytes name a class that is not here")
        return _made(kind, state)


class _Described:
    """Prints as the call that would make the record."""

    def __init__(self, qualname: object, state: object) -> None:
        self._text = f"{qualname}({state!r})"

    def __repr__(self) -> str:
        return self._text


def described(data: bytes) -> Any:
    """The value of these bytes for people. Records print their class and content; no class is looked for.

    Raises any error that damaged bytes cause.
    """

    def lift(code: int, data: memoryview) -> Any:
        if code != _RECORD:
            return lift_with(read, code, data)
        _, qualname, state = read(data)
        # Of a model, only the fields.
        fields = state[0] if isinstance(state, list) and state and isinstance(state[0], dict) else state
        return _Described(qualname, fields)

    read = msgpack.Decoder(ext_hook=lift).decode
    value = read(data.removeprefix(NAMED))
    if data.startswith(NAMED) and not isinstance(value, (_Described, list, dict, tuple, set, frozenset)):
        raise ValueError("no records: encrypted or compressed bytes may begin like this")
    return value


def _name(kind: type) -> tuple[str, str]:
    return name_of(kind) or ("", kind.__qualname__)


def _state(value: Any, kind: type, inner: Callable[[Any], Any]) -> Any:
    if isinstance(value, enum.Enum):
        # A combination of flags has no name, or one that is not its own.
        if members_of(kind).get("_member_map_", {}).get(value.name) is not value:
            raise UnsupportedValue(f"the result holds a combination of {kind.__name__}, which has no name")
        return value.name
    if is_secret(kind):
        return masked(value)
    if kind in _TEXTS or _is_url(kind):
        return str(value)
    if isinstance(value, tuple):
        return [inner(item) for item in tuple.__iter__(value)]
    names = _names(kind) or ()
    if stray := attributes_of(value, _fields(kind)):
        raise UnsupportedValue(
            f"the attribute {min(stray)!r} of a {kind.__name__} is no field and would be lost"
        )
    try:
        if not is_model(kind):
            return {name: inner(getattr(value, name)) for name in names}
        return _state_of_model(value, kind, inner)
    except AttributeError as error:
        raise UnsupportedValue(f"a {kind.__name__} in the result lacks its field {error.name!r}") from None


def _state_of_model(value: Any, kind: Any, inner: Callable[[Any], Any]) -> list[Any]:
    held: Mapping[str, Any] = value.__dict__
    shown: dict[str, Any] = {}
    defaulted: list[str] = []
    if not _has_hidden(kind) and held.keys() >= _fields(kind):
        shown = {name: inner(held[name]) for name in _names(kind) or ()}
        return [shown, sorted(value.__pydantic_fields_set__), _extra(value, inner), defaulted]
    for name, info in kind.model_fields.items():
        if name not in held:
            if info.exclude:
                continue
            raise AttributeError(name=name)
        if not is_excluded(info, held[name]):
            shown[name] = inner(held[name])
        elif _is_default(info, held[name]):
            defaulted.append(name)
    return [shown, sorted(value.__pydantic_fields_set__), _extra(value, inner), defaulted]


def _extra(value: Any, inner: Callable[[Any], Any]) -> dict[str, Any] | None:
    extra = value.__pydantic_extra__
    return None if extra is None else {name: inner(item) for name, item in extra.items()}


def _is_default(info: Any, value: Any) -> bool:
    if info.is_required() or info.default_factory is not None:
        return False
    default = info.default
    return default is value or (type(default) is type(value) in _LEAVES and bool(default == value))


def _made(kind: Any, state: Any) -> Any:
    if issubclass(kind, enum.Enum):
        return members_of(kind)["_member_map_"][state]
    if is_secret(kind):
        return unmasked(kind, state)
    if kind in _TEXTS or _is_url(kind):
        return kind(state)
    if issubclass(kind, tuple):
        if len(state) != len(kind._fields):
            raise Undecodable(f"a stored {kind.__name__} has other fields")
        return tuple.__new__(kind, state)
    made = _NEW(kind)
    if is_model(kind):
        _fill_model(made, kind, state)
        return made
    if state.keys() != _fields(kind):
        raise Undecodable(f"a stored {kind.__name__} has other fields")
    for name, value in state.items():
        _SET(made, name, value)
    return made


def _fill_model(made: Any, kind: Any, state: Any) -> None:
    shown, fields_set, extra, defaulted = state
    if extra is not None and kind.model_config.get("extra") != "allow":
        raise Undecodable(f"a stored {kind.__name__} has fields that it does not allow")
    if shown.keys() != _fields(kind):
        fields = kind.model_fields
        lacking = fields.keys() - shown.keys()
        if not shown.keys() <= fields.keys() or not all(is_excluded(fields[name]) for name in lacking):
            raise Undecodable(f"a stored {kind.__name__} has other fields")
        for name in defaulted:
            shown[name] = copy.deepcopy(fields[name].default)
    # In the order of the class: pydantic shows them so.
    _SET(made, "__dict__", {name: shown[name] for name in _names(kind) or () if name in shown})
    _SET(made, "__pydantic_fields_set__", set(fields_set))
    fill_state(made, kind, extra, _private(kind))


def fill_state(made: Any, kind: Any, extra: dict[str, Any] | None, private: dict[str, Any] | None) -> None:
    """What a model holds beside its fields. A root model has no place for it: without any, it gets no attribute."""
    rooted = getattr(kind, "__pydantic_root_model__", False)
    if not rooted:
        _SET(made, "__pydantic_extra__", extra)
    if not rooted or private is not None:
        _SET(made, "__pydantic_private__", private)


def _private(kind: Any) -> dict[str, Any] | None:
    """As pydantic begins, without any factory of the application."""
    declared = kind.__private_attributes__
    if not declared:
        return None
    found: dict[str, Any] = {}
    for name, private in declared.items():
        if private.default_factory in _HARMLESS:
            found[name] = private.default_factory()
        elif private.default_factory is None and type(private.default).__name__ != "PydanticUndefinedType":
            found[name] = copy.deepcopy(private.default)
    return found
