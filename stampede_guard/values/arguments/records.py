"""Reads a record from its written form: a dictionary for a model, a list for a named tuple, as FastAPI does.

A value of the declared class already fits. Field by field, the annotations of the class apply.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stampede_guard.values.annotations import field_names, resolve, root_package

__all__ = ["Reader", "record_reader"]

Reader = Callable[[Any], Any]
"""Raises the class's own error if the input is not a valid value."""


def record_reader(kind: Any, fit: Callable[[Any, Any], Any]) -> Reader | None:
    """For a record class, `TypedDict`, named tuple or type of pydantic; None for other classes.

    `fit(annotation, value)` reads a field.
    """
    if typing.is_typeddict(kind):
        return _of_typed_dict(kind, fit)
    if hasattr(kind, "model_validate"):
        return _or_itself(kind, kind.model_validate)
    if issubclass(kind, msgspec.Struct):
        return _or_itself(kind, lambda value: msgspec.convert(value, kind, strict=False))
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        return _or_itself(kind, _of_named_tuple(kind, names, fit)) if isinstance(names, tuple) else None
    if field_names(kind) is not None:
        return _or_itself(kind, _of_fields(kind, fit))
    if root_package(kind) == "pydantic" and hasattr(kind, "__get_pydantic_core_schema__"):
        # HttpUrl, AwareDatetime and the like: some of them are not the class of the values that they describe.
        adapter = importlib.import_module("pydantic").TypeAdapter(kind)
        return lambda value: value if type(value) is kind else adapter.validate_python(value)
    return None


def _or_itself(kind: type, read: Reader) -> Reader:
    return lambda value: value if isinstance(value, kind) else read(value)


def _of_fields(kind: Any, fit: Callable[[Any, Any], Any]) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError
        hints = resolve(kind)
        return kind(**{name: fit(hints.get(name, Any), item) for name, item in value.items()})

    return read


def _of_named_tuple(kind: Any, names: tuple[str, ...], fit: Callable[[Any, Any], Any]) -> Reader:
    def read(value: Any) -> Any:
        if isinstance(value, list | tuple):
            value = dict(zip(names, value, strict=False)) if len(value) <= len(names) else None
        if not isinstance(value, Mapping):
            raise TypeError
        hints = resolve(kind)
        return kind(**{name: fit(hints.get(name, Any), item) for name, item in value.items()})

    return read


def _of_typed_dict(kind: Any, fit: Callable[[Any, Any], Any]) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError
        hints = typing.get_type_hints(kind)
        if type(value) is not dict:
            return value
        fitted = {name: fit(hints.get(name, Any), item) for name, item in value.items()}
        return value if all(fitted[name] is item for name, item in value.items()) else fitted

    return read
