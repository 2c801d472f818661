"""How a key names a class: by its module and name, and if it is not found there, also by its definition.

Two runs of one function create two classes with the same name. So do two calls of `type`, `make_dataclass`,
`create_model` or `Enum("Colour", ...)`. They may share a name in keys only if they do not differ. So the name
contains a digest of their bodies, their bases and the values that their methods capture from the enclosing
function.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import re
import sys
import threading
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from stampede_guard.values.parts.generics import arguments_of, classes_in, is_alias, text_with

__all__ = [
    "DIGITS",
    "DIGITS_OF_FUNCTION",
    "Unkeyable",
    "alias_name",
    "class_name",
    "digest",
    "escape",
    "is_local",
    "needs_definition",
    "note_local",
    "note_locals",
]

_PLAIN = "-_.~@:/+="
_is_unchanged = re.compile(f"[A-Za-z0-9{re.escape(_PLAIN)}]*", re.ASCII).fullmatch
_MOST_DEPTH = 8
_HEAP_TYPE = 1 << 9
# Attributes that do not affect how a class behaves, or that differ between two runs of the same code.
_NOISE = frozenset(
    {
        "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__",
        "_abc_impl", "__dataclass_fields__", "__dataclass_params__", "__annotations__", "__annotate__",
        "__annotate_func__", "__annotations_cache__", "__parameters__", "__orig_bases__", "__match_args__",
        "__attrs_attrs__", "__struct_config__", "__struct_defaults__", "__struct_encode_fields__", "__signature__",
        "__members__", "__new_member__", "__hash__", "_generate_next_value_",
    }
)  # fmt: skip
_NOISY_PREFIXES = ("__pydantic_", "model_", "_member", "_value2", "_hashable", "_unhashable")


class Unkeyable(Exception):
    """A value, perhaps deep inside a part, has no stable text. `kind` is its type."""

    def __init__(self, kind: type, reason: str = "") -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason


_text_of: Callable[[Any], str]
"""The text of any value, from `parts`: the definition of a class contains values."""


def write_values_with(text_of: Callable[[Any], str]) -> None:
    """`parts` calls this once, when it is imported."""
    global _text_of
    _text_of = text_of


def escape(text: str) -> str:
    """Percent-encode everything but letters, digits and a few marks. Injective, also for lone surrogates."""
    return text if _is_unchanged(text) else quote(text, safe=_PLAIN, errors="surrogatepass")


DIGITS = 32
"""Characters of the digest of a part, a key or a tag."""
DIGITS_OF_FUNCTION = 12
"""Characters of the digest of a function's whole name, its version and its result's shape."""


def digest(text: str, *, digits: int = DIGITS) -> str:
    """Hexadecimal BLAKE2b (RFC 7693) of a text, so many digits of it: an even number."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=digits // 2).hexdigest()


AMBIGUOUS = escape("<locals>")
"""In the name of each class that another class may share it with."""


def is_local(kind: type) -> bool:
    """Whether a class was made inside a function."""
    return "<locals>" in kind.__qualname__


def is_found_by_name(kind: type) -> bool:
    """Whether its module has it under its name. Then no other class has this module and name."""
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return found is kind


def needs_definition(kind: type) -> bool:
    """Whether another class with its name may exist: one made inside a function, or by a call such as `type(...)`.

    The name of a pydantic `Page[int]` is that of `Page` and of its arguments: see `note_locals`.
    """
    if arguments_of(kind) is not None:
        return False
    if is_local(kind) or is_found_by_name(kind):
        return is_local(kind)
    # Python's own classes may be anywhere. `make_dataclass` gives `types` as the module, whatever the caller.
    root = kind.__module__.partition(".")[0]
    standard = root in sys.stdlib_module_names and root not in ("types", "__main__")
    return bool(kind.__flags__ & _HEAP_TYPE) and not standard and not _is_plain_namedtuple(kind)


def _is_plain_namedtuple(kind: type) -> bool:
    """Its fields are in the text, and it has no methods of its own. Drivers create such a class for each shape of a
    row.
    """
    return kind.__bases__ == (tuple,) and isinstance(getattr(kind, "_fields", None), tuple)


def class_name(kind: type) -> str:
    """Where a class is defined, escaped. If its name is ambiguous, a digest of its definition follows."""
    made = arguments_of(kind)
    if made is not None:
        return text_with(*made, class_name, _text_of)
    name = escape(f"{kind.__module__}.{kind.__qualname__}")
    if not needs_definition(kind):
        return name
    mark = "" if is_local(kind) else AMBIGUOUS
    return f"{name}{mark}~{_definition_digest(kind)}"


