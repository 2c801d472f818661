"""The shape of a type: a text that changes when the stored form changes, and facts for the codec."""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import enum
import ipaddress
import pathlib
import types
import typing
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from stampede_guard.errors import UnsupportedValue
from stampede_guard.values.annotations import (
    alias_name,
    comes_from,
    cure_of_django,
    cure_of_live,
    field_names,
    is_mapped,
    live_kind,
    unwrap,
)
from stampede_guard.values.codec.immutable import is_frozen_struct, is_plain_tuple
from stampede_guard.values.parts.parts import Unkeyable, text_of

__all__ = ["TEXTUAL", "Shape", "shape_of"]

# Types with a text form that can be converted back.
TEXTUAL: tuple[type, ...] = (
    pathlib.PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
    ipaddress.IPv4Interface, ipaddress.IPv6Interface,
)  # fmt: skip
_PLAIN = frozenset({bool, int, float, str, bytes})
_ZONED = frozenset({datetime.datetime, datetime.time})
_EXOTIC = frozenset({datetime.date, datetime.timedelta, decimal.Decimal, uuid.UUID})
_CONTAINERS: dict[Any, str] = {
    list: "list", dict: "dict", set: "set", tuple: "tuple", frozenset: "frozenset",
    collections.abc.Sequence: "list", collections.abc.MutableSequence: "list", collections.abc.Collection: "list",
    collections.abc.Mapping: "dict", collections.abc.MutableMapping: "dict",
    collections.abc.Set: "set", collections.abc.MutableSet: "set",
}  # fmt: skip
_ITEM_MARKS = ("Required", "NotRequired", "ReadOnly")
_HARMLESS_FACTORIES = (list, dict, set, tuple, frozenset, str, int, float, bool)


@dataclass
class Shape:
    """The result of `shape_of`. `immutable`: True for every value of the type, False for none, None for some."""

    text: str = ""
    immutable: bool | None = None
    open: bool = False  # it contains Any: only the value shows the type
    zoned: bool = False  # it contains moments, whose zones only the exact codec keeps
    exotic: bool = False  # it contains something without a JSON form
    records: bool = False
    pydantic: bool = False
    computed_defaults: bool = False  # decoding would fill an absent field with a new value each time
    unknown: set[str] = field(default_factory=set)
    classes: set[type] = field(default_factory=set)
    """The classes whose objects it holds."""


class Undescribed(UnsupportedValue):
    """The annotation holds a class without declared fields. Something else may describe its values."""


def shape_of(annotation: Any, *, lenient: bool = False) -> Shape:
    """The shape of a type. Raises `UnsupportedValue` if it cannot be stored, unless it is `lenient`.

    Raises `Undescribed` for a class without declared fields.
    """
    shape = Shape()
    walk = _Walk(shape)
    shape.text, shape.immutable = walk.visit(annotation)
    if shape.unknown and not lenient:
        names = ", ".join(sorted(shape.unknown))
        for kind in shape.classes:
            if comes_from(kind, "django"):
                cure = cure_of_django(kind)
                raise UnsupportedValue(f"the return annotation holds {names}, which cannot be stored: {cure}")
        # A pickled row has lost its session: what it has not loaded is an error later.
        others = "" if any(map(is_mapped, shape.classes)) else ", or ask for pickle by name: pickle=True"
        raise Undescribed(
            f"the return annotation holds {names}, which cannot be stored; use a pydantic model, a dataclass, "
            f"a TypedDict, a NamedTuple, a msgspec.Struct, an enum or Python's own types{others}"
        )
    return shape


_Found = tuple[str, bool | None]


