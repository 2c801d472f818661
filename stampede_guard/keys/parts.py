"""The text of one key part: equal for equal values, different for different ones, safe in a Redis hash tag.

Every text is tagged with its type, so `1`, `"1"`, `True` and `1.0` never meet. Text from outside is
percent-encoded (RFC 3986, section 2.1), so no value can write the marks that separate parts.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import ipaddress
import pathlib
import re
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from stampede_guard.annotations import comes_from, field_names

__all__ = ["Unkeyable", "class_name", "digest", "escape", "is_plain", "shorten", "text_of"]

LONGEST_PART = 48
_WIDEST_INT = 10**24
_PLAIN = "-_.~@:/+="

# Whether a string can stand in a key as it is. Long ones cannot: they would be shortened anyway.
is_plain = re.compile(r"[A-Za-z0-9\-_.~@:/+=]{0,40}", re.ASCII).fullmatch


class Unkeyable(Exception):
    """A value, perhaps deep inside a part, has no stable text. `kind` is its type."""

    def __init__(self, kind: type, reason: str = "") -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason


def escape(text: str) -> str:
    """Percent-encode everything but letters, digits and a few marks. Injective, also for lone surrogates."""
    return quote(text, safe=_PLAIN, errors="surrogatepass")


def digest(text: str, *, size: int = 16) -> str:
    """Hexadecimal BLAKE2b (RFC 7693) of a text, `size` bytes of it."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def shorten(text: str) -> str:
    """The text itself while it is short enough to be read, else its digest behind a mark."""
    return text if len(text) <= LONGEST_PART else f"~{digest(text)}"


def class_name(kind: type) -> str:
    """Where a class is defined, escaped."""
    return escape(f"{kind.__module__}.{kind.__qualname__}")


def text_of(value: Any) -> str:
    """The whole canonical text of a value, of any length. Raises `Unkeyable`."""
    kind = type(value)
    encode = _EXACT.get(kind)
    if encode is None:
        encode = _encoder_for(kind)  # type: ignore[arg-type]  # mypy takes a type for unhashable
    return encode(value)


def _tagged(tag: str, texts: Iterable[str]) -> str:
    return f"{tag}({','.join(texts)})"


def _items(value: Iterable[Any]) -> str:
    return ",".join([text_of(item) for item in value])


def _int(value: int) -> str:
    # int to decimal text is quadratic and refused beyond 4300 digits
    return str(value) if -_WIDEST_INT < value < _WIDEST_INT else hex(value)


def _str(value: str) -> str:
    return f"'{value}'" if is_plain(value) else f"'{escape(value)}'"


def _pairs(value: dict[Any, Any]) -> list[str]:
    return [f"{text_of(key)}:{text_of(item)}" for key, item in value.items()]


def _zone(zone: datetime.tzinfo | None, moment: datetime.datetime | None) -> str:
    if zone is None or isinstance(zone, datetime.timezone):
        return ""  # the offset is in the ISO text
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key is not None:
        return "," + escape(zone.key)
    return f",{class_name(type(zone))},{escape(str(zone.tzname(moment)))}"


def _datetime(value: datetime.datetime) -> str:
    return f"datetime({value.isoformat()}{',fold' if value.fold else ''}{_zone(value.tzinfo, value)})"


def _time(value: datetime.time) -> str:
    return f"time({value.isoformat()}{',fold' if value.fold else ''}{_zone(value.tzinfo, None)})"


def _timedelta(value: datetime.timedelta) -> str:
    return f"timedelta({value.days},{value.seconds},{value.microseconds})"


