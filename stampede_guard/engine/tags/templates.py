"""The texts of tags: `tags=("project:{project}",)` filled in with a call's arguments, and their names in the store."""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import string
import unicodedata
import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any

from stampede_guard.errors import KeyPartError, Misuse
from stampede_guard.values.arguments.binding import arguments_of
from stampede_guard.values.parts.parts import digest, escape

__all__ = ["MOST_TAGS", "TagTemplates", "checked_tags", "tag_key", "tag_names"]

MOST_TAGS = 16
LONGEST_TAG = 512
_LONGEST_READABLE = 120
_TEXTUAL = (str, int, bool, uuid.UUID, decimal.Decimal, datetime.date, type(None))
_ALLOWED = "a str, an int, a bool, a UUID, a Decimal, a date, None, or an Enum of str or int"
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def tag_key(tag: object) -> str:
    """The name of a tag in the store, after the namespace. No entry's name begins with its mark `#`.

    Raises `Misuse` for anything but a text with at least one character.
    """
    if not isinstance(tag, str) or not tag:
        raise Misuse(f"a tag is a text of at least one character, as in 'project:7', not {_shown(tag)}")
    tag = normalized(tag)
    text = escape(tag)
    if len(text) > _LONGEST_READABLE:
        text = f"{text[: _LONGEST_READABLE - 33]}~{digest(tag)}"
    return f"#{text}"


def normalized(tag: str) -> str:
    """One form for texts that look the same (Unicode's NFC). A caller may type é, or e and an accent."""
    return tag if tag.isascii() else unicodedata.normalize("NFC", tag)


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
        self._parsed = [_parsed(template, self._title) for template in self.templates]
        names = list(dict.fromkeys(name for parts in self._parsed for _, name in parts if name))
        for name in names:
            self._check(name, parameters, unkeyed, resources)
        self._names = names
        self._arguments = arguments_of(function, names, frozenset(resources))

    def _check(
        self, name: str, parameters: Any, unkeyed: Collection[str], resources: Collection[str]
    ) -> None:
        parameter = parameters.get(name)
        if parameter is None or name in resources:
            known = ", ".join(known for known in parameters if known not in resources) or "none"
            problem = f"no such parameter (it has: {known})"
        elif parameter.kind in _VARIADIC:
            problem = "many arguments under that name; name one parameter"
        elif name in unkeyed:
            problem = "it as unkeyed: calls with the same key would have different tags"
        else:
            return
        raise KeyPartError(f"the tags name {{{name}}}, but {self._title} has {problem}", parameter=name)

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
        plain = value.value if isinstance(value, enum.Enum) else value
        if type(plain) not in _TEXTUAL:
            raise KeyPartError(
                f"{name!r} of {self._title} is a {type(value).__name__}, and a tag contains it: a tag takes "
                f"{_ALLOWED}, so that the code that invalidates it can write the same text",
                parameter=name,
            )
        return str(plain)


def _parsed(template: str, title: str) -> list[tuple[str, str]]:
    """The literal texts. Each is paired with the parameter that follows it, or with an empty name."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise Misuse(
            f"the tag {template!r} of {title} is not a template: {error}. A brace is written {{{{"
        ) from None
    parsed = []
    for literal, name, form, conversion in parts:
        if name is not None and (form or conversion or not name.isidentifier()):
            wrong = name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
            raise Misuse(
                f"the tag {template!r} of {title} has {{{wrong}}} in it: write the name of a parameter in the braces "
                f"and nothing else, as in 'project:{{project}}'"
            )
        # Python normalises the names of parameters in the same way.
        parsed.append((literal, unicodedata.normalize("NFKC", name or "")))
    return parsed


def _shown(value: object) -> str:
    """A short form that never shows the data of a long value."""
    if isinstance(value, str) and len(value) <= LONGEST_TAG:
        return repr(value)
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, str) else "")
