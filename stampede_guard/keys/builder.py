"""From a call to its key: bind the arguments once, write each as text, keep the whole short."""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from stampede_guard.annotations import alternatives, is_marker, live_kind, resolve, root_package
from stampede_guard.errors import KeyPartError
from stampede_guard.keys.parts import (
    LONGEST_PART,
    Unkeyable,
    class_name,
    digest,
    escape,
    is_plain,
    shorten,
    text_of,
)

__all__ = ["LONGEST_KEY", "KeyBuilder", "arguments_of", "readable_name"]

LONGEST_KEY = 200
_LONGEST_NAME = 64
_LONGEST_ARGUMENTS = 120
_WIDE = 10**18
_Parameter = inspect.Parameter


class KeyBuilder:
    """Builds the keys of one function. Made once, when the function is decorated.

    `unkeyed` names parameters that do not change the result. `resources` names parameters that the
    computation gets from elsewhere: a call may omit them, and they are not in the key. `context` lists
    context variables whose values are part of the key (an unset one is a value of its own). `key` is called
    with the arguments of the call and returns what takes the place of them all: a string, or a tuple of
    parts. `version` and `fingerprint` (of the result's type) separate the entries of different code; `name`
    replaces `module.qualname`, and must be given where several functions share that, as those made by one
    factory do.

    `key_of(*args, **kwargs)` is `build(args, kwargs)` for callers in a hurry.

    Raises `KeyPartError` for a name that is no parameter, and for a parameter whose annotation says already
    that it cannot be part of a key.
    """

    __slots__ = (
        "_arguments", "_context", "_head", "_labels", "_replaced", "fingerprint", "key_of", "name", "version",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        unkeyed: Iterable[str] = (),
        resources: Iterable[str] = (),
        version: str | int = "",
        fingerprint: str = "",
        context: Sequence[ContextVar[Any]] = (),
        name: str | None = None,
        key: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name or _full_name(function)
        self.version = str(version)
        self.fingerprint = fingerprint
        parameters = _parameters(function)
        omitted = _checked(self.name, "unkeyed", unkeyed, parameters)
        supplied = _checked(self.name, "resources", resources, parameters)
        keyed = [name for name in parameters if name not in omitted and name not in supplied]
        self._replaced = key is not None
        if key is not None:
            self._arguments: Callable[..., tuple[Any, ...]] = _replacement(key)
            self._labels: tuple[str, ...] = ("key=",)
            self.key_of: Callable[..., str] = self._replaced_key
        else:
            _refuse_live_annotations(function, self.name, keyed)
            self._arguments = _binder(function, parameters, keyed, supplied)
            self._labels = tuple(f"{escape(name)}=" for name in keyed)
        self._context = tuple((f"@{escape(variable.name)}=", variable) for variable in context)
        self._head = self._make_head()
        if not self._replaced:
            self.key_of = self._writer(function, parameters, keyed, supplied)

    def _make_head(self) -> str:
        whole = "\n".join((self.name, self.version, self.fingerprint, str(self._replaced)))
        return f"{readable_name(self.name)}:{digest(whole, size=6)}:"

    def build(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The key of a call, at most 200 characters, without braces, spaces and control characters.

        Raises `KeyPartError` for a value without a stable text, and `TypeError` for arguments that do not
        fit.
        """
        return self.key_of(*args, **kwargs)

    def _writer(
        self,
        function: Callable[..., Any],
        parameters: dict[str, inspect.Parameter],
        keyed: Sequence[str],
        supplied: frozenset[str],
    ) -> Callable[..., str]:
        """A function with the parameters of the original that returns the key: `head + "a=1,b='x'"`.

        One expression, because every hit pays for it. Ordinary integers and texts are written in place, all else by
        `_part`.
        """
        # Longer than any parameter's name, so it is none.
        mine = "_" * (1 + max(map(len, parameters), default=0))
        texts = [
            f"{escape(name)}={{{name} if {mine}type({name}) is {mine}int and {-_WIDE} < {name} < {_WIDE} "
            f"else {mine}quote + {name} + {mine}quote if {mine}type({name}) is {mine}str and {mine}plain({name}) "
            f"else {mine}part('{escape(name)}=', {name})}}"
            for name in keyed
        ]
        text = f'f"{",".join(texts)}"'
        longest = sum(len(label) + LONGEST_PART + 1 for label in self._labels)
        whole = self._context or longest > _LONGEST_ARGUMENTS
        body = f"{mine}whole({text})" if whole else f"{mine}head + {text}"
        tools = {
            "type": type,
            "int": int,
            "str": str,
            "plain": is_plain,
            "quote": "'",
            "part": self._part,
            "whole": self._whole,
            "head": self._head,
        }
        return _made(
            function, parameters, supplied, body, {mine + name: tool for name, tool in tools.items()}
        )

    def _replaced_key(self, *args: Any, **kwargs: Any) -> str:
        (label,) = self._labels
        (value,) = self._arguments(*args, **kwargs)
        return self._whole(label + self._part(label, value))

    def _part(self, label: str, value: Any) -> str:
        if type(value) is str and is_plain(value):
            return f"'{value}'"
        return shorten(self._text(label, value))

    def _whole(self, text: str) -> str:
        """The key whose parts are these; what a call adds beside its arguments comes behind them."""
        if self._context:
            texts = [label + shorten(text) for label, text in self._context_texts()]
            text = ",".join([text, *texts] if text else texts)
        if len(text) > _LONGEST_ARGUMENTS:
            text = f"{text[: _LONGEST_ARGUMENTS - 33]}~{digest(text)}"
        return self._head + text

    def describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
        """The parts of a call's key before anything is shortened, for an operator's eyes only.

        Parameters stand under their names, context variables under `@name`, and what is the same for every
        call under `:name`, `:version` and `:fingerprint`.
        """
        parts = {":name": self.name, ":version": self.version, ":fingerprint": self.fingerprint}
        for label, value in zip(self._labels, self._arguments(*args, **kwargs), strict=True):
            parts[label[:-1]] = self._text(label, value)
        parts.update((label[:-1], text) for label, text in self._context_texts())
        return parts

    def _context_texts(self) -> list[tuple[str, str]]:
        texts = []
        for label, variable in self._context:
            try:
                value = variable.get()
            except LookupError:
                texts.append((label, "unset"))
            else:
                texts.append((label, self._text(label, value)))
        return texts

    def _text(self, label: str, value: Any) -> str:
        try:
            if label == "cls=" and isinstance(value, type):
                return _text_of_class(value)
            return text_of(value)
        except Unkeyable as problem:
            raise self._unkeyable(label[:-1], value, problem) from None
        except RecursionError:
            raise KeyPartError(
                f"{label[:-1]!r} of {self.name}() is nested too deeply to be part of a key, or holds itself",
                parameter=label[:-1],
            ) from None

    def _unkeyable(self, parameter: str, value: Any, problem: Unkeyable) -> KeyPartError:
        # never the value itself: it may be a secret, and this text is logged
        kind = _type_name(problem.kind)
        inside = "" if problem.kind is type(value) else f", inside a {_type_name(type(value))}"
        reason = problem.reason or "it has no text that stays the same between processes"
        if inspect.iscoroutine(value):
            value.close()
        if self._replaced and not parameter.startswith("@"):
            advice = "let it return a string, or a tuple of strings, numbers and the like"
            return KeyPartError(
                f"key= of {self.name}() returned a {kind}{inside}: {reason}; {advice}", parameter="key"
            )
        if parameter.startswith("@"):
            advice = "keep a plain value (a string, a number, a UUID) in the variable"
            whose = f"context variable {parameter[1:]!r}"
        elif is_marker(value):
            reason, advice = (
                "the call did not pass it and its default only means something to FastAPI",
                "pass it",
            )
            whose = f"parameter {parameter!r}"
        else:
            whose, advice = f"parameter {parameter!r}", _advice(parameter)
        return KeyPartError(
            f"{whose} of {self.name}() is a {kind}{inside} and cannot be part of its key: {reason}. "
            f"To fix: {advice}.",
            parameter=parameter.removeprefix("@"),
        )


def readable_name(name: str) -> str:
    """A function's name as its keys begin with it: escaped, a long one from its end."""
    return escape(name.replace("<locals>.", ""))[-_LONGEST_NAME:]


def _full_name(function: Callable[..., Any]) -> str:
    function = inspect.unwrap(function)
    qualname = getattr(function, "__qualname__", "")
    if not qualname or qualname.endswith("<lambda>"):
        kind = "lambda" if qualname else type(function).__qualname__
        raise KeyPartError(f"a {kind} has no name of its own to begin a key with; give it one: name='...'")
    return f"{function.__module__}.{qualname}"


def _type_name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{root_package(kind)} {kind.__name__}"


def _text_of_class(kind: type) -> str:
    if "<locals>" in kind.__qualname__:
        raise Unkeyable(type(kind), "it was made inside a function, which may make others of the same name")
    return f"class({class_name(kind)})"


def _advice(parameter: str) -> str:
    if parameter in ("self", "cls"):
        whose = "object" if parameter == "self" else "class"
        stable = "give its class a method `__cache_key__(self)` that returns what it does depend on (strings, numbers, "
        return (
            f'unkeyed=("{parameter}",) if the result does not depend on the {whose}; '
            + (f"{stable}a tuple of them); " if parameter == "self" else "")
            + f"or key=lambda {parameter}, ...: ... returning what the result does depend on"
        )
    return (
        f'unkeyed=("{parameter}",) if the result does not depend on it; '
        f'resources={{"{parameter}": factory}} to open it inside the computation; '
        f"or key=lambda ...: ... with the function's parameters, returning what the result does depend on"
    )


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    if sys.version_info >= (3, 14):
        import annotationlib

        signature = inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    else:
        signature = inspect.signature(function)
    return dict(signature.parameters)


def _checked(function: str, option: str, names: Iterable[str], parameters: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise KeyPartError(
            f"{option}={names!r} of {function}() must be a tuple: {option}=({names!r},)", parameter=names
        )
    chosen = frozenset(names)
    for name in sorted(chosen.difference(parameters)):
        known = ", ".join(parameters) or "none"
        raise KeyPartError(
            f"{option} names {name!r}, but {function}() has no such parameter (it has: {known})",
            parameter=name,
        )
    return chosen


def _refuse_live_annotations(function: Callable[..., Any], name: str, keyed: Sequence[str]) -> None:
    hints = resolve(function)
    for parameter in keyed:
        for annotation in alternatives(hints.get(parameter)):
            kind = live_kind(annotation)
            if kind is None:
                continue
            advice = _advice(parameter)
            if kind.endswith((" Request", " HTTPConnection", " WebSocket")):
                part = _key_example(parameter, list(inspect.signature(function).parameters))
                advice = (
                    f"{part} with whatever else decides the result (key= takes every parameter); {advice}"
                )
            raise KeyPartError(
                f"parameter {parameter!r} of {name}() is a {kind} and cannot be part of its key: "
                f"it has no text that stays the same between calls. To fix: {advice}.",
                parameter=parameter,
            )


def _key_example(request: str, parameters: list[str]) -> str:
    """A `key=` that works when it is copied: it is called with all arguments of the call."""
    parts = [f"{name}.url.path" if name == request else name for name in parameters]
    result = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    return f"key=lambda {', '.join(parameters)}: {result}"


def arguments_of(
    function: Callable[..., Any], names: Sequence[str], resources: frozenset[str]
) -> Callable[..., tuple[Any, ...]]:
    """A function with the parameters of the original that returns those of these names."""
    return _binder(function, _parameters(function), names, resources)


def _replacement(key: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    def arguments(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return (key(*args, **kwargs),)

    return arguments


def _binder(
    function: Callable[..., Any],
    parameters: dict[str, inspect.Parameter],
    keyed: Sequence[str],
    supplied: frozenset[str],
) -> Callable[..., tuple[Any, ...]]:
    """A function with the parameters of the original that returns the keyed ones as a tuple."""
    return _made(function, parameters, supplied, f"({''.join(f'{name}, ' for name in keyed)})")


def _made(
    function: Callable[..., Any],
    parameters: dict[str, inspect.Parameter],
    supplied: frozenset[str],
    body: str,
    tools: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """A function with the parameters of the original and this body.

    Python itself then binds arguments and defaults, ten times faster than `inspect.Signature.bind`, and
    complains about wrong ones in its own words. What the computation gets from elsewhere becomes optional, by
    keyword.
    """
    optional = {name: parameter for name, parameter in parameters.items() if name in supplied}
    ordered = [parameter for name, parameter in parameters.items() if name not in supplied]
    declared = _declaration(ordered, optional)
    # only names that Python accepted as parameters stand in this source; no value does
    binder: Any = eval(f"lambda {declared}: {body}", {"__builtins__": {}} | (tools or {}))
    by_position = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)
    binder.__defaults__ = tuple(
        p.default for p in ordered if p.kind in by_position and p.default is not _Parameter.empty
    )
    binder.__kwdefaults__ = {
        p.name: p.default
        for p in ordered
        if p.kind is _Parameter.KEYWORD_ONLY and p.default is not _Parameter.empty
    } | dict.fromkeys(optional)
    binder.__name__ = binder.__qualname__ = getattr(function, "__qualname__", "function")
    return binder  # type: ignore[no-any-return]


def _declaration(ordered: Sequence[inspect.Parameter], optional: Iterable[str]) -> str:
    groups: defaultdict[object, list[str]] = defaultdict(list)
    for parameter in ordered:
        groups[parameter.kind].append(parameter.name)
    declared = list(groups[_Parameter.POSITIONAL_ONLY])
    if declared:
        declared.append("/")
    declared += groups[_Parameter.POSITIONAL_OR_KEYWORD]
    named = [*groups[_Parameter.KEYWORD_ONLY], *optional]
    if groups[_Parameter.VAR_POSITIONAL]:
        declared.append("*" + groups[_Parameter.VAR_POSITIONAL][0])
    elif named:
        declared.append("*")
    declared += named
    declared += [f"**{name}" for name in groups[_Parameter.VAR_KEYWORD]]
    return ", ".join(declared)