_EXACT: dict[type, Callable[[Any], str]] = {
    types.NoneType: lambda value: "None",
    bool: lambda value: "True" if value else "False",
    int: _int,
    float: repr,
    str: _str,
    bytes: lambda value: f"bytes({value.hex()})",
    bytearray: lambda value: f"bytearray({value.hex()})",
    complex: lambda value: f"complex({value.real!r},{value.imag!r})",
    list: lambda value: f"list({_items(value)})",
    tuple: lambda value: f"tuple({_items(value)})",
    dict: lambda value: _tagged("dict", sorted(_pairs(value))),
    set: lambda value: _tagged("set", sorted(map(text_of, value))),
    frozenset: lambda value: _tagged("frozenset", sorted(map(text_of, value))),
    range: lambda value: f"range({value.start},{value.stop},{value.step})",
    types.EllipsisType: lambda value: "Ellipsis",
    datetime.datetime: _datetime,
    datetime.date: lambda value: f"date({value.isoformat()})",
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    datetime.timezone: lambda value: f"timezone({_timedelta(value.utcoffset(None))},{escape(str(value))})",
    zoneinfo.ZoneInfo: lambda value: f"zone({escape(str(value))})",
    decimal.Decimal: lambda value: f"Decimal({value})",
    fractions.Fraction: lambda value: f"Fraction({_int(value.numerator)},{_int(value.denominator)})",
    uuid.UUID: lambda value: f"UUID({value.hex})",
}

_WITHOUT_OVERRIDES: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}
_BUILTIN_BASES = (str, int, float, bytes, dict, list, tuple, set, frozenset)
_ADDRESSES = (
    ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
    ipaddress.IPv4Interface, ipaddress.IPv6Interface,
)  # fmt: skip


@functools.lru_cache(maxsize=2048)
def _encoder_for(kind: type) -> Callable[[Any], str]:
    """How to write values of a class that is not in the table. Raises `Unkeyable`."""
    tag = class_name(kind)
    if issubclass(kind, enum.Enum):
        return functools.partial(_enum, tag)
    if issubclass(kind, type) or kind.__module__ == "fastapi.params":
        raise Unkeyable(kind)
    if hasattr(kind, "__cache_key__"):
        return lambda value: f"{tag}({text_of(value.__cache_key__())})"
    names = field_names(kind)
    if names is not None:
        return functools.partial(_record, tag, names)
    if issubclass(kind, (pathlib.PurePath, *_ADDRESSES)):
        return lambda value: f"{tag}({escape(str(value))})"
    if comes_from(kind, "pydantic"):
        return _pydantic_value(kind, tag)
    for base in _BUILTIN_BASES:
        if issubclass(kind, base):
            return functools.partial(_subclass, tag, kind, base)
    raise Unkeyable(kind)


def _enum(tag: str, value: enum.Enum) -> str:
    # a combination of flags may have no name
    return f"{tag}({escape(value.name) if value.name else f'value,{text_of(value.value)}'})"


def _record(tag: str, names: tuple[str, ...], value: Any) -> str:
    texts = [f"{escape(name)}={text_of(getattr(value, name))}" for name in names if hasattr(value, name)]
    for state in ("__pydantic_extra__", "__pydantic_private__"):
        extra = getattr(value, state, None)
        if extra:
            texts.append(f"{state}={text_of(extra)}")
    return _tagged(tag, texts)


def _pydantic_value(kind: type, tag: str) -> Callable[[Any], str]:
    if hasattr(kind, "get_secret_value"):
        return lambda value: f"{tag}(~{digest(text_of(value.get_secret_value()))})"
    if any(base.__name__ in ("_BaseUrl", "_BaseMultiHostUrl") for base in kind.__mro__):
        return lambda value: f"{tag}({escape(str(value))})"
    raise Unkeyable(kind)


def _subclass(tag: str, kind: type, base: type, value: Any) -> str:
    if getattr(value, "__dict__", None):
        raise Unkeyable(kind, "it carries attributes of its own")
    if (
        getattr(value, "default_factory", None) is not None
    ):  # a defaultdict's function is not part of what it holds
        return f"{tag}({_EXACT[base](value)})"
    if kind.__name__ == "OrderedDict":
        return _tagged(tag, _pairs(value))
    exact = _WITHOUT_OVERRIDES.get(base)
    return f"{tag}({_EXACT[base](exact(value) if exact else value)})"
