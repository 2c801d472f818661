"""The declared type as a filter, as FastAPI uses it: what a caller gets, and the JSON that a client gets.

FastAPI validates what an endpoint returns against the declared type, also from the attributes of any object, and writes
the declared fields. A value from the store must give the same JSON.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from stampede_guard.values.annotations import live_kind, root_package
from stampede_guard.values.filtering.narrowing import Foreign, narrowed

__all__ = ["Filter", "Filtered"]


class Filter:
    """Needs pydantic. Raises what pydantic raises for a type that it cannot describe."""

    def __init__(self, annotation: Any) -> None:
        from pydantic import TypeAdapter

        self._annotation = annotation
        self.adapter: Any = TypeAdapter(annotation)
        self._has_sets = _may_hold_sets(getattr(self.adapter, "core_schema", {"type": "any"}))

    def of(self, value: Any) -> Filtered:
        return Filtered(self, value)

    def json(self, declared: Any) -> list[bytes]:
        """The JSON of a validated value, with all fields and with only those that were set."""
        return [
            self.adapter.dump_json(declared, by_alias=True, exclude_unset=only_set, warnings=False)
            for only_set in (False, True)
        ]

    def validated(self, value: Any) -> Any:
        return self.adapter.validate_python(value, from_attributes=True)

    def narrowed(self, value: Any) -> Any:
        """Raises `Foreign`, also for a value that is nested too deeply, or holds itself."""
        try:
            return narrowed(self._annotation, value, trusted=True)
        except RecursionError:
            raise Foreign(value) from None

    def are_equal(self, one: list[bytes], other: list[bytes]) -> bool:
        # The order of a set differs from process to process, also without a cache.
        return one == other or (self._has_sets and list(map(sorted, one)) == list(map(sorted, other)))


def _may_hold_sets(schema: Any) -> bool:
    if isinstance(schema, list | tuple):
        return any(map(_may_hold_sets, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("type") in ("set", "frozenset", "any"):
        return True
    return any(_may_hold_sets(inner) for name, inner in schema.items() if name != "metadata")


class Filtered:
    """One value under a filter. It is validated at most once: a validator may change what it gets."""

    def __init__(self, owner: Filter, value: Any) -> None:
        self._filter = owner
        self._value = value
        self._validated: list[Any] = []
        self.error: Exception | None = None
        """Why the value is not of the declared type, if it was validated."""

    def candidates(self) -> Iterator[Any]:
        """The values to store in its place: first its declared parts, then pydantic's conversion of it."""
        with contextlib.suppress(Foreign):
            yield self._filter.narrowed(self._value)
        for made in self._validate():
            try:
                yield self._filter.narrowed(made)
            except Foreign:
                yield made

    def settled(self) -> Any:
        """The value itself, unless it must be converted from an object that may soon be closed, such as an ORM row."""
        try:
            self._filter.narrowed(self._value)
        except Foreign as foreign:
            if root_package(type(foreign.part)) != "builtins":
                return next(self.candidates(), self._value)
        return self._value

    def gives(self, back: Any) -> bool:
        """Whether FastAPI answers `back` as it answers the value."""
        for made in self._validate():
            try:
                expected = self._filter.json(made)
            except Exception:  # it has no JSON: no endpoint returns it
                return True
            try:
                given = self._filter.json(self._filter.validated(back))
            except Exception:
                return False
            return self._filter.are_equal(expected, given) or not self._is_steady(expected)
        return True

    def _is_steady(self, expected: list[bytes]) -> bool:
        """Whether the value has the same JSON each time. The time, or a new identifier, differs from itself."""
        try:
            again = self._filter.json(self._filter.validated(self._value))
        except Exception:
            return False
        return self._filter.are_equal(expected, again)

    def _validate(self) -> list[Any]:
        if self.error is None and live_kind(type(self._value)) is not None:
            # FastAPI sends a response as it is, although it has attributes as any object has.
            self.error = TypeError("a response or a connection is no data")
        if not self._validated and self.error is None:
            try:
                self._validated.append(self._filter.validated(self._value))
            except Exception as error:  # validators are the user's code
                self.error = error
        return self._validated
