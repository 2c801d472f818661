"""From a call to its key: bind the arguments once, write each as text, keep the key short."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from stampede_guard.errors import KeyPartError
from stampede_guard.values import annotations as said
from stampede_guard.values.arguments.binding import Bound, binder, made, parameters_of
from stampede_guard.values.arguments.captured import IMMUTABLE, Copying
from stampede_guard.values.arguments.fitted import Fitted
from stampede_guard.values.keys import advice
from stampede_guard.values.keys.checking import (
    checked_names,
    refuse_live_annotations,
    refused_row,
    take_requests,
)
from stampede_guard.values.keys.chosen import with_parameters_of
from stampede_guard.values.keys.codeversion import AUTO, code_version
from stampede_guard.values.keys.naming import full_name
from stampede_guard.values.keys.rows import is_row
from stampede_guard.values.keys.sensitive import holds_sensitive_names, is_plain, is_sensitive
from stampede_guard.values.keys.templates import places_of, places_of_template
from stampede_guard.values.parts.classes import AMBIGUOUS, DIGITS_OF_FUNCTION, is_local, note_locals
from stampede_guard.values.parts.generics import classes_in
from stampede_guard.values.parts.local_classes import LocalClasses
from stampede_guard.values.parts.parts import (
    LONGEST_PART,
    Unkeyable,
    class_name,
    digest,
    escape,
    is_plain_object,
    shorten,
    text_of,
)

__all__ = ["LONGEST_KEY", "SHOWN", "KeyBuilder", "readable_name"]

LONGEST_KEY = 200
_LONGEST_NAME = 64
_LONGEST_ARGUMENTS = 120
SHOWN = _LONGEST_ARGUMENTS - 33
"""Characters of the arguments that stay readable when their digest replaces the rest."""
_WIDE = 10**18
_ATTEMPTS = 3
_Parameter = inspect.Parameter


class KeyBuilder:
    """Builds the keys of one function. Created once, when the function is decorated.

    `unkeyed` names parameters that do not change the result. `resources` names parameters that the computation gets
    from elsewhere: a call may omit them, and they are not in the key. `context` lists context variables whose
    values are part of the key (an unset one is a value of its own). `key` is called with the arguments of the call.
    Its result replaces them all: a string, or a tuple of parts. If `key` is a template, only the parameters that it
    names are in the key. `version` and `fingerprint` (of the result's type) separate the entries of different code.
    `name` replaces `module.qualname`. It is required if several functions share that, as functions from one factory
    do.

    `secret` names parameters whose values are always hashed, like those whose names suggest a secret or a person.

    `key_of(*args, **kwargs)` is a faster `build(args, kwargs)`.

    Raises `KeyPartError` for a name that is not a parameter, and for a parameter whose annotation already shows
    that it cannot be part of a key.
    """

    __slots__ = (
        "_arguments",
        "_context",
        "_defaults",
        "_hashed",
        "_head",
        "_labels",
        "_locals",
        "_of_more_than_its_attributes",
        "_template",
        "fingerprint",
        "fitted",
        "key_of",
        "left_out",
        "name",
        "replaced",
        "varies",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        unkeyed: Iterable[str] = (),
        resources: Iterable[str] = (),
        version: str | int = "",
        fingerprint: str = "",
        context: Sequence[ContextVar[Any] | Bound] = (),
        name: str | None = None,
        key: Callable[..., Any] | str | None = None,
        secret: Iterable[str] = (),
    ) -> None:
        self.name = full_name(function) if name is None else name
        self.version = code_version(function) if version == AUTO else str(version)
        self.fingerprint = fingerprint
        parameters = parameters_of(function)
        omitted = checked_names(self.name, "unkeyed", unkeyed, parameters)
        supplied = checked_names(self.name, "resources", resources, parameters)
        hidden = checked_names(self.name, "secret", secret, parameters)
        if isinstance(key, str):
            places, end = places_of_template(key, self.name, parameters, unkeyed=omitted, resources=supplied)
            keyed = list(dict.fromkeys(name for _, name in places))
        else:
            keyed = [name for name in parameters if name not in omitted and name not in supplied]
            places, end = places_of(keyed)
        hints = said.resolve(function)
        passed = {name: parameter for name, parameter in parameters.items() if name not in supplied}
        self.fitted = Fitted(self.name, passed, keyed, hints)
        self._locals = LocalClasses()
        self.left_out = frozenset(name for name in parameters if name not in keyed)
        self._defaults = _changeable_defaults(parameters, keyed)
        self.replaced = callable(key)
        self._template = key if isinstance(key, str) else ""
        self._context = tuple((f"@{escape(variable.name)}=", variable) for variable in context)
        self.varies = bool(self._context or self._defaults)
        """Whether a call's key may change later, although its arguments cannot."""
        sensitive = {name for name in parameters if name in hidden or is_sensitive(name)}
        self._hashed = {f"{escape(name)}=" for name in sensitive}
        self._hashed |= {label for label, variable in self._context if is_sensitive(variable.name)}
        # The attributes of a service change, and a dependency's value ends with its request.
        self._of_more_than_its_attributes = {"self="} | {
            f"{escape(name)}=" for name in keyed if said.is_yielded(parameters[name].default, hints.get(name))
        }
        self._head = self._make_head()
        if callable(key):
            self._arguments: Callable[..., tuple[Any, ...]] = with_parameters_of(
                function, key, self.name, parameters, supplied
            )
            self._labels: tuple[str, ...] = ("key=",)
            if sensitive - omitted or take_requests(hints):
                self._hashed.add("key=")
            self.key_of: Callable[..., str] = self._replaced_key
        else:
            refuse_live_annotations(function, self.name, keyed, hints, supplied)
            self._arguments = binder(function, parameters, keyed, supplied)
            self._labels = tuple(f"{escape(name)}=" for name in keyed)
            self.key_of = self._writer(function, parameters, supplied, places, end)

    def _make_head(self) -> str:
        whole = "\n".join((self.name, self.version, self.fingerprint, self._template or str(self.replaced)))
        return f"{readable_name(self.name)}:{digest(whole, digits=DIGITS_OF_FUNCTION)}:"

    def build(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The key of a call, at most 200 characters, without braces, spaces and control characters.

        Raises `KeyPartError` for a value without a stable text, and `TypeError` for arguments that do not fit the
        function.
        """
        return self.key_of(*args, **kwargs)

    def _writer(
        self,
        function: Callable[..., Any],
        parameters: dict[str, inspect.Parameter],
        supplied: frozenset[str],
        places: Sequence[tuple[str, str]],
        end: str,
    ) -> Callable[..., str]:
        """A function with the parameters of the original that returns the key: `head + "a=1,b='x'"`.

        One expression, because every hit runs it. Ordinary integers and texts are written in place, other values by
        `_part`.
        """
        # Longer than any parameter's name, so it collides with none.
        mine = "_" * (1 + max(map(len, parameters), default=0))
        texts = [before + self._in_place(name, mine) for before, name in places]
        text = f'f"{"".join(texts)}{end}"'
        longest = sum(len(before) + LONGEST_PART for before, _ in places) + len(end)
        whole = self._context or longest > _LONGEST_ARGUMENTS
        body = f"{mine}whole({text})" if whole else f"{mine}head + {text}"
        tools = {
            "type": type,
            "int": int,
            "str": str,
            "plain": is_plain,
            "quote": "'",
            "part": self._part,
            "watched": self._watched_part,
            "as_declared": {name: self.fitted.as_declared(name) for _, name in places},
            "whole": self._whole,
            "head": self._head,
        }
        return made(function, parameters, supplied, body, {mine + name: tool for name, tool in tools.items()})

    def _in_place(self, name: str, mine: str) -> str:
        """The expression that writes one parameter."""
        label = escape(name)
        as_declared = self.fitted.as_declared(name)
        part = f"{mine}part('{label}=', {name})"
        if as_declared is not None:
            watched = f"{mine}watched('{label}=', '{name}', {name})"
            part = f"({part} if {mine}type({name}) in {mine}as_declared['{name}'] else {watched})"
        if f"{label}=" in self._hashed:
            return f"{{{part}}}"
        if as_declared is None or str in as_declared:
            quoted = f"{mine}quote + {name} + {mine}quote"
            part = f"{quoted} if {mine}type({name}) is {mine}str and {mine}plain({name}) else {part}"
        if as_declared is None or int in as_declared:
            part = f"{name} if {mine}type({name}) is {mine}int and {-_WIDE} < {name} < {_WIDE} else {part}"
        return f"{{{part}}}"

    def _watched_part(self, label: str, name: str, value: Any) -> str:
        """Of a parameter whose values other calls may give otherwise: an invalidation will have to mean them all."""
        self.fitted.note_value(name, value)
        return self._part(label, value)

    def _replaced_key(self, *args: Any, **kwargs: Any) -> str:
        (label,) = self._labels
        (value,) = self._arguments(*args, **kwargs)
        return self._whole(label + self._part(label, value))

    def copied(
        self, copying: Copying, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with copies of all values in the key, mutable defaults included."""
        copying.live |= any(isinstance(variable, Bound) for _, variable in self._context)
        left_out, fitted = self.left_out, self.fitted
        own = [
            value if name in left_out else copying.of(value)
            for name, value in zip(fitted.names(args), args, strict=True)
        ]
        named = {
            key: value if fitted.named(key) in left_out else copying.of(value)
            for key, value in kwargs.items()
        }
        passed = {*fitted.names(args), *map(fitted.named, kwargs)}
        for name, default, by_keyword in self._defaults:
            if name not in passed:
                if by_keyword:
                    named[name] = copying.of(default)
                else:
                    copying.live = True
        return tuple(own), named

    def copies(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.copied(Copying(objects=not self.replaced), args, kwargs)

    def _part(self, label: str, value: Any) -> str:
        if label in self._hashed:
            return self._hash(label, value)
        if type(value) is str and is_plain(value):
            return f"'{value}'"
        text = self._text(label, value)
        if len(text) <= LONGEST_PART and holds_sensitive_names(value if type(value) is str else text):
            return self._hash(label, value)
        return shorten(text)

    def _hash(self, label: str, value: Any) -> str:
        # The hash covers the function and the parameter: one person's address has a different hash in each.
        return f"~{digest(f'{self._head}{label}{self._text(label, value)}')}"

    def _whole(self, text: str) -> str:
        """The key with these parts. Parts that do not come from arguments go to the end."""
        if self._context:
            texts = [label + text for label, text in self._context_texts(self._part)]
            text = ",".join([text, *texts] if text else texts)
        if len(text) > _LONGEST_ARGUMENTS:
            text = f"{text[:SHOWN]}~{digest(text)}"
        return self._head + text

    def describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
        """The parts of a call's key before anything is shortened, for operators only.

        Parameters appear under their names, context variables under `@name`, and the parts common to all calls
        under `:name`, `:version` and `:fingerprint`. Values that are always hashed stay hashed.
        """
        parts = {":name": self.name, ":version": self.version, ":fingerprint": self.fingerprint}
        for label, value in zip(self._labels, self._arguments(*args, **kwargs), strict=True):
            parts[label[:-1]] = self._described(label, value)
        parts.update((label[:-1], text) for label, text in self._context_texts(self._described))
        return parts

    def _described(self, label: str, value: Any) -> str:
        return self._hash(label, value) if label in self._hashed else self._text(label, value)

    def _context_texts(self, write: Callable[[str, Any], str]) -> list[tuple[str, str]]:
        texts = []
        for label, variable in self._context:
            try:
                value = variable.get()
            except LookupError:
                texts.append((label, "unset"))
            else:
                texts.append((label, write(label, value)))
        return texts

    def _text(self, label: str, value: Any) -> str:
        for attempt in range(_ATTEMPTS):
            try:
                if label in self._of_more_than_its_attributes and is_plain_object(type(value)):
                    # Only such an object itself knows what decides the result.
                    raise Unkeyable(type(value))
                write = _text_of_class if label == "cls=" and isinstance(value, type) else text_of
                text = write(value)
                if AMBIGUOUS in text:
                    self._locals.check(functools.partial(write, value))
                return text
            except Unkeyable as problem:
                raise self._unkeyable(label[:-1], value, problem) from None
            except RecursionError:
                raise KeyPartError(
                    f"{label[:-1]!r} of {self.name}() is nested too deeply to be part of a key, or holds itself",
                    parameter=label[:-1],
                ) from None
            except RuntimeError:
                # Another thread is changing it at this moment.
                if attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _unkeyable(self, parameter: str, value: Any, problem: Unkeyable) -> KeyPartError:
        # never the value itself: it may be a secret, and this text is logged
        kind = said.title_of(problem.kind)
        inside = "" if problem.kind is type(value) else f", inside {said.a(said.title_of(type(value)))}"
        reason = problem.reason or "it has no text that stays the same between processes"
        if inspect.iscoroutine(value):
            value.close()
        if self.replaced and not parameter.startswith("@"):
            cure = "let it return a string, or a tuple of strings, numbers and the like"
            return KeyPartError(
                f"key= of {self.name}() returned {said.a(kind)}{inside}: {reason}; {cure}", parameter="key"
            )
        if parameter.startswith("@"):
            cure = "keep a plain value (a string, a number, a UUID) in the variable"
            whose = f"context variable {parameter[1:]!r}"
        elif said.is_marker(value):
            reason, cure = (
                "the call did not pass it and its default only means something to FastAPI",
                "pass it",
            )
            whose = f"parameter {parameter!r}"
        elif is_row(type(value)) and parameter not in ("self", "cls"):
            return refused_row(self.name, parameter, type(value), self.fitted.parameters)
        else:
            whose, cure = (
                f"parameter {parameter!r}",
                advice.for_parameter(parameter, (type(value), problem.kind)),
            )
        return KeyPartError(
            f"{whose} of {self.name}() is {said.a(kind)}{inside} and cannot be part of its key: {reason}. "
            f"To fix: {cure}.",
            parameter=parameter.removeprefix("@"),
        )


def _changeable_defaults(
    parameters: Mapping[str, inspect.Parameter], keyed: Sequence[str]
) -> list[tuple[str, Any, bool]]:
    """Name, value, and whether it can be passed by name."""
    return [
        (name, parameters[name].default, parameters[name].kind is not _Parameter.POSITIONAL_ONLY)
        for name in keyed
        if parameters[name].default is not _Parameter.empty
        and type(parameters[name].default) not in IMMUTABLE
        and not said.is_marker(parameters[name].default)
        and not isinstance(parameters[name].default, enum.Enum)
    ]


def readable_name(name: str) -> str:
    """A function's name at the start of its keys: escaped, and cut from the front if it is long."""
    return escape(name.replace("<locals>.", ""))[-_LONGEST_NAME:]


def _text_of_class(kind: type) -> str:
    if any(map(is_local, classes_in(kind))):
        raise Unkeyable(type(kind), "it was made inside a function, which may make others of the same name")
    note_locals(kind)
    return f"class({class_name(kind)})"
