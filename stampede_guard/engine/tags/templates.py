"""The texts of tags: `tags=("project:{project}",)` filled in with a call's arguments, and their names in the store."""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import unicodedata
import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any

from stampede_guard.errors import KeyPartError, Misuse
from stampede_guard.values.arguments.binding import arguments_of
from stampede_guard.values.arguments.templates import LONGEST, check_names, names_in, parsed
from stampede_guard.values.parts.classes import DIGITS, digest, escape

__all__ = ["ALLOWED", "MOST_TAGS", "TagTemplates", "checked_tags", "tag_key", "tag_names", "text_in_tag"]

MOST_TAGS = 16
LONGEST_TAG = LONGEST
_LONGEST_READABLE = 120
_TEXTUAL = (str, int, bool, uuid.UUID, decimal.Decimal, datetime.date, type(None))
ALLOWED = "a str, an int, a bool, a UUID, a Decimal, a date, None, or an Enum of str or int"


def tag_key(tag: object) -> str:
    """The name of a tag in the store, after the namespace. No entry's name begins with its mark `#`.

    Raises `Misuse` for anything but a text with at least one character.
    """
    if not isinstance(tag, str) or not tag:
        raise Misuse(f"a tag is a text of at least one character, as in 'project:7', not {_shown(tag)}")
    tag = normalized(tag)
    text = escape(tag)
    if len(text) > _LONGEST_READABLE:
        text = f"{text[: _LONGEST_READABLE - len('~') - DIGITS]}~{digest(tag)}"
    return f"#{text}"


def normalized(tag: str) -> str:
    """One form for texts that look the same (Unicode's NFC). A caller may type é, or e and an accent."""
    return tag if tag.isascii() else unicodedata.normalize("NFC", tag)


def text_in_tag(value: object) -> str | None:
    """The text of `f"{value}"`, of an Enum its value's. None: a tag takes no values of this type, see `ALLOWED`."""
    plain = value.value if isinstance(value, enum.Enum) else value
    # Drivers of databases have subclasses of UUID, which print the same text.
    return str(plain) if type(plain) in _TEXTUAL or isinstance(plain, uuid.UUID) else None


def tag_names(prefix: str, tags: Iterable[str]) -> tuple[str, ...]:
    """Complete names of the tags in the store."""
    return tuple([prefix + tag_key(tag) for tag in tags])


def checked_tags(tags: Any) -> tuple[str, ...]:
    """The given tags or templates, each once. Raises `Misuse`."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise Misuse(f"tags={_shown(tags)} must be a tuple of texts: tags=('project:7',)")
    given = tuple(dict.fromkeys(normalized(tag) if isinstance(tag, str) else tag for tag in tags))
    if len(given) > MOST_TAGS:
        raise Misuse(
            f"{len(given)} tags are too many: an entry may have {MOST_TAGS}, because each is read with every hit"
        )
    for tag in given:
        if not isinstance(tag, str) or not 0 < len(tag) <= LONGEST_TAG:
            raise Misuse(f"a tag is a text of 1 to {LONGEST_TAG} characters, not {_shown(tag)}")
    return given


class TagTemplates:
    """The tags of one function's calls.

    A template names parameters in braces, like a format string. `{{` is a brace. `barred`: parameters that do not
    belong to the key (`unkeyed`), or that the caller does not give (`resources`).

    Raises `KeyPartError` or `Misuse` at once for a template that cannot be filled in.
    """

    def __init__(
        self, templates: Iterable[str], function: Callable[..., Any], *, unkeyed: Collection[str] = (),
        resources: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.templates = checked_tags(templates)
        self._title = f"{function.__qualname__}()"
        parameters = inspect.signature(function).parameters
        self._parsed = [parsed(template, self._title, what="tag") for template in self.templates]
        self._names = names_in(part for parts in self._parsed for part in parts)
        check_names(self._names, self._title, parameters, option="tags", unkeyed=unkeyed, resources=resources)
        self._arguments = arguments_of(function, self._names, frozenset(resources))

    def texts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
        """The tags of a call. Raises `KeyPartError` for an argument that cannot be part of a tag."""
        values = self._arguments(*args, **kwargs)
        texts = {name: self._text(name, value) for name, value in zip(self._names, values, strict=True)}
        return tuple(
            "".join(literal + (texts[name] if name else "") for literal, name in parts)
            for parts in self._parsed
        )

    def _text(self, name: str, value: Any) -> str:
        """The text of `f"{value}"`, because the caller that invalidates the tag writes this text."""
        text = text_in_tag(value)
        if text is None:
            raise KeyPartError(
                f"{name!r} of {self._title} is a {type(value).__name__}, and a tag contains it: a tag takes "
                f"{ALLOWED}, so that the code that invalidates it can write the same text",
                parameter=name,
            )
        return text


def _shown(value: object) -> str:
    """A short form that never shows the data of a long value."""
    if isinstance(value, str) and len(value) <= LONGEST_TAG:
        return repr(value)
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, str) else "")
