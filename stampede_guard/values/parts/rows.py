"""How a key writes an object of Django's ORM: its columns, and what else decides its result.

Related rows that were loaded beside it are left out: its columns name them. Prefetched rows are written, because a
`Prefetch` may have chosen some of them. A lazy object, such as `request.user`, is written as the object behind
it. All visitors that have not logged in are the same.

Data that Django itself writes into a row during use do not count: the permissions of a user, a file instead of its
name. Otherwise a function that looks at them would change its own key, and no result would fit its call.

A computation gets a copy of its caller's row. So it may load a deferred column: the key has the columns of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stampede_guard.values.annotations import root_package
from stampede_guard.values.parts.classes import Unkeyable, escape
from stampede_guard.values.parts.state import attributes

__all__ = ["is_row", "of_django"]

_PREFETCHED = "_prefetched_objects_cache"
_REMEMBERED = frozenset({"_perm_cache", "_user_perm_cache", "_group_perm_cache"})
"""Of a user, after `has_perm`."""


def is_row(kind: type) -> bool:
    """Whether it is a model of Django."""
    return "Model" in _names(kind)


def of_django(kind: type, tag: str, text_of: Callable[[Any], str]) -> Callable[[Any], str] | None:
    """The text for rows and lazy objects. None for other classes."""
    names = _names(kind)
    if "Model" in names:
        return lambda value: f"{tag}({','.join(_row(value, text_of))})"
    if kind.__module__ == "django.contrib.auth.models" and kind.__name__ == "AnonymousUser":
        return lambda value: f"{tag}({','.join(_attributes(attributes(value), text_of))})"
    if "LazyObject" in names:
        return lambda value: text_of(_meant(value))
    if "QuerySet" in names:
        raise Unkeyable(kind, "it is a query, and nobody can tell whether two of them find the same rows")
    return None


def _names(kind: type) -> set[str]:
    return {base.__name__ for base in kind.__mro__ if root_package(base) == "django"}


def _row(value: Any, text_of: Callable[[Any], str]) -> list[str]:
    found = attributes(value)
    state = found.pop("_state", None)
    found.pop("_django_version", None)  # only in a copy, so that pickles of another version are noticed
    prefetched = {name: list(rows) for name, rows in (found.pop(_PREFETCHED, None) or {}).items()}
    texts = _attributes(found, text_of)
    # One database may have other rows than another one.
    texts.append(f"@{text_of(getattr(state, 'db', None))}")
    return texts + [f"@{escape(name)}={text_of(rows)}" for name, rows in sorted(prefetched.items())]


def _attributes(found: dict[str, Any], text_of: Callable[[Any], str]) -> list[str]:
    return [
        f"{escape(name)}={text_of(_name_of_file(item))}"
        for name, item in found.items()
        if name not in _REMEMBERED
    ]


def _name_of_file(item: Any) -> Any:
    """A column of files holds the name until it is read, and then a file. One that is not stored yet has no name."""
    is_stored = "FieldFile" in _names(type(item)) and item._committed
    return item.name if is_stored else item


def _meant(value: Any) -> Any:
    # `__class__` asks Django to make the object. It is evaluated once, as by any other use.
    value.__class__  # noqa: B018
    return value._wrapped
