"""Converts a value to the annotation of its parameter, as FastAPI does before it calls an endpoint.

For `project: int` the text "7" is 7. Text becomes the declared type. One kind of collection becomes another. A
value of NumPy, and a subclass of a UUID, date or Decimal, becomes the plain value. Numbers keep their type.

Only annotations that are understood completely are checked against values. `Any`, your own classes, protocols and
the like accept every value.
"""

from __future__ import annotations

import collections.abc
import contextlib
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import pathlib
import re
import types
import typing
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from stampede_guard.values.annotations import comes_from, holds_itself, unwrap
from stampede_guard.values.arguments.numbers import equal_numbers
from stampede_guard.values.arguments.records import record_reader
from stampede_guard.values.parts.parts import plain_value

__all__ = ["Fitter", "Misfit", "fitter_of"]


class Misfit(Exception):
    """A value does not have the declared type, and cannot be converted to it."""


class Fitter:
    """`exact`: classes whose values fit without a check of their content. `fit` raises `Misfit`."""

    __slots__ = ("exact", "fit", "loosely")

    def __init__(
        self,
        fit: Callable[[Any], Any],
        exact: Iterable[type] = (),
        loosely: Callable[[Any], tuple[Any, ...]] = lambda value: (),
    ) -> None:
        self.fit = fit
        self.exact = frozenset(exact)
        self.loosely = loosely
        """Equal values of other types that a caller may have passed instead."""


_Fit = Callable[[Any], Any]
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,4300}\s*", re.ASCII).fullmatch
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII).fullmatch
_TRUE = frozenset({"true", "1", "on", "yes", "y", "t"})
_FALSE = frozenset({"false", "0", "off", "no", "n", "f"})
_FLAGS = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
_LISTS: dict[Any, Callable[[Any], Any]] = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
}
_ABSTRACT: dict[Any, Callable[[Any], Any]] = dict.fromkeys(
    (collections.abc.Iterable, collections.abc.Collection), list
)
_SETS: dict[Any, Callable[[Any], Any]] = {
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}
_GIVEN_FOR_COLLECTIONS = (list, tuple, set, frozenset, collections.abc.KeysView, collections.abc.ValuesView)


@functools.lru_cache(maxsize=4096)
def _cached(annotation: Any) -> Fitter | None:
    return _fitter(annotation)


def fitter_of(annotation: Any) -> Fitter | None:
    """None for an annotation that accepts every value, or that is not understood."""
    try:
        return _cached(annotation)
    except TypeError:  # cannot be hashed
        return _fitter(annotation)


def _fitter(annotation: Any) -> Fitter | None:
    if holds_itself(annotation):
        return None
    kind = unwrap(annotation)
    if kind is None or kind is types.NoneType:
        return Fitter(_none, {types.NoneType})
    origin = typing.get_origin(kind)
    if origin is typing.Union or origin is types.UnionType:
        return _union(typing.get_args(kind))
    if origin is typing.Literal:
        return _literal(typing.get_args(kind))
    if origin is not None:
        return _collection(origin, typing.get_args(kind))
    if isinstance(kind, typing.TypeVar):
        members = kind.__constraints__ or ((kind.__bound__,) if kind.__bound__ is not None else ())
        return _union(members) if members else None
    if not isinstance(kind, type):
        return None
    if issubclass(kind, enum.Enum):
        return Fitter(functools.partial(_enum, kind), {kind})
    if kind in _SCALARS:
        return Fitter(functools.partial(_scalar, kind, _SCALARS[kind]), {kind}, equal_numbers(kind))
    if kind in (list, tuple, set, frozenset):
        return Fitter(functools.partial(_any_items, kind), {kind})
    read = record_reader(kind, _fit_as)
    return Fitter(functools.partial(_record, read)) if read is not None else None


