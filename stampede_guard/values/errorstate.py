"""The arguments and attributes of an exception as JSON, for processes that have the same class.

JSON has no tuples, dates or decimals. So each value is written with its type: a list as it is, all others as an object
with one member, `{"t": [...]}` for a tuple. An exception with a value that has no form here does not travel at all.

Texts lose their secrets, as messages do. All values under the name of a secret become `***`. Other values travel
as they are: other processes need the `key` of a `KeyError` to handle it.
"""

from __future__ import annotations

import datetime
import enum
import math
import re
import types
from collections.abc import Callable
from decimal import Decimal
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

import msgspec

from stampede_guard.values import errorclasses
from stampede_guard.values.classnames import members_of, name_of, named
from stampede_guard.values.masking import LONGEST, MASK, is_secret_name, mask, mask_all

__all__ = ["Packed", "pack", "unpack"]

_DEEPEST = 12
_MOST = 1_000
"""The most values in one exception."""
_LARGEST_INT = 2**63
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ARGS: Any = vars(BaseException)["args"]
_DICTIONARY: Any = vars(BaseException)["__dict__"]
_GROUP: Any = BaseExceptionGroup
_OF_ALL = frozenset(vars(BaseException))
_LOOKS_UP = frozenset({"__getattribute__", "__getattr__", "__qualname__"})
"""What of a metaclass would run when the name of a class is read."""


class Packed(msgspec.Struct, frozen=True, omit_defaults=True):
    """`fields` are those of a built-in class in C. `message` and `members` are those of a group."""

    module: str
    name: str
    args: list[Any] = []
    attributes: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    notes: list[str] = []
    message: str = ""
    members: list[Packed] = []


class _Unportable(Exception):
    """Something in the exception has no form as JSON."""


def pack(error: Exception) -> Packed | None:
    """The state of an exception, or None if it cannot travel."""
    try:
        return _Packing(error).error(error, 0)
    except Exception:
        return None


def unpack(given: Any) -> Exception | None:
    """The exception. None if its class is not here, or if the state is damaged or does not fit the class."""
    try:
        return _Unpacking().error(msgspec.convert(given, Packed), 0)
    except Exception:
        return None


