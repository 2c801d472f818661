"""The tags of a mapped class, filled in with the values of a row."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Column, inspect
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import Mapper

from stampede_guard.engine.tags.templates import ALLOWED, checked_tags, text_in_tag
from stampede_guard.errors import Misuse
from stampede_guard.options import takes_options
from stampede_guard.values.arguments.templates import names_in, parsed

__all__ = ["ModelTags", "Tags", "mapper_of"]


class Tags:
    """The tags of a model: `Tags("task:{id}", "project:{project_id}", bulk="tasks")`.

    A template names attributes of the model that are columns. A row that is inserted, changed or deleted invalidates
    its tags, with its old and with its new values.

    A statement such as `update(Task)` changes rows that the session does not know. It invalidates `bulk` (one tag or
    several) and the tags without attributes. Give the `bulk` tag to every function that has one of the other tags.
    Without such a tag, the statement raises `Misuse` and is not sent. Raises `Misuse`.
    """

    @takes_options("Tags")
    def __init__(self, *templates: str, bulk: str | Iterable[str] = ()) -> None:
        self.templates = checked_tags(templates)
        if not self.templates:
            raise Misuse('Tags takes templates: write Tags("task:{id}", bulk="tasks")')
        self.bulk = tuple(_plain(tag) for tag in checked_tags((bulk,) if isinstance(bulk, str) else bulk))


class ModelTags:
    """The tags of one mapped class and of the classes that inherit from it."""

    def __init__(self, model: type[Any], tags: Tags) -> None:
        self.model = model
        self.mapper = mapper_of(model)
        self._parts = [parsed(template, model.__name__, what="tag") for template in tags.templates]
        self.names = tuple(names_in(part for parts in self._parts for part in parts))
        self._columns = {name: self._column(name) for name in self.names}
        constants = ["".join(text for text, _ in parts) for parts in self._parts if not names_in(parts)]
        self.has_unknown = len(constants) < len(self._parts) and not tags.bulk
        """Whether a statement over rows that are not known would leave entries as they are."""
        self.coarse = (*constants, *tags.bulk)
        self.first = next(template for template, parts in zip(tags.templates, self._parts, strict=True)
                          if names_in(parts) or not self.names)  # fmt: skip

    @property
    def beside_key(self) -> bool:
        """Whether a tag names other columns than the primary key, so that a row can move from one tag to another."""
        keys = set(self.mapper.primary_key)
        return any(column not in keys for column in self._columns.values())

    def texts(self, row: Mapping[str, Any]) -> Iterable[str]:
        """The tags of one row. Raises `Misuse` for a value that no tag takes."""
        filled = {name: self._text(name, row[name]) for name in self.names}
        for parts in self._parts:
            text = "".join(literal + (filled[name] if name else "") for literal, name in parts)
            if text:
                yield text

    def _text(self, name: str, value: Any) -> str:
        if isinstance(value, bool | int):
            # `task.done = 1`: the database and a later read say True.
            kind = _python_type(self._columns[name])
            value = kind(value) if kind in (bool, int) else value
        text = text_in_tag(value)
        if text is None:
            raise Misuse(
                f"{self.model.__name__}.{name} is a {type(value).__name__}, and a tag contains it: a tag takes "
                f"{ALLOWED}"
            )
        return text

    def _column(self, name: str) -> Column[Any]:
        # A `column_property` of an expression is there, too.
        given: dict[str, Any] = dict(self.mapper.columns.items())
        columns = {key: column for key, column in given.items() if isinstance(column, Column)}
        if name not in columns:
            near = difflib.get_close_matches(name, columns, n=1)
            raise Misuse(
                f"the tag {{{name}}} names no column of {self.model.__name__}: write one of "
                f"{', '.join(sorted(columns))}" + (f"; do you mean {{{near[0]}}}?" if near else "")
            )
        return columns[name]


def mapper_of(model: Any) -> Mapper[Any]:
    """The mapper of a mapped class. Raises `Misuse`."""
    try:
        found = inspect(model)
    except NoInspectionAvailable:
        found = None
    if not isinstance(found, Mapper):
        raise Misuse(f"{model!r} is no mapped class: write {{Task: ('task:{{id}}',)}}")
    return found


def _plain(tag: str) -> str:
    parts = parsed(tag, "bulk=", what="tag")
    if names_in(parts):
        raise Misuse(
            f"bulk={tag!r} names an attribute, but the rows are not known: write a plain tag, as in 'tasks'"
        )
    return "".join(text for text, _ in parts)


def _python_type(column: Column[Any]) -> type[Any] | None:
    try:
        return column.type.python_type
    except NotImplementedError:
        return None