def alias_name(value: Any) -> str | None:
    """The name of `Page[int]` as a generic dataclass remembers its call. None for other values."""
    if not is_alias(value):
        return None
    note_locals(value)
    return text_with(typing.get_origin(value), typing.get_args(value), class_name, _text_of)


def forget_definitions() -> None:
    """Lets unused classes be collected."""
    _definition_digest.cache_clear()


@functools.lru_cache(maxsize=512)
def _definition_digest(kind: type) -> str:
    return digest(_definition(kind, 0), digits=16)


def _definition(kind: type, depth: int) -> str:
    if depth > _MOST_DEPTH:
        return "..."
    texts = [f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__[1:]]
    for base in kind.__mro__:
        if not needs_definition(base):
            continue
        for name, value in sorted(vars(base).items()):
            if name not in _NOISE and not name.startswith(_NOISY_PREFIXES):
                texts.append(f"{name}={_member(kind, value, depth + 1)}")
    return "\n".join(texts)


def _member(kind: type, value: Any, depth: int) -> str:
    """A method or class attribute, as far as it can differ between two classes."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, property | functools.cached_property):
        parts = [getattr(value, name, None) for name in ("func", "fget", "fset", "fdel")]
        return ",".join(_member(kind, part, depth) for part in parts if part is not None)
    if isinstance(value, types.FunctionType):
        return _function(kind, value, depth)
    if isinstance(value, type):
        name = f"{value.__module__}.{value.__qualname__}"
        return (
            f"{name}({_definition(value, depth)})" if needs_definition(value) and value is not kind else name
        )
    if isinstance(value, enum.Enum) and type(value) is kind:
        return f"member({value._name_},{_member(kind, value._value_, depth + 1)})"
    if type(value).__module__ == "dataclasses" or isinstance(
        value, types.MemberDescriptorType | types.GetSetDescriptorType
    ):
        return type(value).__qualname__
    if isinstance(value, tuple | list):
        return f"[{','.join(_member(kind, item, depth + 1) for item in value)}]"
    try:
        return _text_of(value)
    except (Unkeyable, RecursionError):
        return type(value).__qualname__


def _function(kind: type, function: types.FunctionType, depth: int) -> str:
    if depth > _MOST_DEPTH:
        return "..."
    texts = [_code(function.__code__)]
    defaults = (function.__defaults__ or ()) + tuple((function.__kwdefaults__ or {}).values())
    texts += [_member(kind, default, depth + 1) for default in defaults]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # an empty cell
            texts.append(f"{name}={_closed_over(kind, cell.cell_contents, depth + 1)}")
    return "|".join(texts)


def _closed_over(kind: type, value: Any, depth: int) -> str:
    if value is kind or isinstance(value, type | types.FunctionType | staticmethod | classmethod):
        return "itself" if value is kind else _member(kind, value, depth)
    if type(value).__module__ == "dataclasses":
        return type(value).__qualname__
    try:
        return _text_of(value)
    except (Unkeyable, RecursionError):
        raise Unkeyable(
            kind,
            f"the class was made inside a function and its methods use a {type(value).__name__} of that function",
        ) from None


def _code(code: types.CodeType) -> str:
    texts = [code.co_code.hex(), *code.co_names, *code.co_varnames, *code.co_freevars]
    texts += [_constant(item) for item in code.co_consts]
    return ",".join(texts)


def _constant(value: Any) -> str:
    """A constant in a function's code. The order of a set depends on the process, and `x in {"a", "b"}` contains
    one.
    """
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, tuple | frozenset):
        texts = [_constant(item) for item in value]
        return f"{type(value).__name__}({','.join(texts if isinstance(value, tuple) else sorted(texts))})"
    return repr(value)


# --- classes that do not differ -----------------------------------------------------------------------

_listening = threading.local()


def note_local(kind: type) -> None:
    """Call this each time a class with an ambiguous name, or a value of one, is written."""
    kinds = getattr(_listening, "kinds", None)
    if kinds is not None:
        kinds.append(kind)


def note_locals(value: Any) -> None:
    """Call `note_local` for each class with an ambiguous name in the name of this class or alias."""
    for kind in classes_in(value):
        if needs_definition(kind):
            note_local(kind)


@contextlib.contextmanager
def noted() -> Iterator[list[type]]:
    """Collects the classes that `note_local` is called with inside the block."""
    kinds: list[type] = []
    _listening.kinds = kinds
    try:
        yield kinds
    finally:
        _listening.kinds = None