def _record(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except Exception:  # the error of a class's own validation
        raise Misfit from None


def _fit_as(annotation: Any, value: Any) -> Any:
    fitter = fitter_of(annotation)
    return value if fitter is None else fitter.fit(value)


def _none(value: Any) -> Any:
    if value is not None:
        raise Misfit
    return value


# --- single values ------------------------------------------------------------------------------------


def _scalar(kind: type, read: Callable[[str], Any] | None, value: Any) -> Any:
    given = type(value)
    if given is kind:
        return value
    if comes_from(given, "numpy"):
        plain = getattr(value, "item", lambda: value)()
        if type(plain) is kind:
            return plain
        value, given = plain, type(plain)
    if isinstance(value, kind):
        return _subclass(kind, value)
    if kind is float and given is int:
        return value  # PEP 484: an int is a float
    if given is str and read is not None:
        return _read(read, value)
    if kind is datetime.datetime and isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    if kind is decimal.Decimal and given is int:
        return value  # has an entry of its own; see `loosely`
    if kind is bool and given is int and value in (0, 1):
        return bool(value)
    raise Misfit


def _subclass(kind: type, value: Any) -> Any:
    """Converts a driver's UUID to a UUID. A number or text with its own class has a meaning, so it stays."""
    if kind in (int, float, str, bytes, complex) or isinstance(value, enum.Enum):
        return value
    if kind is datetime.date and isinstance(value, datetime.datetime):
        if value.time() != datetime.time() or value.tzinfo is not None:
            raise Misfit
        return datetime.date(value.year, value.month, value.day)
    return plain_value(kind, value)


def _read(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except (ValueError, ArithmeticError, TypeError):
        raise Misfit from None


def _integer(text: str) -> int:
    if not _INTEGER(text):
        raise ValueError
    return int(text)


def _float(text: str) -> float:
    if not _NUMBER(text) and text.strip().lower() not in ("inf", "-inf", "infinity", "-infinity", "nan"):
        raise ValueError
    return float(text)


def _bool(text: str) -> bool:
    try:
        return _FLAGS[text.strip().lower()]
    except KeyError:
        raise ValueError from None


def _date(text: str) -> datetime.date:
    if len(text) > 10:
        moment = datetime.datetime.fromisoformat(text)
        if moment.time() != datetime.time() or moment.tzinfo is not None:
            raise ValueError
        return moment.date()
    return datetime.date.fromisoformat(text)


def _seconds(text: str) -> datetime.timedelta:
    return datetime.timedelta(seconds=_float(text))


_SCALARS: dict[type, Callable[[str], Any] | None] = {
    str: None,
    int: _integer,
    float: _float,
    bool: _bool,
    bytes: str.encode,
    complex: complex,
    uuid.UUID: uuid.UUID,
    decimal.Decimal: decimal.Decimal,
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: _date,
    datetime.time: datetime.time.fromisoformat,
    datetime.timedelta: _seconds,
    fractions.Fraction: fractions.Fraction,
}
_SCALARS |= {
    kind: kind
    for kind in (
        pathlib.Path, pathlib.PurePath, pathlib.PosixPath, pathlib.PurePosixPath, pathlib.PureWindowsPath,
        ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
        ipaddress.IPv4Interface, ipaddress.IPv6Interface,
    )
}  # fmt: skip


def _enum(kind: type[enum.Enum], value: Any) -> Any:
    if isinstance(value, kind):
        return value
    try:
        return kind(value)
    except ValueError:
        pass
    if type(value) is str:
        for member in kind:
            if not isinstance(member.value, str) and str(member.value) == value:
                return member
        if value in kind.__members__:
            return kind[value]
    raise Misfit


def _literal(choices: tuple[Any, ...]) -> Fitter:
    def fit(value: Any) -> Any:
        for choice in choices:
            if type(choice) is type(value) and choice == value:
                return value
        for choice in choices:
            if isinstance(choice, enum.Enum) and choice.value == value:
                return choice
        raise Misfit

    return Fitter(fit)


def _union(members: tuple[Any, ...]) -> Fitter | None:
    fitters = [fitter_of(member) for member in members]
    known = [fitter for fitter in fitters if fitter is not None]
    if len(known) < len(fitters):
        return None

    def fit(value: Any) -> Any:
        for fitter in known:
            if type(value) in fitter.exact:
                return value
        read = []
        for fitter in known:
            try:
                fitted = fitter.fit(value)
            except Misfit:
                continue
            if fitted is value:
                return value
            read.append(fitted)
        if not read:
            raise Misfit
        return read[0]

    def loosely(value: Any) -> tuple[Any, ...]:
        """What each member makes of it, too: a dict may be read as either of two models."""
        found: list[Any] = []
        for fitter in known:
            found += fitter.loosely(value)
            with contextlib.suppress(Misfit):
                found.append(fitter.fit(value))
        return tuple(found)

    # Exact only if no other member would need to check the value's content.
    return Fitter(fit, frozenset().union(*(fitter.exact for fitter in known)), loosely)


# --- collections --------------------------------------------------------------------------------------


def _collection(origin: Any, arguments: tuple[Any, ...]) -> Fitter | None:
    if origin in _ANY_ITEMS:
        items = fitter_of(arguments[0]) if len(arguments) == 1 else None
        abstract = origin if origin not in (list, set, frozenset) else None
        fit = functools.partial(_items, abstract, _ANY_ITEMS[origin], items)
        return Fitter(
            fit, (), functools.partial(_of_another_kind, abstract) if abstract else lambda value: ()
        )
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return Fitter(functools.partial(_items, None, tuple, fitter_of(arguments[0])))
        return Fitter(functools.partial(_tuple, [fitter_of(argument) for argument in arguments]))
    if origin in (dict, collections.abc.Mapping, collections.abc.MutableMapping) and len(arguments) == 2:
        return Fitter(functools.partial(_mapping, origin, fitter_of(arguments[0]), fitter_of(arguments[1])))
    return None


_ANY_ITEMS: dict[Any, Callable[[Any], Any]] = _LISTS | _SETS | _ABSTRACT


def _of_another_kind(abstract: Any, value: Any) -> tuple[Any, ...]:
    """`Sequence[int]` accepts a list and a tuple, and each gives a separate call."""
    kinds = (list, tuple, set, frozenset)
    if type(value) not in kinds:
        return ()
    with contextlib.suppress(TypeError):
        return tuple(
            kind(value)
            for kind in kinds
            if kind is not type(value) and issubclass(kind, abstract) and _same_order(kind, type(value))
        )
    return ()


def _same_order(one: type, other: type) -> bool:
    return issubclass(one, list | tuple) == issubclass(other, list | tuple)


def _any_items(made: Callable[[Any], Any], value: Any) -> Any:
    return _items(None, made, None, value)


def _items(abstract: Any, made: Any, items: Fitter | None, value: Any) -> Any:
    """`abstract`: an abstract class, whose values keep their own class."""
    if (
        abstract is not None
        and isinstance(value, abstract)
        and not isinstance(value, str | bytes | bytearray)
    ):
        if type(value) not in (list, tuple, set, frozenset):
            return value
        made = type(value)
    elif not isinstance(value, made) and not isinstance(value, _GIVEN_FOR_COLLECTIONS):
        raise Misfit
    elif isinstance(value, made) and type(value) is not made:
        return value
    if items is None:
        return value if type(value) is made else made(value)
    if type(value) is made and set(map(type, value)) <= items.exact:
        return value
    fitted = [items.fit(item) for item in value]
    if type(value) is made and all(one is other for one, other in zip(fitted, value, strict=True)):
        return value
    return made(fitted)


def _tuple(fitters: list[Fitter | None], value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != len(fitters):
        raise Misfit
    if isinstance(value, tuple) and type(value) is not tuple:
        return value
    fitted = [
        item if fitter is None else fitter.fit(item) for item, fitter in zip(value, fitters, strict=True)
    ]
    if type(value) is tuple and all(one is other for one, other in zip(fitted, value, strict=True)):
        return value
    return tuple(fitted)


def _mapping(kind: Any, keys: Fitter | None, values: Fitter | None, value: Any) -> Any:
    if not isinstance(value, kind):
        raise Misfit
    if type(value) is not dict:
        return value
    fitted = {
        (key if keys is None else keys.fit(key)): (item if values is None else values.fit(item))
        for key, item in value.items()
    }
    if len(fitted) != len(value):
        raise Misfit
    same = all(one is other and value[other] is fitted[one] for one, other in zip(fitted, value, strict=True))
    return value if same else fitted
