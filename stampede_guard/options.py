"""Refuses misspelt keyword options and values of the wrong type. The error says what to write.

`@takes_options` reads names and types from the signature. Type checkers and editors read the same. So a new option
needs no second list. Then the function's own checks run: they know ranges and combinations.
"""

from __future__ import annotations

import collections.abc
import difflib
import functools
import inspect
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, ForwardRef, Literal, NamedTuple, TypeVar, Union, Unpack, get_args, get_origin

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse, PolicyError

__all__ = ["ALL", "nearest", "options_of", "refuse_others", "takes_options"]

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
Refuse = Callable[[Mapping[str, Any], Iterable[str]], object]
"""Called with unknown options and the names of the known ones."""

ALL = "*"
"""In place of the options whose types a function checks itself: it checks all of them."""
_DURATION = frozenset(get_args(Duration))
_DATA = (str, bytes, int, float, complex, list, tuple, dict, set, frozenset, types.NoneType)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` probably means. None if nothing is near."""
    names = list(dict.fromkeys(known))
    # `lease` is a slip in `leases`. `stale` is the beginning of `stale_ttl`, though `sample` has more of its letters.
    slip = difflib.get_close_matches(name, names, n=1, cutoff=0.9)
    longer = [one for one in names if one.startswith(f"{name}_")] if name else []
    if not slip and len(longer) == 1:
        return longer[0]
    found = slip or difflib.get_close_matches(name, names, n=1, cutoff=0.65)
    return found[0] if found else None


def refuse_others(what: str, given: Iterable[str], known: Collection[str], also: Iterable[str] = ()) -> None:
    """Raise `Misuse` for names in `given` that are not in `known`. The error names the nearest option.

    `also`: names of others' options. They are allowed, but not listed.
    """
    for name in sorted(set(given) - {*known, *also}):
        near = nearest(name, [*known, *also])
        hint = f" (do you mean {near}?)" if near else ""
        raise Misuse(f"{what} has no {name}{hint}; it has {', '.join(known)}")


def takes_options(
    who: str,
    *,
    own: Iterable[str] = (),
    refuse: Refuse | None = None,
    passed_on: Callable[[], Collection[str]] = tuple,
) -> Callable[[F], F]:
    """Check the keywords of each call of this function before it runs. `who` is its name in errors.

    The function checks the types of its `own` options itself, with a better text. `refuse` is called first for unknown
    names. It may raise a better error. `passed_on` returns further names, which a driver takes: they are allowed, but
    not listed. Raises `Misuse`. For a value of the wrong type that is a `PolicyError`.
    """

    def decorate(function: Any) -> Any:
        options = _Options(who, function, frozenset(own), refuse, passed_on)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def checked_later(*args: Any, **kwargs: Any) -> Any:
                __tracebackhide__ = True
                if kwargs:
                    options.check(kwargs)
                return await function(*args, **kwargs)

            return checked_later

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if kwargs:
                options.check(kwargs)
            return function(*args, **kwargs)

        return checked

    return decorate


def options_of(who: str, *, own: Iterable[str] = (), refuse: Refuse | None = None) -> Callable[[C], C]:
    """The same for a class whose `__init__` is generated."""

    def decorate(made: C) -> C:
        made.__init__ = takes_options(who, own=own, refuse=refuse)(made.__init__)  # type: ignore[misc]
        return made

    return decorate


class _OptionKind(NamedTuple):
    """What an option accepts. `words`: how an error describes it."""

    accepts: Callable[[Any], bool]
    words: str


class _Options:
    """The options of one function. Annotations are read at the first call, because they may name later definitions."""

    def __init__(
        self,
        who: str,
        function: Any,
        own: frozenset[str],
        refuse: Refuse | None,
        passed_on: Callable[[], Collection[str]],
    ) -> None:
        self._who = who
        self._function = function
        self._own = own
        self._refuse = refuse
        self._passed_on = passed_on

    @functools.cached_property
    def _known(self) -> dict[str, _OptionKind | None] | None:
        """None for a function that takes any name."""
        found: dict[str, Any] = {}
        names = _Names(self._function.__module__)
        for parameter in inspect.signature(self._function).parameters.values():
            if parameter.kind in _NAMED:
                found[parameter.name] = names.read(parameter.annotation)
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                packed = names.read(parameter.annotation)
                if get_origin(packed) is not Unpack:
                    return None
                (options,) = get_args(packed)
                found |= {name: names.read(hint) for name, hint in options.__annotations__.items()}
        found.pop("self", None)
        own = found if self._own == {ALL} else self._own
        return {name: None if name in own else _kind(hint) for name, hint in found.items()}

    @functools.cached_property
    def _listed(self) -> list[str]:
        """The options that an error lists: not what everybody gives without a name, unless there is nothing else."""
        given = {
            name
            for name, parameter in inspect.signature(self._function).parameters.items()
            if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            and parameter.default is parameter.empty
        }
        known = [*(self._known or ())]
        return [name for name in known if name not in given] or known

    def check(self, given: Mapping[str, Any]) -> None:
        known = self._known
        if known is None:
            return
        if not given.keys() <= known.keys():
            if self._refuse is not None:
                self._refuse({name: given[name] for name in given if name not in known}, known)
            refuse_others(self._who, given, self._listed, also={*known, *self._passed_on()})
        for name, value in given.items():
            kind = known.get(name)
            if kind is not None and not kind.accepts(value):
                raise PolicyError(name, value, f"{self._who} takes {kind.words}{_cure(name, value, kind)}")


def _cure(name: str, value: object, kind: _OptionKind) -> str:
    called = getattr(value, "__name__", None)
    if called is not None and kind.words.startswith("a tuple"):
        return f": write {name}=({called},)"
    if kind.words.startswith("a tuple") and not isinstance(value, _DATA):
        return f": write {name}=[{type(value).__name__}(...)]"
    return ""


class _Names(dict[str, Any]):
    """The names in annotations of one module. A name that only type checkers import accepts anything."""

    def __init__(self, module: str) -> None:
        super().__init__(vars(sys.modules[module]))

    def __missing__(self, name: str) -> Any:
        import builtins

        return getattr(builtins, name, Any)

    def read(self, annotation: Any) -> Any:
        """The type that an annotation means. Anything, if it cannot be read."""
        if isinstance(annotation, ForwardRef):
            module = annotation.__forward_module__
            names = self if module is None else _Names(getattr(module, "__name__", module))
            return names.read(annotation.__forward_arg__)
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, {}, self)
        except Exception:
            return Any


_PLAIN: dict[Any, _OptionKind] = {
    bool: _OptionKind(lambda value: isinstance(value, bool), "True or False"),
    int: _OptionKind(lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    float: _OptionKind(
        lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number"
    ),
    str: _OptionKind(lambda value: isinstance(value, str), "a text"),
    bytes: _OptionKind(lambda value: isinstance(value, bytes), "bytes"),
    types.NoneType: _OptionKind(lambda value: value is None, "None"),
    None: _OptionKind(lambda value: value is None, "None"),
}
_SECONDS = _OptionKind(
    lambda value: isinstance(value, int | float | str | timedelta) and not isinstance(value, bool),
    'a duration: seconds, a text such as "10m", or a timedelta',
)
_CALLABLES: frozenset[Any] = frozenset({collections.abc.Callable})
_FUNCTION = _OptionKind(callable, "a function")
_MAPPING = _OptionKind(lambda value: isinstance(value, Mapping), "a dictionary")
_SEVERAL = _OptionKind(lambda value: isinstance(value, Iterable), "a tuple")


def _kind(hint: Any) -> _OptionKind | None:
    """None: anything is accepted, or the annotation does not show it."""
    if isinstance(hint, TypeVar):
        return _one_of(hint.__constraints__) if hint.__constraints__ else _kind(hint.__bound__ or object)
    if hint is None or (isinstance(hint, type) and hint in _PLAIN):
        return _PLAIN[hint]
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(hint))
    if origin is Literal:
        allowed = get_args(hint)
        return _OptionKind(lambda value: value in allowed, " or ".join(map(repr, allowed)))
    base = origin or hint
    if not isinstance(base, type) or base in (object, Any):
        return None
    if base in _CALLABLES or (_is_protocol(base) and "__call__" in vars(base)):
        return _FUNCTION
    if issubclass(base, Mapping):
        return _MAPPING
    if issubclass(base, Iterable) and base.__module__ in ("collections.abc", "builtins"):
        return _SEVERAL
    words = f"a {base.__name__}"
    if _is_protocol(base):
        return _OptionKind(lambda value: not isinstance(value, _DATA), words)
    # An object that only behaves like it, for example in a test, is accepted.
    return _OptionKind(lambda value: isinstance(value, base) or not isinstance(value, _DATA), words)


def _one_of(hints: tuple[Any, ...]) -> _OptionKind | None:
    kinds = [_kind(hint) for hint in hints]
    if set(hints) >= _DURATION:
        kinds = [_SECONDS, *(_kind(hint) for hint in hints if hint not in _DURATION)]
    found = [kind for kind in kinds if kind is not None]
    if len(found) < len(kinds):
        return None
    return _OptionKind(
        lambda value: any(kind.accepts(value) for kind in found), ", or ".join(kind.words for kind in found)
    )


def _is_protocol(base: Any) -> bool:
    return bool(getattr(base, "_is_protocol", False))