class _Walk:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.open_records: list[Any] = []
        self.open_aliases: dict[str, Any] = {}

    def visit(self, annotation: Any) -> _Found:
        name, kind = alias_name(annotation), unwrap(annotation)
        if kind in self.open_aliases.values() or _forward_name(kind) in self.open_aliases:
            # A `type X = ...` that uses itself, as `X` or as `"X"`: the outer visit describes it. msgspec does not.
            self.shape.pydantic = True
            return name or _forward_name(kind), None
        outer = self.open_aliases
        self.open_aliases = {**outer, name: kind} if name else outer
        found = self._visit(kind)
        self.open_aliases = outer
        return found

    def _visit(self, annotation: Any) -> _Found:
        origin = typing.get_origin(annotation)
        if getattr(origin, "_name", "") in _ITEM_MARKS:
            text, immutable = self.visit(typing.get_args(annotation)[0])
            return f"{text}?" if origin is typing.NotRequired else text, immutable
        if annotation is None or annotation is types.NoneType:
            return "None", True
        if annotation in (Any, object):
            self.shape.open = True
            return "Any", None
        if isinstance(annotation, typing.TypeVar):
            return self.visit(annotation.__bound__ if annotation.__bound__ is not None else Any)
        if isinstance(annotation, str | typing.ForwardRef):
            raise UnsupportedValue(
                f"the return annotation {annotation!r} cannot be evaluated at run time; import its names outside of "
                f"`if TYPE_CHECKING:`"
            )
        if origin is typing.Literal:
            return f"Literal{sorted(map(repr, typing.get_args(annotation)))}", True
        if origin in (typing.Union, types.UnionType):
            return self._union(typing.get_args(annotation))
        if (kind := live_kind(annotation)) is not None:
            raise UnsupportedValue(
                f"the return annotation holds {kind}, which cannot be stored and given to other callers; "
                f"{cure_of_live(annotation)}"
            )
        container = _CONTAINERS.get(origin or annotation)
        if container is not None:
            return self._container(container, typing.get_args(annotation))
        return self._class(origin or annotation, typing.get_args(annotation))

    def _union(self, members: Iterable[Any]) -> _Found:
        found = [self.visit(member) for member in members]
        sure = {immutable for _, immutable in found}
        return "|".join(sorted(text for text, _ in found)), sure.pop() if len(sure) == 1 else None

    def _container(self, name: str, arguments: tuple[Any, ...]) -> _Found:
        self.shape.exotic |= name not in ("list", "dict")
        if name == "tuple":
            found = [
                ("...", True) if item is Ellipsis else self.visit(item) for item in arguments or (Any, ...)
            ]
        else:
            found = [self.visit(item) for item in arguments or (Any,)]
        text = f"{name}[{','.join(text for text, _ in found)}]"
        if name not in ("tuple", "frozenset"):
            return text, False
        return text, _all_immutable(found)

    def _class(self, kind: Any, arguments: tuple[Any, ...]) -> _Found:
        if not isinstance(kind, type):
            self.shape.unknown.add(str(kind))
            return str(kind), None
        if kind in _PLAIN or kind in _EXOTIC or kind in _ZONED:
            self.shape.zoned |= kind in _ZONED
            self.shape.exotic |= kind not in _PLAIN
            return kind.__name__, True
        self.shape.classes.add(kind)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if arguments:
            name += f"[{','.join(self.visit(argument)[0] for argument in arguments)}]"
        if issubclass(kind, enum.Enum):
            members = ",".join(f"{member}={item.value!r}" for member, item in kind.__members__.items())
            return f"{name}({members})", True
        if issubclass(kind, TEXTUAL):
            self.shape.exotic = True
            return name, True
        fields = _fields(kind)
        if fields is not None:
            return self._record(kind, name, fields)
        if comes_from(kind, "pydantic") or comes_from(kind, "pydantic_core"):
            self.shape.pydantic = True
        else:
            self.shape.unknown.add(name)
        return name, None

    def _record(self, kind: type, name: str, fields: dict[str, Any]) -> _Found:
        self.shape.records = True
        if hasattr(kind, "__pydantic_core_schema__"):
            self.shape.pydantic = True
        if kind in self.open_records:
            return name, None  # a recursive type: the outer visit describes it
        self.open_records.append(kind)
        outer, self.open_aliases = self.open_aliases, {}
        found = {field_name: self.visit(hint) for field_name, hint in fields.items()}
        self.open_aliases = outer
        self.open_records.pop()
        notes = self._notes(kind)
        text = ",".join(
            f"{field_name}:{text}{notes.get(field_name, '')}" for field_name, (text, _) in found.items()
        )
        frozen = is_frozen_struct(kind) or is_plain_tuple(kind)
        return f"{name}({text})", _all_immutable(found.values()) if frozen else False

    def _notes(self, kind: type) -> dict[str, str]:
        """Other facts that decide how a field is stored: whether it may be absent, and its value then."""
        if _is_typed_dict(kind):
            return dict.fromkeys(kind.__optional_keys__, "?")  # type: ignore[attr-defined]
        config = getattr(kind, "__struct_config__", None)
        if config is not None:
            stored: tuple[str, ...] = kind.__struct_encode_fields__  # type: ignore[attr-defined]
            form = f"@{config.tag_field}={config.tag}" + "[]" * config.array_like + "?" * config.omit_defaults
            return {
                name: f" as {stored_as}{form}"
                for name, stored_as in zip(field_names(kind) or (), stored, strict=True)
            }
        if comes_from(kind, "pydantic"):
            return {name: self._default(info) for name, info in getattr(kind, "model_fields", {}).items()}
        return {}

    def _default(self, info: Any) -> str:
        if info.default_factory is not None:
            self.shape.computed_defaults |= info.default_factory not in _HARMLESS_FACTORIES
            return ""
        if info.is_required():
            return "!"
        try:
            return f"={text_of(info.default)}"
        except Unkeyable:
            # a change of the default in the code would not be noticed: store the field even if it was not set
            self.shape.computed_defaults = True
            return ""


def _forward_name(annotation: Any) -> str:
    """The name in an annotation that could not be evaluated; empty for others."""
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else ""


def _all_immutable(found: Iterable[_Found]) -> bool | None:
    sure = {immutable for _, immutable in found}
    return False if False in sure else None if None in sure else True


def _is_typed_dict(kind: type) -> bool:
    return hasattr(kind, "__required_keys__")  # those of typing and typing_extensions


def _fields(kind: type) -> dict[str, Any] | None:
    """The fields of a record class with their types; None for other classes."""
    if comes_from(kind, "pydantic") and isinstance(getattr(kind, "model_fields", None), dict):
        return {name: info.annotation for name, info in kind.model_fields.items()}  # type: ignore[attr-defined]
    if _is_typed_dict(kind):
        return _hints(kind)
    names = getattr(kind, "_fields", None) if issubclass(kind, tuple) else field_names(kind)
    if names is None:
        return None
    hints = _hints(kind)
    return {name: hints.get(name, Any) for name in names}


def _hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception as error:
        raise UnsupportedValue(
            f"the annotations of {kind.__qualname__} cannot be evaluated at run time ({error}); define it in a module "
            f"and import its names outside of `if TYPE_CHECKING:`"
        ) from error
