"""Read a function's annotations without importing the libraries that define them.

A class of another library is recognised by a package and a class name in its method resolution order. So every
subclass of `starlette.requests.Request` is recognised, wherever it is defined. Nothing is imported for that.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import io
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "a",
    "alias_name",
    "alternatives",
    "comes_from",
    "cure_of_django",
    "field_names",
    "holds_itself",
    "is_mapped",
    "is_marker",
    "is_yielded",
    "cure_of_live",
    "live_kind",
    "resolve",
    "root_package",
    "title_of",
    "unwrap",
]

# Classes of connections, requests and streams. No text and no bytes can stand for such an object.
_LIVE: dict[str, frozenset[str]] = {
    "aiohttp": frozenset({"ClientSession", "ClientResponse", "StreamResponse", "BaseRequest"}),
    "aiomysql": frozenset({"Connection", "Pool", "Cursor"}),
    "aiosqlite": frozenset({"Connection", "Cursor"}),
    "asyncio": frozenset({"AbstractEventLoop", "Event", "Future", "Lock", "Queue", "Semaphore", "Task"}),
    "asyncpg": frozenset({"Connection", "Pool", "PoolConnectionProxy"}),
    "boto3": frozenset({"Session"}),
    "graphql": frozenset({"GraphQLResolveInfo"}),
    "httpx": frozenset({"AsyncClient", "Client", "Request", "Response"}),
    "litestar": frozenset({"ASGIConnection", "ASGIResponse", "File", "Response", "State", "Stream"}),
    "motor": frozenset({"AgnosticClient", "AgnosticCollection", "AgnosticDatabase"}),
    "psycopg": frozenset({"BaseConnection", "BaseCursor"}),
    "psycopg2": frozenset({"connection", "cursor"}),
    "psycopg_pool": frozenset({"BasePool"}),
    "pymongo": frozenset({"AsyncMongoClient", "Collection", "Database", "MongoClient"}),
    "quart": frozenset({"BaseRequestWebsocket", "Response"}),
    "redis": frozenset({"ConnectionPool", "Pipeline", "PubSub", "Redis", "RedisCluster"}),
    "requests": frozenset({"Session", "Response"}),
    "sqlalchemy": frozenset(
        {
            "AsyncConnection",
            "AsyncEngine",
            "AsyncSession",
            "Connection",
            "Engine",
            "Session",
            "async_scoped_session",
            "async_sessionmaker",
            "scoped_session",
            "sessionmaker",
        }
    ),
    "sqlite3": frozenset({"Connection", "Cursor"}),
    "strawberry": frozenset({"Info", "DataLoader"}),
    "starlette": frozenset(
        {
            "BackgroundTask",
            "BackgroundTasks",
            "HTTPConnection",
            "Response",
            "State",
            "UploadFile",
            "WebSocket",
        }
    ),
    "threading": frozenset({"Condition", "Event", "Lock", "Thread"}),
    "logging": frozenset({"Logger", "LoggerAdapter"}),
    "valkey": frozenset({"ConnectionPool", "Pipeline", "PubSub", "Valkey", "ValkeyCluster"}),
    "werkzeug": frozenset({"FileStorage", "LocalProxy", "Request", "Response"}),
}

_LIVE_ABSTRACTIONS: tuple[type, ...] = (
    collections.abc.Awaitable,
    collections.abc.AsyncIterable,
    collections.abc.Iterator,
    io.IOBase,
    typing.IO,
)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def resolve(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, by parameter, and `return`. Strings are evaluated where that is possible.

    A string that cannot be evaluated stays a string, for example a name that is imported only for type checkers.
    """
    target = inspect.unwrap(function)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # usually a NameError, but evaluation runs code that can raise anything
        return {name: _resolve_one(target, written) for name, written in _written(target).items()}


def _written(function: Callable[..., Any]) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    return dict(getattr(function, "__annotations__", {}))


def _resolve_one(function: Callable[..., Any], written: Any) -> Any:
    return _evaluated(written, getattr(function, "__globals__", {}))


