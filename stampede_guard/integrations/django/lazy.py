"""Lazy objects among arguments, such as `request.user`. Their query belongs to the caller's thread and transaction.

The key is built on the guard's event loop, where Django allows no query.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils.functional import LazyObject

__all__ = ["evaluate"]

_DEEPEST = 8


def evaluate(value: Any, depth: int = 0) -> None:
    """Let each lazy object in containers and dataclasses make what it stands for. Query sets stay as they are."""
    kind = type(value)
    if issubclass(kind, LazyObject):
        value.__class__  # noqa: B018 - asking for it makes the object
    elif depth == _DEEPEST:
        return
    elif issubclass(kind, dict):
        for key, item in value.items():
            evaluate(key, depth + 1)
            evaluate(item, depth + 1)
    elif issubclass(kind, list | tuple | set | frozenset):
        for item in value:
            evaluate(item, depth + 1)
    elif dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            evaluate(getattr(value, field.name, None), depth + 1)
