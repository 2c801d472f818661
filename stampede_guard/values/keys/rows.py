"""Rows of SQLAlchemy: they belong to a session, and which attributes they have depends on it.

A row of Django has all its columns, and can be part of a key.
"""

from __future__ import annotations

from typing import Any

__all__ = ["identity_of", "is_row"]


def is_row(kind: Any) -> bool:
    """Whether it is a mapped class."""
    return isinstance(kind, type) and "_sa_class_manager" in vars(kind)


def identity_of(kind: Any) -> list[str]:
    """The attributes of a row's primary key."""
    try:
        mapper = kind.__mapper__
        return [mapper.get_property_by_column(column).key for column in mapper.primary_key]
    except Exception:  # a class whose mapping is not complete
        return ["id"]
