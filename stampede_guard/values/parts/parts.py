"""The text of one key part: equal for equal values, different for different ones, safe in a Redis hash tag.

Every text is tagged with its type, so `1`, `"1"`, `True` and `1.0` never meet. Text from outside is
percent-encoded (RFC 3986, section 2.1), so no value can write the marks that separate parts.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import gc
import re
import types
import uuid
import zoneinfo
from array import array
from collections.abc import Callable, Iterable
from typing import Any

from stampede_guard.values.annotations import comes_from, root_package
from stampede_guard.values.parts import classes, state
from stampede_guard.values.parts.classes import (
    Unkeyable,
    alias_name,
    class_name,
    digest,
    escape,
    needs_definition,
)
from stampede_guard.values.parts.generics import classes_in
from stampede_guard.values.parts.rows import is_row, of_django
from stampede_guard.values.parts.state import attributes, is_record, plain_object_problem, refuse_hidden_state
from stampede_guard.values.parts.written import WRITTEN, of_a_library, of_enum, of_numpy, written

__all__ = [
    "Unkeyable",
    "class_name",
    "digest",
    "escape",
    "is_copied_whole",
    "is_plain_object",
    "is_scalar",
    "plain_value",
    "shorten",
    "text_of",
]

LONGEST_PART = 48
_WIDEST_INT = 10**24

_is_readable = re.compile(r"[A-Za-z0-9\-_.~@:/+]{0,40}={0,2}", re.ASCII).fullmatch


def shorten(text: str) -> str:
    """The text itself if it is short enough to be readable, else a mark and its digest."""
    return text if len(text) <= LONGEST_PART else f"~{digest(text)}"


def text_of(value: Any) -> str:
    """The whole canonical text of a value, of any length. Raises `Unkeyable`."""
    kind = type(value)
    encode = _EXACT.get(kind)
    if encode is None:
        encode = _encoder_for(kind)  # type: ignore[arg-type]  # mypy takes a type for unhashable
    return encode(value)


classes.write_values_with(text_of)


def _tagged(tag: str, texts: Iterable[str]) -> str:
    return f"{tag}({','.join(texts)})"


def _items(value: Iterable[Any]) -> str:
    return ",".join([text_of(item) for item in value])


def _int(value: int) -> str:
    # converting an int to decimal text is quadratic, and refused beyond 4300 digits
    return str(value) if -_WIDEST_INT < value < _WIDEST_INT else hex(value)


def _str(value: str) -> str:
    return f"'{value}'" if _is_readable(value) else f"'{escape(value)}'"


def _pairs(value: Any, items: Callable[[Any], Iterable[tuple[Any, Any]]] = dict.items) -> list[str]:
    """Of a dict, without the methods of its own class, which may show something else."""
    return [f"{text_of(key)}:{text_of(item)}" for key, item in items(value)]


def _proxy(value: types.MappingProxyType[Any, Any]) -> str:
    [behind] = gc.get_referents(value)
    pairs = _pairs(behind) if isinstance(behind, dict) else _pairs(value, types.MappingProxyType.items)
    return _tagged("mappingproxy", sorted(pairs))


def _ordered(value: Any) -> list[str]:
    return _pairs(value, collections.OrderedDict.items)


def _zone(zone: datetime.tzinfo | None, moment: datetime.datetime | None) -> str:
    if zone is None:
        return ""
    if type(zone) is datetime.timezone:
        # The offset is in the ISO text, but a name that was given to it is not.
        name = str(zone)
        return "" if name == str(datetime.timezone(zone.utcoffset(None))) else f",name,{escape(name)}"
    if isinstance(zone, zoneinfo.ZoneInfo):
        if zone.key is None:
            raise Unkeyable(type(zone), "it was read from a file, and nothing names its rules")
        return "," + escape(zone.key)
    text = f",{class_name(type(zone))},{escape(str(zone.tzname(moment)))}"
    try:
        return text + "," + _state_text(zone)
    except Unkeyable:
        return text


def _datetime(value: datetime.datetime) -> str:
    return f"datetime({value.isoformat()}{',fold' if value.fold else ''}{_zone(value.tzinfo, value)})"


def _time(value: datetime.time) -> str:
    return f"time({value.isoformat()}{',fold' if value.fold else ''}{_zone(value.tzinfo, None)})"


def _timedelta(value: datetime.timedelta) -> str:
    return f"timedelta({value.days},{value.seconds},{value.microseconds})"


def _zone_itself(value: zoneinfo.ZoneInfo) -> str:
    return f"zone({_zone(value, None)[1:]})"


_LONGEST: Any = vars(collections.deque)["maxlen"]
_FACTORY: Any = vars(collections.defaultdict)["default_factory"]


def _deque(value: collections.deque[Any]) -> str:
    items = _items(collections.deque.__iter__(value))
    return f"deque({_LONGEST.__get__(value)},{items})"


def _defaultdict(value: collections.defaultdict[Any, Any]) -> str:
    """Includes its factory for missing keys: a class. A function has no text."""
    made = _FACTORY.__get__(value)
    if made is not None and not isinstance(made, type):
        raise Unkeyable(type(made), "the function that a defaultdict calls has no text")
    by = "None" if made is None else class_name(made)
    return _tagged("defaultdict", [by, *sorted(_pairs(value))])


_EXACT: dict[type, Callable[[Any], str]] = {
    types.NoneType: lambda value: "None",
    bool: lambda value: "True" if value else "False",
    int: _int,
    float: float.__repr__,
    str: _str,
    bytes: lambda value: f"bytes({bytes.hex(value)})",
    bytearray: lambda value: f"bytearray({bytearray.hex(value)})",
    complex: lambda value: f"complex({value.real!r},{value.imag!r})",
    list: lambda value: f"list({_items(value)})",
    tuple: lambda value: f"tuple({_items(value)})",
    dict: lambda value: _tagged("dict", sorted(_pairs(value))),
    set: lambda value: _tagged("set", sorted(map(text_of, value))),
    frozenset: lambda value: _tagged("frozenset", sorted(map(text_of, value))),
    types.MappingProxyType: _proxy,
    types.SimpleNamespace: lambda value: _tagged("SimpleNamespace", sorted(_pairs(vars(value)))),
    collections.deque: _deque,
    collections.OrderedDict: lambda value: _tagged("collections.OrderedDict", _ordered(value)),
    collections.defaultdict: _defaultdict,
    range: lambda value: f"range({value.start},{value.stop},{value.step})",
    slice: lambda value: f"slice({_items((value.start, value.stop, value.step))})",
    array: lambda value: f"array({value.typecode},{value.tobytes().hex()})",
    re.Pattern: lambda value: f"Pattern({text_of(value.pattern)},{value.flags})",
    types.EllipsisType: lambda value: "Ellipsis",
    datetime.datetime: _datetime,
    datetime.date: lambda value: f"date({value.isoformat()})",
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    datetime.timezone: lambda value: f"timezone({_timedelta(value.utcoffset(None))},{escape(str(value))})",
    zoneinfo.ZoneInfo: _zone_itself,
    decimal.Decimal: lambda value: f"Decimal({decimal.Decimal.__str__(value)})",
    fractions.Fraction: lambda value: f"Fraction({_int(value.numerator)},{_int(value.denominator)})",
    uuid.UUID: lambda value: f"UUID({value.hex})",
}


def _read(base: type, names: str) -> Callable[[Any], list[Any]]:
    """Reads attributes as the base class has them. A subclass may have properties of these names."""
    members: list[Any] = [getattr(base, name) for name in names.split()]
    return lambda value: [member.__get__(value) for member in members]


_DAY = _read(datetime.date, "year month day")
_CLOCK, _CLOCK_ALONE = (
    _read(base, "hour minute second microsecond tzinfo") for base in (datetime.datetime, datetime.time)
)
_FOLD, _FOLD_ALONE = (_read(base, "fold") for base in (datetime.datetime, datetime.time))
_DURATION = _read(datetime.timedelta, "days seconds microseconds")

# For a subclass's value: the value of the base class. What the subclass defines in `__str__` is ignored.
_BASE_VALUES: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    complex: complex.__complex__,
    datetime.datetime: lambda value: datetime.datetime(*_DAY(value), *_CLOCK(value)).replace(fold=_FOLD(value)[0]),
    datetime.date: lambda value: datetime.date(*_DAY(value)),
    datetime.time: lambda value: datetime.time(*_CLOCK_ALONE(value)).replace(fold=_FOLD_ALONE(value)[0]),
    datetime.timedelta: lambda value: datetime.timedelta(*_DURATION(value)),
    decimal.Decimal: lambda value: decimal.Decimal(decimal.Decimal.__str__(value)),
    fractions.Fraction: lambda value: fractions.Fraction(value.numerator, value.denominator),
    uuid.UUID: lambda value: uuid.UUID(int=int(value.int)),
}  # fmt: skip
_CONTENTS: dict[type, Callable[[Any], Iterable[str]]] = {
    dict: lambda value: sorted(_pairs(value)),
    list: lambda value: [text_of(item) for item in list.__iter__(value)],
    tuple: lambda value: [text_of(item) for item in tuple.__iter__(value)],
    set: lambda value: sorted(map(text_of, set.__iter__(value))),
    frozenset: lambda value: sorted(map(text_of, frozenset.__iter__(value))),
    bytearray: lambda value: [bytearray.hex(value)],
}
_ORDERED_CONTENTS: dict[type, Callable[[Any], Iterable[str]]] = {
    collections.OrderedDict: _ordered,
    collections.defaultdict: lambda value: [_defaultdict(value)],
    collections.deque: lambda value: [_deque(value)],
}
# Libraries whose subclasses count as the base itself: a driver's UUID, a frozen clock's dates.
_STAND_INS = frozenset({"asyncpg", "freezegun", "time_machine"})


@functools.lru_cache(maxsize=2048)
def _encoder_for(kind: type) -> Callable[[Any], str]:
    """How to write values of a class outside the table. Raises `Unkeyable`."""
    encode = _encoder(kind)
    if not any(map(needs_definition, classes_in(kind))):
        return encode

    def noted(value: Any) -> str:
        classes.note_locals(kind)
        return encode(value)

    return noted


def _encoder(kind: type) -> Callable[[Any], str]:
    tag = class_name(kind)
    if issubclass(kind, enum.Enum):
        return of_enum(tag, text_of)
    if issubclass(kind, type) or kind.__module__ == "fastapi.params":
        raise Unkeyable(kind)
    if hasattr(kind, "__cache_key__"):
        return lambda value: f"{tag}({text_of(value.__cache_key__())})"
    if (
        root_package(kind) in ("starlette", "pydantic")
        and (special := of_a_library(kind, tag, text_of)) is not None
    ):
        return special
    if (django := of_django(kind, tag, text_of)) is not None:
        return django
    if issubclass(kind, WRITTEN):
        return written(tag, kind)
    if comes_from(kind, "numpy"):
        return of_numpy(kind, tag, text_of)
    for base, content in (*_ORDERED_CONTENTS.items(), *_CONTENTS.items()):
        if issubclass(kind, base):
            refuse_hidden_state(kind, base)
            return functools.partial(_container, tag, kind, base, content)
    for base in _BASE_VALUES:
        if issubclass(kind, base):
            return functools.partial(_scalar, tag, kind, base)
    if not is_record(kind):
        if comes_from(kind, "pydantic") and (special := of_a_library(kind, tag, text_of)) is not None:
            return special
        problem = plain_object_problem(kind)  # type: ignore[arg-type]
        if problem is not None:
            raise Unkeyable(kind, problem)
        return functools.partial(_plain_object, tag, kind)
    refuse_hidden_state(kind)
    return lambda value: _tagged(tag, _state_texts(value))


def is_plain_object(kind: type) -> bool:
    """Whether the attributes of such an object describe it completely. Raises `Unkeyable`."""
    described = kind in _EXACT or is_record(kind) or is_row(kind)
    if described or hasattr(kind, "__cache_key__") or issubclass(kind, enum.Enum):
        return False
    _encoder_for(kind)  # type: ignore[arg-type]
    known = (*_ORDERED_CONTENTS, *_CONTENTS, *_BASE_VALUES, *WRITTEN)
    return not issubclass(kind, known) and not comes_from(kind, "numpy")


def is_scalar(kind: type) -> bool:
    """Whether its values are numbers, texts, dates and the like, which are immutable."""
    if any(base.__name__ == "generic" and base.__module__ == "numpy" for base in kind.__mro__):
        return True
    return issubclass(kind, (*_BASE_VALUES, *WRITTEN)) and not is_record(kind)


def is_copied_whole(kind: type) -> bool:
    """Whether a copy of such an object's content and attributes equals it. False if it cannot be in a key."""
    if hasattr(kind, "__cache_key__"):
        return False
    try:
        _encoder_for(kind)
    except Unkeyable:
        return False
    return True


