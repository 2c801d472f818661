"""Whom an invalidation means: the arguments as they are declared, and as they may have been given instead.

A call's key is made of its arguments as they are: `load(7)` and `load("7")` are two calls, and each gets what was
computed for it. Whoever invalidates means both. So the arguments are first read as the annotations say
(`stampede_guard.keys.fitting`), and then the entries of all calls are addressed that may have been made with them.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import itertools
import pathlib
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from stampede_guard.annotations import alternatives
from stampede_guard.errors import KeyPartError
from stampede_guard.keys.captured import IMMUTABLE, Copying
from stampede_guard.keys.fitting import Fitter, Misfit, fitter_of
from stampede_guard.keys.numbers import to_places

__all__ = ["Arguments", "Fitted"]

_MOST_VARIANTS = 64
_MOST_KINDS = 8
_MOST_ZONES = 24
_COLLECTIONS = (list, tuple, set, frozenset, dict)
_WITHOUT_MOMENTS = (
    int, float, complex, str, bytes, types.NoneType, uuid.UUID, decimal.Decimal, enum.Enum, datetime.time,
    datetime.timedelta, pathlib.PurePath,
)  # fmt: skip
_Parameter = inspect.Parameter
_BY_POSITION = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Fitted:
    """Of one function. A default is taken as it is, whatever the annotation says."""

    __slots__ = (
        "_annotations",
        "_defaults",
        "_fitters",
        "_given",
        "_name",
        "_places",
        "_positions",
        "_rest",
        "_rest_named",
        "_with_moments",
        "_zones",
    )

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, inspect.Parameter],
        keyed: Sequence[str],
        hints: Mapping[str, Any],
    ) -> None:
        self._name = name
        self._annotations = hints
        self._defaults = {name: parameter.default for name, parameter in parameters.items()}
        self._positions = [name for name, parameter in parameters.items() if parameter.kind in _BY_POSITION]
        kinds = {parameter.kind: name for name, parameter in parameters.items()}
        self._rest = kinds.get(_Parameter.VAR_POSITIONAL, "")
        self._rest_named = kinds.get(_Parameter.VAR_KEYWORD, "")
        self._given: dict[str, set[type]] = {}
        self._zones: dict[str, dict[str, datetime.tzinfo]] = {}
        self._places: dict[str, set[int]] = {}
        self._fitters: dict[str, Fitter] = {}
        self._with_moments = {
            each for each in keyed if each not in ("self", "cls") and _may_hold_moments(hints.get(each, Any))
        }
        for each in keyed:
            fitter = fitter_of(hints[each]) if each in hints else None
            if fitter is not None:
                self._fitters[each] = fitter

    def names(self, args: tuple[Any, ...]) -> list[str]:
        """The parameters that positional arguments are for."""
        return [*self._positions[: len(args)], *([self._rest] * (len(args) - len(self._positions)))]

    def named(self, key: str) -> str:
        return key if key in self._defaults and key != self._rest else self._rest_named

    def redeclare(self, name: str, annotation: Any) -> None:
        """A parameter is given something else here than the function declares: one of the many ids."""
        self._fitters.pop(name, None)
        self._annotations = {**self._annotations, name: annotation}
        self._with_moments.discard(name)
        if _may_hold_moments(annotation):
            self._with_moments.add(name)
        fitter = fitter_of(annotation)
        if fitter is not None:
            self._fitters[name] = fitter

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call was computed with these: of what kinds are those that are not as declared?"""
        if not self._fitters and not self._with_moments:
            return
        given = [*zip(self.names(args), args, strict=True)]
        given += [(self.named(key), value) for key, value in kwargs.items()]
        for name, value in given:
            if name in self._with_moments:
                for zone in _zones_in(value):
                    self._note_zone(name, zone)
            if isinstance(value, decimal.Decimal) and value.is_finite():
                places = self._places.setdefault(name, set())
                if len(places) < _MOST_KINDS:
                    places.add(int(value.as_tuple().exponent))
            fitter = self._fitters.get(name)
            if fitter is None:
                continue
            if type(value) not in fitter.exact:
                kinds = self._given.setdefault(name, set())
                if len(kinds) < _MOST_KINDS:
                    kinds.add(type(value))

    def _note_zone(self, name: str, zone: datetime.tzinfo) -> None:
        zones = self._zones.setdefault(name, {})
        zones.pop(str(zone), None)
        zones[str(zone)] = zone
        if len(zones) > _MOST_ZONES:
            del zones[next(iter(zones))]

    def declared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """All of them as they are declared. Raises `KeyPartError` for what cannot be read as that."""
        names = self.names(args)
        own = tuple([self._fit(name, value) for name, value in zip(names, args, strict=True)])
        return own, {key: self._fit(self.named(key), value) for key, value in kwargs.items()}

    def addressed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Arguments]:
        """The declared arguments first, then those given, then equal ones of other types. Raises as `declared`."""
        if not self._fitters and not self._with_moments:
            return [(args, kwargs)]
        choices = [self._choices(name, value) for name, value in zip(self.names(args), args, strict=True)]
        choices += [self._choices(self.named(key), value) for key, value in kwargs.items()]
        given = len(args)
        return [
            (combination[:given], dict(zip(kwargs, combination[given:], strict=True)))
            for combination in itertools.islice(itertools.product(*choices), _MOST_VARIANTS)
        ]

    def _choices(self, name: str, value: Any) -> list[Any]:
        fitted = self._fit(name, value)
        fitter = self._fitters.get(name)
        found = [fitted] if fitted is value else [fitted, value]
        if fitter is not None:
            found += fitter.loosely(fitted)
        for kind in self._given.get(name, ()):
            found += _as_given(kind, fitted)
        if name in self._places and type(fitted) in (int, decimal.Decimal):
            written = [to_places(decimal.Decimal(fitted), exponent) for exponent in self._places[name]]
            found += [each for each in written if each is not None]
        if name in self._with_moments and _zones_in(fitted):
            zones = (datetime.UTC, *self._zones.get(name, {}).values())
            found += [_in_zone(fitted, zone) for zone in zones]
        return found

    def _fit(self, name: str, value: Any) -> Any:
        fitter = self._fitters.get(name)
        if fitter is None or type(value) in fitter.exact or value is self._defaults.get(name):
            return value
        try:
            return fitter.fit(value)
        except Misfit:
            raise self._misfit(name, value) from None

    def _misfit(self, name: str, value: Any) -> KeyPartError:
        declared = inspect.formatannotation(self._annotations[name])
        kind = type(value).__qualname__
        return KeyPartError(
            f"{name!r} of {self._name}() is declared as {declared}, and was given a {kind} that is none and cannot be "
            f"read as one: calls that obey the declaration have another entry, so this would reach nothing. Give what "
            f"is declared, or declare what you give.",
            parameter=name,
        )


