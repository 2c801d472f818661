"""How a key writes values that have a text of their own: members of enums, paths, addresses, URLs, NumPy's scalars.

A class may change the text that people see: a path without the home directory, an address without its last numbers. So
the text is that of the class of Python or the library, and the user's class is asked for nothing.
"""

from __future__ import annotations

import enum
import functools
import ipaddress
import pathlib
from collections.abc import Callable
from typing import Any

from stampede_guard.values.annotations import root_package
from stampede_guard.values.parts.classes import Unkeyable, digest, escape
from stampede_guard.values.parts.state import attributes, refuse_hidden_state

__all__ = ["WRITTEN", "of_a_library", "of_enum", "of_numpy", "written"]

TextOf = Callable[[Any], str]

WRITTEN: tuple[type, ...] = (
    pathlib.PurePath,
    ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
    ipaddress.IPv4Interface, ipaddress.IPv6Interface,
)  # fmt: skip
_MEMBER_STATE = frozenset({"_value_", "_sort_order_", "__objclass__"})


def of_enum(tag: str, text_of: TextOf) -> Callable[[Any], str]:
    """The text for members: by name, if the name finds them in their class."""

    def text(value: Any) -> str:
        if value._name_ and _is_found(value, value._name_):
            return f"{tag}({escape(value._name_)})"
        # A combination of flags without a name, or what `_missing_` made for an unknown value.
        own = {} if isinstance(value, enum.Flag) else attributes(value)
        others = [
            f",{escape(name)}={text_of(item)}"
            for name, item in own.items()
            if name not in _MEMBER_STATE and (name, item) != ("_name_", None)
        ]
        return f"{tag}(value,{text_of(value._value_)}{''.join(others)})"

    return text


def _is_found(value: Any, name: str) -> bool:
    members = type(value)._member_map_
    if members.get(name) is value:
        return True
    if not isinstance(value, enum.Flag) or not isinstance(value._value_, int):
        return False
    # Python names a combination after its flags: "READ|WRITE|8".
    combined = 0
    for part in name.split("|"):
        if part in members:
            combined |= members[part]._value_
        elif part.isascii() and part.isdigit():
            combined |= int(part)
        else:
            return False
    return combined == value._value_


def written(tag: str, kind: type) -> Callable[[Any], str]:
    """The text for paths and addresses. Raises `Unkeyable`."""
    base: Any = _class_of(kind, "pathlib", "ipaddress")
    if base is kind:
        return lambda value: f"{tag}({escape(str(value))})"
    refuse_hidden_state(kind, base)

    def text(value: Any) -> str:
        if attributes(value, base):
            raise Unkeyable(kind, "it carries attributes of its own")
        return f"{tag}({escape(base.__str__(value))})"

    return text


def _class_of(kind: type, *packages: str) -> type:
    return next(base for base in kind.__mro__ if root_package(base) in packages)


def of_numpy(kind: type, tag: str, text_of: TextOf) -> Callable[[Any], str]:
    return functools.partial(_numpy_scalar, kind, tag, text_of)


def _numpy_scalar(kind: type, tag: str, text_of: TextOf, value: Any) -> str:
    code = getattr(getattr(value, "dtype", None), "kind", "")
    if not hasattr(value, "item") or getattr(value, "shape", None) != ():
        raise Unkeyable(kind, "it is an array, which may be large: pass what it was made of, or a tuple")
    if type(value).__name__ == "ndarray" or kind.__module__ != "numpy" or not code:
        raise Unkeyable(kind)
    if code in "mM":
        return f"{tag}({escape(value.dtype.str)},{escape(str(value))})"
    # NumPy's own conversion leaves out zeros at the end of texts and bytes.
    if isinstance(value, str):
        plain: Any = str.__str__(value)
    else:
        plain = bytes.__getitem__(value, slice(None)) if isinstance(value, bytes) else value.item()
    if code not in "biufcSU" or type(plain) not in (bool, int, float, complex, str, bytes):
        raise Unkeyable(kind, "it has no exact value in plain Python")
    return f"{tag}({text_of(plain)})"


def of_a_library(kind: type, tag: str, text_of: TextOf) -> Callable[[Any], str] | None:
    """The text for URLs, queries, headers and secrets of pydantic and Starlette."""
    names = {base.__name__ for base in kind.__mro__ if root_package(base) in ("starlette", "pydantic")}
    if hasattr(kind, "get_secret_value"):
        return lambda value: f"{tag}(~{digest(text_of(value.get_secret_value()))})"
    if names & {"_BaseUrl", "_BaseMultiHostUrl", "URL", "URLPath"}:
        return _url(kind, tag, text_of)
    if "Secret" in names:
        return lambda value: f"{tag}(~{digest(text_of(str(value)))})"
    if "Headers" in names:
        return lambda value: f"{tag}({text_of(list(value.raw))})"
    if "ImmutableMultiDict" in names and "FormData" not in names:
        return lambda value: f"{tag}({text_of(list(value.multi_items()))})"
    return None


def _url(kind: type, tag: str, text_of: TextOf) -> Callable[[Any], str]:
    base: Any = _class_of(kind, "pydantic", "starlette")

    def text(value: Any) -> str:
        # Starlette's URL keeps its parts beside the text, and its path has what the text omits: protocol and host.
        own = {} if base.__name__ == "URL" else attributes(value)
        others = [f",{escape(name)}={text_of(item)}" for name, item in own.items() if name != "_url" and item]
        return f"{tag}({escape(base.__str__(value))}{''.join(others)})"

    return text
