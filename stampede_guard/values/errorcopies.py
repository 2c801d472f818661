"""Copies of exceptions: each caller of a failed computation gets its own.

A request may write into the headers, notes, `__cause__` or traceback of its error. With copies, no other request sees
that. It also does not change an error that the application keeps and raises again.

No code of the exception's class runs: neither `__init__` nor `__new__`, `__reduce__` or `__setattr__`. The built-in
base class makes the object. Then the arguments, attributes, slots and causes of the original are filled in. Lists,
dictionaries, records, headers and HTTP messages in them are copied too. All copies share the other objects.
"""

from __future__ import annotations

import contextlib
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from stampede_guard.values.annotations import field_names, live_kind, root_package
from stampede_guard.values.codec import is_immutable
from stampede_guard.values.codec.attributes import per_class

__all__ = ["NoCopy", "bare_copy_of", "copy_of", "data_copy_of", "is_for_one"]

E = TypeVar("E", bound=BaseException)

_DEEPEST = 40
_MOST = 20_000
"""The most objects in one error. A larger copy would cost each caller more than the error is worth."""
_HEAP_TYPE = 1 << 9
_OWN_WAY = frozenset({"args"})
_MESSAGES: dict[str, frozenset[str]] = {
    "email": frozenset({"Message"}),
    "httpx": frozenset({"Request", "Response"}),
    "requests": frozenset({"PreparedRequest", "Request", "Response"}),
    "starlette": frozenset({"Response"}),
    "werkzeug": frozenset({"Headers", "Response"}),
}
_MULTIDICTS = frozenset({"MultiDict", "CIMultiDict"})
"""aiohttp's headers. An extension makes them, so no built-in class can."""
_ARGS: Any = vars(BaseException)["args"]
_TRACEBACK: Any = vars(BaseException)["__traceback__"]
_CAUSE: Any = vars(BaseException)["__cause__"]
_CONTEXT: Any = vars(BaseException)["__context__"]
_SUPPRESS: Any = vars(BaseException)["__suppress_context__"]
_GROUP: Any = BaseExceptionGroup


def copy_of(error: E) -> E | None:
    """An exception of the same class that shares no mutable data with this one.

    None if no copy is possible: an extension's class cannot be made in this way, or the error contains too much.
    """
    return _copied(error, _Copying())


def bare_copy_of(error: E) -> E | None:
    """The same without tracebacks, causes and contexts, for a copy that is kept: they hold all local variables."""
    return _copied(error, _Copying(bare=True))


def data_copy_of(value: Any) -> Any:
    """The same for any value. All copies share the parts that are not plain data. Raises `NoCopy`, also
    for a value that holds a response, a stream, a connection or a generator: only one caller can use it.
    """
    try:
        return _Copying(alive=False).value(value, 0)
    except Exception as problem:
        raise NoCopy from problem


class NoCopy(Exception):
    """The value contains too much, or an object of a class that cannot be copied."""


@per_class
def is_for_one(kind: type) -> bool:
    """Whether a second caller could not use an object of this class: a stream, a response, a generator, ..."""
    live = live_kind(kind) is not None and kind not in _HARMLESS
    return live or hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def _copied(error: E, copying: _Copying) -> E | None:
    try:
        copied: E = copying.error(error, 0)
    except Exception:  # reading the object may run code of its class, which may raise anything
        return None
    return copied if type(copied) is type(error) else None