def _as_given(kind: type, value: Any) -> list[Any]:
    """A declared value as a caller gave it that had another type for it: as text, as a number, as a list."""
    if kind is type(value):
        return []
    if kind is str:
        plain = value.value if isinstance(value, enum.Enum) else value
        texts = [str(plain)]
        if isinstance(plain, float) and plain.is_integer():
            texts.append(str(int(plain)))
        if isinstance(plain, uuid.UUID):
            texts.append(plain.hex)
        elif isinstance(plain, datetime.datetime | datetime.date | datetime.time):
            texts.append(plain.isoformat())
        return texts
    if isinstance(value, enum.Enum):
        value = value.value
        if type(value) is kind:
            return [value]
    try:
        made = kind(value)
        return [made] if bool(made == value) or isinstance(value, list | tuple | set | frozenset) else []
    except Exception:  # a class of the caller's may raise anything
        return []


class _Moments(Copying):
    """The zones of all moments in a value, however deep; or a copy with the moments in another zone."""

    def __init__(self, zone: datetime.tzinfo | None = None) -> None:
        # A service with all it holds is not for looking through: only collections and records are.
        super().__init__(objects=False)
        self.zones: list[datetime.tzinfo] = []
        self._zone = zone

    def of(self, value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            if value.tzinfo is None:
                return value
            self.zones.append(value.tzinfo)
            return value if self._zone is None else value.astimezone(self._zone)
        return super().of(value)


def _zones_in(value: Any) -> list[datetime.tzinfo]:
    if type(value) in IMMUTABLE and type(value) is not datetime.datetime:
        return []
    looking = _Moments()
    looking.of(value)
    return looking.zones


def _in_zone(value: Any, zone: datetime.tzinfo) -> Any:
    return _Moments(zone).of(value)


def _may_hold_moments(annotation: Any) -> bool:
    """Whether it is worth looking for them in values: not in ten thousand numbers."""
    return any(
        not isinstance(kind, type) or not issubclass(kind, _WITHOUT_MOMENTS)
        for kind in alternatives(annotation)
        if kind is not None and kind not in _COLLECTIONS and typing.get_origin(kind) is None
    )