def forget_classes() -> None:
    """Lets unused classes be collected."""
    _encoder_for.cache_clear()
    state._layout.cache_clear()
    plain_object_problem.cache_clear()


def _state_texts(value: Any, content: type = object) -> list[str]:
    return _attribute_texts(attributes(value, content))


def _attribute_texts(found: dict[str, Any]) -> list[str]:
    return [f"{escape(name)}={_attribute_text(name, item)}" for name, item in found.items()]


def _attribute_text(name: str, item: Any) -> str:
    """A generic class of Python itself remembers how it was called: `Page[int](...)`."""
    alias = alias_name(item) if name == "__orig_class__" else None
    return text_of(item) if alias is None else alias


def _state_text(value: Any) -> str:
    refuse_hidden_state(type(value), datetime.tzinfo)
    return ",".join(_state_texts(value, datetime.tzinfo))


def _plain_object(tag: str, kind: type, value: Any) -> str:
    texts = _state_texts(value)
    if not texts:
        raise Unkeyable(kind, "it has no attributes that would tell two of them apart")
    return _tagged(tag, texts)


def _own_texts(kind: type, base: type, value: Any) -> list[str]:
    """The attributes of a value beside its content. Only a class that declares fields may have any."""
    own = attributes(value, base)
    if own and not is_record(kind):
        raise Unkeyable(kind, "it carries attributes of its own")
    return _attribute_texts(own)


