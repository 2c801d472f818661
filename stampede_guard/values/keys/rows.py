"""Rows of an object-relational mapper: objects that belong to a session, and load their attributes when asked."""

from __future__ import annotations

from typing import Any

from stampede_guard.values.annotations import comes_from

__all__ = ["identity_of", "is_row"]


def is_row(kind: Any) -> bool:
    """Whether it is a mapped class of SQLAlchemy or a model of Django."""
    if not isinstance(kind, type):
        return False
    return "_sa_class_manager" in vars(kind) or (comes_from(kind, "django") and hasattr(kind, "_meta"))


def identity_of(kind: Any) -> list[str]:
    """The attributes of a row's primary key."""
    if hasattr(kind, "_meta"):
        return ["pk"]
    try:
        mapper = kind.__mapper__
        return [mapper.get_property_by_column(column).key for column in mapper.primary_key]
    except Exception:  # a class whose mapping is not complete
        return ["id"]