class _Copying:
    """Copies one error and all that it refers to. Two references to one object become two references to one copy."""

    def __init__(self, *, bare: bool = False, alive: bool = True) -> None:
        self._bare = bare
        self._alive = alive
        """Whether live objects are allowed. All copies share them."""
        self._made: dict[int, Any] = {}
        self._originals: list[Any] = []  # kept alive, so that no two of them ever have the same id

    def _remember(self, original: Any, copied: Any) -> Any:
        if len(self._originals) >= _MOST:
            raise OverflowError
        self._made[id(original)] = copied
        self._originals.append(original)
        return copied

    def error(self, error: Any, depth: int) -> Any:
        if id(error) in self._made:
            return self._made[id(error)]
        if depth > _DEEPEST:
            raise RecursionError
        kind = type(error)
        if isinstance(error, _GROUP):
            # Copy the members first: a group cannot receive them later.
            members = [self.error(member, depth + 1) for member in _GROUP.exceptions.__get__(error)]
            made = self._remember(error, _GROUP.__new__(kind, _GROUP.message.__get__(error), members))
        elif root_package(kind) == "pydantic_core":
            make, arguments = error.__reduce__()[:2]
            made = self._remember(error, make(*self.value(arguments, depth + 1)))
        else:
            base: Any = _built_in_base(kind)
            made = self._remember(error, base.__new__(kind))
        if not isinstance(error, _GROUP):
            _ARGS.__set__(made, self.value(_ARGS.__get__(error), depth + 1))
        self._fill(made, error, depth)
        if self._bare:
            return made
        _TRACEBACK.__set__(made, _traceback(_TRACEBACK.__get__(error)))
        for link in (_CAUSE, _CONTEXT):
            other = link.__get__(error)
            link.__set__(made, None if other is None else self.error(other, depth + 1))
        # Last, because setting a cause sets this, too.
        _SUPPRESS.__set__(made, _SUPPRESS.__get__(error))
        return made

    def _fill(self, made: Any, original: Any, depth: int) -> None:
        """Copy the slots and attributes."""
        for slot in _slots(type(original)):
            # The slot was never set, or it cannot be set (those of a group).
            with contextlib.suppress(AttributeError, TypeError):
                value = slot.__get__(original)
                # A field of a C class that was never set also reads as None. It stays unset in the copy.
                if value is not None or _differs(slot, made):
                    slot.__set__(made, self.value(value, depth + 1))
        self._fill_dictionary(made, original, depth)

    def _fill_dictionary(self, made: Any, original: Any, depth: int) -> None:
        held = _dictionary(original)
        if held:
            target = _dictionary(made)
            if target is None:
                raise TypeError
            target.update({name: self.value(item, depth + 1) for name, item in list(held.items())})

    def value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _NOTHING_INSIDE or is_immutable(value):
            return value
        if id(value) in self._made:
            return self._made[id(value)]
        if depth > _DEEPEST:
            raise RecursionError
        if not self._alive and is_for_one(kind):
            raise NoCopy
        if isinstance(value, BaseException):
            return self.error(value, depth)
        if kind is tuple or kind is frozenset:
            return self._remember(value, kind(self.value(item, depth + 1) for item in value))
        if kind is bytearray:
            return self._remember(value, bytearray(value))
        if kind in _CONTAINERS:
            return self._container(value, depth)
        if not _is_data(kind):
            return value
        return self._object(value, depth)

    def _container(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is defaultdict:
            made: Any = self._remember(value, defaultdict(value.default_factory))
        elif kind is deque:
            made = self._remember(value, deque(maxlen=value.maxlen))
        else:
            made = self._remember(value, kind())
        if isinstance(value, dict):
            for key, item in list(value.items()):
                made[self.value(key, depth + 1)] = self.value(item, depth + 1)
        else:
            for item in list(value):
                (made.add if kind is set else made.append)(self.value(item, depth + 1))
        return made

    def _object(self, value: Any, depth: int) -> Any:
        """Copy a record, headers or an HTTP message. If that is not possible, all copies share the object."""
        kind = type(value)
        if isinstance(value, msgspec.Struct):
            made: Any = self._remember(value, msgspec.structs.replace(value) if _is_plain(kind) else value)
            if made is not value:
                for name in kind.__struct_fields__:
                    msgspec.structs.force_setattr(made, name, self.value(getattr(value, name), depth + 1))
                self._fill_dictionary(
                    made, value, depth
                )  # a struct with `dict=True` may have more than its fields
            return made
        if kind.__name__ in _MULTIDICTS and root_package(kind) == "multidict":
            pairs = [(key, self.value(item, depth + 1)) for key, item in value.items()]
            return self._remember(value, kind(pairs))
        base: Any = _built_in_base(kind)
        if base is not object and base not in _BASES:
            return value
        if base is tuple or base is frozenset:
            items = [self.value(item, depth + 1) for item in base.__iter__(value)]
            made = self._remember(value, base.__new__(kind, items))
        else:
            made = self._remember(value, base.__new__(kind))
        if issubclass(base, dict):
            for key, item in list(base.items(value)):
                base.__setitem__(made, self.value(key, depth + 1), self.value(item, depth + 1))
        elif base is list:
            list.extend(made, [self.value(item, depth + 1) for item in list.__iter__(value)])
        elif base is set:
            set.update(made, [self.value(item, depth + 1) for item in set.__iter__(value)])
        elif base is deque:
            deque.__init__(made, (), deque.maxlen.__get__(value))
            deque.extend(made, [self.value(item, depth + 1) for item in deque.__iter__(value)])
        self._fill(made, value, depth)
        return made


_NOTHING_INSIDE = frozenset({type(None), bool, int, float, str, bytes, type, types.FunctionType})
_HARMLESS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_CONTAINERS = frozenset({dict, list, set, OrderedDict, defaultdict, deque})
_BASES = _CONTAINERS | {tuple, frozenset}


def _is_plain(kind: type) -> bool:
    """Whether `msgspec.structs.replace` without a field runs no code of the struct's class."""
    return not hasattr(kind, "__post_init__")


@per_class
def _is_data(kind: type) -> bool:
    """Whether objects of this class are plain data, not a connection, a session or another live object."""
    if any("__del__" in vars(base) for base in kind.__mro__):
        return False
    if field_names(kind) is not None or issubclass(kind, (*_BASES, Mapping)):
        return True
    return any(base.__name__ in _MESSAGES.get(root_package(base), ()) for base in kind.__mro__)


@per_class
def _built_in_base(kind: type) -> type:
    """The built-in class that defines the memory layout. Its `__new__` refuses a class that an extension lays out."""
    return next(base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE)


@per_class
def _slots(kind: type) -> tuple[Any, ...]:
    """The slots of Python classes, and the fields of built-in exceptions: `errno`, `code`, `object`, ..."""
    found = []
    for base in kind.__mro__:
        if base is BaseException or base is object:
            continue
        for name, member in vars(base).items():
            is_slot = isinstance(member, types.MemberDescriptorType)
            is_field = isinstance(member, types.GetSetDescriptorType) and not base.__flags__ & _HEAP_TYPE
            if (is_slot or is_field) and name not in _OWN_WAY and name not in ("__dict__", "__weakref__"):
                found.append(member)
    return tuple(found)


def _differs(slot: Any, made: Any) -> bool:
    try:
        return slot.__get__(made) is not None
    except AttributeError:
        return True


def _dictionary(value: Any) -> dict[str, Any] | None:
    try:
        held: dict[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held


def _traceback(original: types.TracebackType | None) -> types.TracebackType | None:
    """A new traceback with the same frames. If one caller cuts it short, the others keep theirs."""
    links = []
    while original is not None:
        links.append(original)
        original = original.tb_next
    made = None
    for link in reversed(links):
        made = types.TracebackType(made, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return made