def _container(tag: str, kind: type, base: type, content: Callable[[Any], Iterable[str]], value: Any) -> str:
    texts = list(content(value))
    names = getattr(kind, "_fields", None)
    if base is tuple and isinstance(names, tuple) and len(names) == len(texts):
        texts = [f"{escape(str(name))}={text}" for name, text in zip(names, texts, strict=True)]
    own = _own_texts(kind, base, value)
    return _tagged(tag, [*texts, ";", *own] if own else texts)


def _scalar(tag: str, kind: type, base: type, value: Any) -> str:
    """The base's text for a subclass of a plain value, if it has no other content."""
    plain = _plain(base, value)
    if plain is None:
        raise Unkeyable(kind, f"it holds more than a {base.__name__} can")
    own = _own_texts(kind, base, value)
    text = _EXACT[base](plain)
    plainly = root_package(kind) in _STAND_INS and not own
    return text if plainly else _tagged(tag, [text, ";", *own] if own else [text])


def plain_value(base: type, value: Any) -> Any:
    """The equal value of the base class for a subclass's value. The value itself if it has more content."""
    plain = None if type(value) is base or base not in _BASE_VALUES else _plain(base, value)
    return value if plain is None or attributes(value, base) else plain


def _plain(base: type, value: Any) -> Any:
    """The equal value of the base class. None if there is none."""
    plain = None
    try:
        plain = _BASE_VALUES[base](value)
        refuse_hidden_state(type(value), base)
    except (TypeError, ValueError):  # pandas' NaT is a datetime without a year
        return None
    except Unkeyable:
        # Written in C, as asyncpg's UUID and pandas' Timestamp. Its hidden content must not change its value.
        return plain if root_package(type(value)) in _STAND_INS or bool(plain == value) else None
    return plain