def _evaluated(written: Any, names: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": written})
    try:
        return typing.get_type_hints(holder, globalns=names, include_extras=True)["it"]
    except Exception:
        return written


def unwrap(annotation: Any) -> Any:
    """The annotation without `Annotated[...]`, `NewType` and `type X = ...` around it."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            annotation = annotation.__origin__
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif _is_alias(annotation):
            annotation = _value_of(annotation)
        elif _is_alias(origin):
            annotation = _alias_with(origin, typing.get_args(annotation))
        else:
            return annotation


def alias_name(annotation: Any) -> str:
    """The name of a `type X = ...`, also of `X[int]`. Empty for other annotations."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = annotation.__origin__
    aliases = (one for one in (annotation, typing.get_origin(annotation)) if _is_alias(one))
    return next((str(one.__name__) for one in aliases), "")


def _is_alias(annotation: Any) -> bool:
    # typing's from 3.12 on, or typing_extensions' own
    return type(annotation).__name__ == "TypeAliasType"


@functools.lru_cache(maxsize=512)
def _value_of(alias: Any) -> Any:
    """Before Python 3.12, the value of an alias that uses itself is a text."""
    value = alias.__value__
    module = sys.modules.get(alias.__module__)
    return _evaluated(value, vars(module)) if isinstance(value, str) and module is not None else value


def _alias_with(alias: Any, arguments: tuple[Any, ...]) -> Any:
    """The value of `X[int]` for `type X[T] = ...`."""
    given = dict(zip(alias.__type_params__, arguments, strict=False))
    value = _value_of(alias)
    wanted = tuple(given.get(one, one) for one in getattr(value, "__parameters__", ()))
    if value in given:  # `type X[T] = T`
        return given[value]
    return value[wanted] if wanted else value


def alternatives(annotation: Any) -> Iterator[Any]:
    """The annotation and everything inside it: members of unions and arguments of generic types.

    What a type has of itself, as `type Json = dict[str, Json] | str` does, comes once.
    """
    return (kind for kind, is_itself in _walked(annotation, ()) if not is_itself)


def holds_itself(annotation: Any) -> bool:
    """Whether a `type X = ...`, or one in it, is used in its own definition."""
    return any(is_itself for _, is_itself in _walked(annotation, ()))


def _walked(annotation: Any, within: tuple[Any, ...]) -> Iterator[tuple[Any, bool]]:
    kind = unwrap(annotation)
    origin = typing.get_origin(kind)
    is_itself = origin is not None and kind in within
    yield kind, is_itself
    if is_itself or origin is typing.Literal or origin is collections.abc.Callable:
        return
    for argument in typing.get_args(kind):
        if not isinstance(argument, list | tuple):
            yield from _walked(argument, (*within, kind))


def root_package(kind: type) -> str:
    """The first part of the name of the module that defines a class."""
    return str(getattr(kind, "__module__", "")).partition(".")[0]


def live_kind(annotation: Any) -> str | None:
    """A name for messages, if the annotation is a connection, request, stream or function. Else None."""
    kind = typing.get_origin(annotation) or annotation
    if kind is collections.abc.Callable or kind in _FUNCTIONS:
        return "function"
    if not isinstance(kind, type):
        return None
    for base in kind.__mro__:
        if base.__name__ in _LIVE.get(root_package(base), ()):
            return title_of(kind)
    if kind is object or typing.Protocol in kind.__mro__:
        return None
    if issubclass(kind, _LIVE_ABSTRACTIONS):
        return title_of(kind) if comes_from(kind, "django") else kind.__name__
    return None


def cure_of_live(annotation: Any) -> str:
    """What to write instead of a function that returns a connection, a response or the like."""
    kind = typing.get_origin(annotation) or annotation
    if isinstance(kind, type) and comes_from(kind, "django"):
        return cure_of_django(kind)
    flask = isinstance(kind, type) and comes_from(kind, "flask")
    whole = "@stampede.cached_view" if flask else "StampedeMiddleware"
    return f"return the data itself, or cache whole responses with {whole}"


def cure_of_django(kind: type) -> str:
    """What to return instead of an object of Django."""
    if any(base.__name__ == "HttpResponseBase" for base in kind.__mro__):
        return "a function that returns a response is a view: call its first parameter `request`"
    return "return list(queryset.values()), django.forms.models.model_to_dict(row) or the row's key"


def title_of(kind: type) -> str:
    """A class in messages: `django QuerySet`. A subclass that this library makes is called by its base class. A class
    of the program's own script, or of a module with an underscore, has its name alone.
    """
    theirs = next(base for base in kind.__mro__ if root_package(base) != "stampede_guard")
    named = kind if theirs is object else theirs
    package = root_package(named)
    return named.__name__ if package == "builtins" or package[:1] == "_" else f"{package} {named.__name__}"


def a(noun: str) -> str:
    """`a list`, `an object`."""
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def is_mapped(kind: type) -> bool:
    """Whether it is a model of SQLAlchemy: its objects are rows of a session."""
    return hasattr(kind, "__mapper__")


def comes_from(kind: type, package: str) -> bool:
    """Whether a class, or one of its base classes, is defined in a package."""
    return any(root_package(base) == package for base in kind.__mro__)


def field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a record class (dataclass, pydantic, msgspec, attrs). None for other classes."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    structural = getattr(kind, "__struct_fields__", None)
    if isinstance(structural, tuple):
        return structural
    if comes_from(kind, "pydantic"):
        declared = getattr(kind, "model_fields", None)
        return tuple(declared) if isinstance(declared, dict) else None
    attributes = getattr(kind, "__attrs_attrs__", None)
    return tuple(attribute.name for attribute in attributes) if attributes is not None else None


def is_yielded(default: object, annotation: Any) -> bool:
    """Whether the parameter comes from a FastAPI dependency with `yield`. Such a value ends with the request."""
    markers = [default, *getattr(annotation, "__metadata__", ())]
    given = (getattr(marker, "dependency", None) for marker in markers)
    made_by = [inspect.unwrap(found) for found in given if callable(found)]
    return any(inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found) for found in made_by)


def is_marker(value: object) -> bool:
    """Whether a parameter's default only describes the parameter to FastAPI and is not a value for it."""
    return any(base.__module__ in ("fastapi.params", "pydantic.fields") for base in type(value).__mro__)