class _Budget:
    def __init__(self) -> None:
        self._left = _MOST

    def spend(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise _Unportable


class _Packing(_Budget):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._shown = str(error)

    def error(self, error: Exception, depth: int) -> Packed:
        self.spend(depth)
        kind = type(error)
        name = name_of(kind) if errorclasses.is_makeable(kind) else None
        if name is None:
            raise _Unportable
        attributes = self._attributes(error)
        notes = attributes.pop("__notes__", [])
        if "headers" in attributes and mask_all(attributes["headers"]) != attributes["headers"]:
            # A redirect without its query would send other callers to another page.
            raise _Unportable
        if type(notes) is not list or any(map(_is_reserved, attributes)):
            raise _Unportable
        is_group = isinstance(error, _GROUP)
        members = _GROUP.exceptions.__get__(error) if is_group else ()
        return Packed(
            *name,
            args=[] if is_group else self._arguments(error, depth),
            attributes={
                key: self.value(item, depth + 1, _is_secret(kind, key)) for key, item in attributes.items()
            },
            fields={
                key: self.value(descriptor.__get__(error), depth + 1, False)
                for key, (descriptor, _) in errorclasses.fields_of(kind).items()
            },
            notes=[self.value(note, depth + 1, False) for note in notes if self._is_text(note)],
            message=mask(_GROUP.message.__get__(error)) if is_group else "",
            members=[self.error(member, depth + 1) for member in members],
        )

    @staticmethod
    def _is_text(value: Any) -> bool:
        if type(value) is not str:
            raise _Unportable
        return True

    def _attributes(self, error: Exception) -> dict[str, Any]:
        found = dict(_DICTIONARY.__get__(error))
        for name, slot in errorclasses.slots_of(type(error)).items():
            try:
                value = slot.__get__(error)
            except AttributeError:  # never set
                continue
            if name in found:
                raise _Unportable
            found[name] = value
        if not all(type(name) is str for name in found):
            raise _Unportable
        return found

    def _arguments(self, error: Exception, depth: int) -> list[Any]:
        """An argument is hidden if its parameter is called a secret, unless the exception's own text shows it."""
        given = _ARGS.__get__(error)
        names = _parameters(type(error))
        secret = [
            number < len(names) and _is_secret(type(error), names[number]) and f"{item}" not in self._shown
            for number, item in enumerate(given)
        ]
        return [self.value(item, depth + 1, hidden) for item, hidden in zip(given, secret, strict=True)]

    def value(self, value: Any, depth: int, secret: bool) -> Any:
        self.spend(depth)
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is list or kind is tuple:
            named = _is_named_secret(value)
            items = [
                self.value(item, depth + 1, secret or (named and at > 0)) for at, item in enumerate(value)
            ]
            return items if kind is list else {"t": items}
        if kind is dict:
            return {"d": self._dict(value, depth, secret)}
        if kind is str:
            return MASK if secret else self._text(value)
        if (kind is int and -_LARGEST_INT <= value < _LARGEST_INT) or (
            kind is float and math.isfinite(value)
        ):
            return MASK if secret else value
        written = _WRITERS.get(kind) or (("e", _member_name) if _is_enum(kind) else None)
        if written is None:
            raise _Unportable
        letter, write = written
        return MASK if secret else {letter: write(value)}

    def _dict(self, value: dict[Any, Any], depth: int, secret: bool) -> dict[str, Any]:
        made = {
            mask(name): self.value(item, depth + 1, secret or is_secret_name(name))
            for name, item in value.items()
            if self._is_text(name)
        }
        if len(made) != len(value):
            raise _Unportable
        return made

    @staticmethod
    def _text(value: str) -> str:
        if len(value) > LONGEST:
            raise _Unportable
        return mask(value)


class _Unpacking(_Budget):
    def error(self, packed: Packed, depth: int) -> Exception:
        self.spend(depth)
        kind = errorclasses.class_named(packed.module, packed.name)
        if kind is None:
            raise _Unportable
        members = [self.error(member, depth + 1) for member in packed.members]
        args = tuple(self.value(item, depth + 1) for item in packed.args)
        attributes = {name: self.value(item, depth + 1) for name, item in packed.attributes.items()}
        fields = {name: self.value(item, depth + 1) for name, item in packed.fields.items()}
        made = errorclasses.empty(kind, packed.message, members)
        if not isinstance(made, _GROUP):
            _ARGS.__set__(made, args)
        self._fill(made, attributes, fields)
        if packed.notes:
            _DICTIONARY.__get__(made)["__notes__"] = list(packed.notes)
        return made

    @staticmethod
    def _fill(made: Exception, attributes: dict[str, Any], fields: dict[str, Any]) -> None:
        known = errorclasses.fields_of(type(made))
        for name, value in fields.items():
            descriptor, allowed = known[name]
            if value is None:
                continue
            if type(value) not in allowed:
                raise _Unportable
            descriptor.__set__(made, value)
        slots, held = errorclasses.slots_of(type(made)), _DICTIONARY.__get__(made)
        for name, value in attributes.items():
            if _is_reserved(name):
                raise _Unportable
            if name in slots:
                slots[name].__set__(made, value)
            else:
                held[name] = value

    def value(self, given: Any, depth: int) -> Any:
        self.spend(depth)
        if isinstance(given, list):
            return [self.value(item, depth + 1) for item in given]
        if not isinstance(given, dict):
            return given
        [(letter, inner)] = given.items()
        if letter == "t":
            return tuple(self.value(item, depth + 1) for item in inner)
        if letter == "d":
            return {name: self.value(item, depth + 1) for name, item in inner.items()}
        return _READERS[letter](inner)


def _is_secret(kind: type, name: str) -> bool:
    """Whether its name, or the name of its class, suggests a secret: the `key` of an `InvalidApiKey`."""
    return is_secret_name(name) or (
        name in ("key", "value") and is_secret_name(_WORD.sub("_", kind.__name__))
    )


def _is_named_secret(pair: list[Any] | tuple[Any, ...]) -> bool:
    """Whether it is a field with its name, as in a list of headers: `("Cookie", "session=1")`."""
    return len(pair) == 2 and type(pair[0]) is str and is_secret_name(pair[0])


def _is_reserved(name: str) -> bool:
    """Whether the interpreter gives an attribute of this name a meaning."""
    return name in _OF_ALL or (name.startswith("__") and name.endswith("__"))


def _parameters(kind: type) -> tuple[str, ...]:
    """The names of the positional parameters of a class, without `self`."""
    init = next(vars(base)["__init__"] for base in kind.__mro__ if "__init__" in vars(base))
    if not isinstance(init, types.FunctionType):
        return ()
    return init.__code__.co_varnames[1 : init.__code__.co_argcount]


def _written(moment: datetime.datetime) -> str:
    if moment.tzinfo not in (None, datetime.UTC) or moment.fold:
        raise _Unportable
    return moment.isoformat()


def _is_enum(kind: Any) -> bool:
    """Whether it is an enum whose members can be looked up without running code of a metaclass."""
    meta: Any = type(kind)
    if not issubclass(meta, enum.EnumType):
        return False
    own = [vars(base) for base in meta.__mro__[: meta.__mro__.index(enum.EnumType)]]
    return not any(_LOOKS_UP & names.keys() or type(names.get("__module__")) is not str for names in own)


def _member_name(member: Any) -> list[str]:
    """The class and the name of an enum's member. A combination of flags has no name of its own."""
    kind = type(member)
    name, known = name_of(kind), members_of(kind)["_member_map_"]
    if name is None or known.get(member._name_) is not member:
        raise _Unportable
    return [*name, member._name_]


def _member(given: list[str]) -> Any:
    """The member that is already here. The class is not called, so no `_missing_` runs."""
    module, qualname, name = given
    kind = named(module, qualname, _is_enum)
    if kind is None:
        raise _Unportable
    return members_of(kind)["_member_map_"][name]


_WRITERS: Final[dict[type, tuple[str, Callable[[Any], Any]]]] = {
    UUID: ("u", str),
    Decimal: ("n", str),
    datetime.datetime: ("s", _written),
    datetime.date: ("y", datetime.date.isoformat),
    HTTPStatus: ("h", int),
}
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "u": UUID,
    "n": Decimal,
    "s": datetime.datetime.fromisoformat,
    "y": datetime.date.fromisoformat,
    "h": HTTPStatus,
    "e": _member,
}
