"""The entries that an invalidation addresses: of the declared arguments, and of other forms that callers may use.

A call's key is built from its arguments as they are: `load(7)` and `load("7")` are two calls with two entries. A
caller that invalidates means both. So the arguments are first converted to the declared types
(`stampede_guard.values.arguments.fitting`). Then the entries of all calls that may have been made with them are
addressed.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import inspect
import itertools
import math
import pathlib
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from stampede_guard.errors import KeyPartError
from stampede_guard.values.annotations import alternatives
from stampede_guard.values.arguments.binding import OURS
from stampede_guard.values.arguments.captured import IMMUTABLE, Copying
from stampede_guard.values.arguments.fitting import Fitter, Misfit, fitter_of
from stampede_guard.values.arguments.numbers import to_places
from stampede_guard.values.parts.parts import Unkeyable, text_of

__all__ = ["MOST_VARIANTS", "Arguments", "Fitted"]

MOST_VARIANTS = 1024
"""Entries that one invalidation addresses. With more, it would return before it had reached all of them."""
_MOST_KINDS = 16
_MOST_ZONES = 512
_MOST_PAIRS = 1024
"""Pairs of a declared value and another form of it, with which a call was computed."""
_WRITTEN_IN_MANY_WAYS = frozenset({datetime.datetime, decimal.Decimal})
"""The same moment has a key for each zone, and the same number has one for each count of places."""
_COLLECTIONS = (list, tuple, set, frozenset, dict)
_WITHOUT_MOMENTS = (
    int, float, complex, str, bytes, types.NoneType, uuid.UUID, decimal.Decimal, enum.Enum, datetime.time,
    datetime.timedelta, pathlib.PurePath,
)  # fmt: skip
_Parameter = inspect.Parameter
_BY_POSITION = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (_Parameter.POSITIONAL_OR_KEYWORD, _Parameter.KEYWORD_ONLY)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Fitted:
    """For one function. A default is used as it is, whatever the annotation."""

    __slots__ = (
        "_annotations",
        "_by_name",
        "_defaults",
        "_exactly",
        "_fitters",
        "_forgotten",
        "_given",
        "_latest",
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
        self._by_name = {name for name, parameter in parameters.items() if parameter.kind in _BY_NAME}
        kinds = {parameter.kind: name for name, parameter in parameters.items()}
        self._rest = kinds.get(_Parameter.VAR_POSITIONAL, "")
        self._rest_named = kinds.get(_Parameter.VAR_KEYWORD, "")
        self._given: dict[str, set[type]] = {}
        self._zones: dict[str, dict[str, datetime.tzinfo]] = {}
        self._places: dict[str, set[int]] = {}
        self._exactly: dict[str, dict[str, dict[str, Any]]] = {}
        self._forgotten: set[str] = set()
        self._latest: dict[str, datetime.tzinfo] = {}
        self._fitters: dict[str, Fitter] = {}
        self._with_moments = {
            each for each in keyed if each not in ("self", "cls") and _may_hold_moments(hints.get(each, Any))
        }
        for each in keyed:
            fitter = fitter_of(hints[each]) if each in hints else None
            if fitter is not None:
                self._fitters[each] = fitter

    @property
    def parameters(self) -> list[str]:
        """All that a call may give."""
        return [name for name in self._defaults if not name.startswith(OURS)]

    def names(self, args: tuple[Any, ...]) -> list[str]:
        """The parameters that positional arguments fill."""
        return [*self._positions[: len(args)], *([self._rest] * (len(args) - len(self._positions)))]

    def named(self, key: str) -> str:
        """The parameter that a keyword fills. A positional-only one may have the name of another argument."""
        return key if key in self._by_name else self._rest_named

    def redeclare(self, name: str, annotation: Any) -> None:
        """Here a parameter gets another type than the function declares: one of the many ids."""
        self._fitters.pop(name, None)
        self._annotations = {**self._annotations, name: annotation}
        self._with_moments.discard(name)
        if _may_hold_moments(annotation):
            self._with_moments.add(name)
        fitter = fitter_of(annotation)
        if fitter is not None:
            self._fitters[name] = fitter

    def as_declared(self, name: str) -> frozenset[type] | None:
        """A call tells `note_value` of all arguments that are of none of these classes; None: of no argument.

        A process that finds an entry in the store computes nothing, and may be the one that invalidates it.
        """
        fitter = self._fitters.get(name)
        if fitter is None:
            return IMMUTABLE - _WRITTEN_IN_MANY_WAYS if name in self._with_moments else None
        return fitter.exact - _WRITTEN_IN_MANY_WAYS if fitter.exact else None

    def note_value(self, name: str, value: Any) -> None:
        """A key was made of it. Quick, because hits pay for it."""
        kind = type(value)
        fitter = self._fitters.get(name)
        if fitter is not None and kind not in fitter.exact:
            self._remember(name, self._given.setdefault(name, set()), kind)
        if isinstance(value, datetime.datetime):
            zone = value.tzinfo
            if zone is not None and zone is not self._latest.get(name) and name in self._with_moments:
                self._note_zone(name, zone)
                self._latest[name] = zone
        elif isinstance(value, decimal.Decimal) and value.is_finite():
            exponent = int(value.as_tuple().exponent)
            self._remember(name, self._places.setdefault(name, set()), exponent)

    def _remember(self, name: str, known: set[Any], one: Any) -> None:
        if one not in known:
            if len(known) < _MOST_KINDS:
                known.add(one)
            else:
                self._forgotten.add(name)

    def _note_zone(self, name: str, zone: datetime.tzinfo) -> None:
        zones = self._zones.setdefault(name, {})
        if str(zone) not in zones:
            if len(zones) < _MOST_ZONES:
                zones[str(zone)] = zone
            else:
                self._forgotten.add(name)

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes the arguments of a computed call that were given in another form than declared."""
        if not self._fitters and not self._with_moments:
            return
        given = [*zip(self.names(args), args, strict=True)]
        given += [(self.named(key), value) for key, value in kwargs.items()]
        for name, value in given:
            fitter = self._fitters.get(name)
            if fitter is not None and name not in self._with_moments:
                kind = type(value)
                if kind in fitter.exact and kind not in _WRITTEN_IN_MANY_WAYS:
                    continue
            self.note_value(name, value)
            if name in self._with_moments:
                for zone in _zones_in(value):
                    self._note_zone(name, zone)
            if name in self._fitters:
                self._note_pair(name, value)

    def _note_pair(self, name: str, value: Any) -> None:
        """Notes this form of a declared value: text in capitals, a list with texts of numbers, a dict for a model."""
        with contextlib.suppress(Exception):  # a value that does not convert, or has no text
            fitted = self._fit(name, value)
            if fitted is value:
                return
            pairs = self._exactly.setdefault(name, {})
            ways = pairs.setdefault(text_of(fitted), {})
            if len(ways) < _MOST_KINDS:
                ways[text_of(value)] = _Moments().of(value)
            if len(pairs) > _MOST_PAIRS:
                del pairs[next(iter(pairs))]

    def declared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """All arguments, converted to the declared types. Raises `KeyPartError` if a conversion fails."""
        names = self.names(args)
        own = tuple([self._fit(name, value) for name, value in zip(names, args, strict=True)])
        return own, {key: self._fit(self.named(key), value) for key, value in kwargs.items()}

    def addressed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Arguments]:
        """First the declared arguments, then the given ones, then equal ones of other types. Raises like
        `declared`.
        """
        if not self._fitters and not self._with_moments:
            return [(args, kwargs)]
        choices = [self._choices(name, value) for name, value in zip(self.names(args), args, strict=True)]
        choices += [self._choices(self.named(key), value) for key, value in kwargs.items()]
        self._refuse_too_many([*self.names(args), *map(self.named, kwargs)], choices)
        given = len(args)
        return [
            (combination[:given], dict(zip(kwargs, combination[given:], strict=True)))
            for combination in itertools.product(*choices)
        ]

    def _refuse_too_many(self, names: list[str], choices: list[list[Any]]) -> None:
        """Raises `KeyPartError` where there may be more entries than can be addressed."""
        forgotten = self._forgotten.intersection(names)
        if not forgotten and math.prod(map(len, choices)) <= MOST_VARIANTS:
            return
        name = (
            next(iter(forgotten), None)
            or max(zip(names, choices, strict=True), key=lambda pair: len(pair[1]))[0]
        )
        raise KeyPartError(
            f"{name!r} of {self._name}() has been given in so many ways (types, time zones, decimal places) that not "
            "all entries of equal arguments can be addressed. Convert it before each call, for example to UTC",
            parameter=name,
        )

    def _choices(self, name: str, value: Any) -> list[Any]:
        fitted = self._fit(name, value)
        fitter = self._fitters.get(name)
        found = [fitted] if fitted is value else [fitted, value]
        if fitter is not None:
            found += fitter.loosely(fitted)
            if fitted is not value:
                found += fitter.loosely(value)
            found += self._exact_ways(name, fitted)
        for kind in tuple(self._given.get(name, ())):
            found += _as_given(kind, fitted)
        if name in self._places and type(fitted) in (int, decimal.Decimal):
            written = [to_places(decimal.Decimal(fitted), exponent) for exponent in self._places[name]]
            found += [each for each in written if each is not None]
        if name in self._with_moments and _zones_in(fitted):
            zones = (datetime.UTC, *tuple(self._zones.get(name, {}).values()))
            found += [_in_zone(each, zone) for each in tuple(found) if _zones_in(each) for zone in zones]
        return _each_once(found)

    def _exact_ways(self, name: str, fitted: Any) -> list[Any]:
        pairs = self._exactly.get(name)
        if not pairs:
            return []
        try:
            return list(pairs.get(text_of(fitted), {}).values())
        except Unkeyable:
            return []

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
    """The other forms in which a caller may have passed a declared value: as text, as a number, as a list."""
    if kind is type(value):
        return []
    if kind is str:
        plain = value.value if isinstance(value, enum.Enum) else value
        texts = [str(plain)]
        if isinstance(plain, float) and plain.is_integer():
            texts.append(str(int(plain)))
        if isinstance(plain, uuid.UUID):
            texts += [plain.hex, str(plain).upper()]
        elif isinstance(plain, datetime.datetime | datetime.date | datetime.time):
            texts.append(plain.isoformat())
        return texts
    if issubclass(kind, datetime.datetime) and isinstance(value, datetime.datetime):
        # Of Pendulum or pandas.
        with contextlib.suppress(Exception):
            parts = (
                value.year,
                value.month,
                value.day,
                value.hour,
                value.minute,
                value.second,
                value.microsecond,
            )
            return [kind(*parts, tzinfo=value.tzinfo, fold=value.fold)]
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
    """The zones of all moments in a value, at every depth; or a copy with the moments in another zone."""

    def __init__(self, zone: datetime.tzinfo | None = None) -> None:
        # Only collections and records are searched, not a service with all its attributes.
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


def _each_once(found: list[Any]) -> list[Any]:
    """The first is the declared value, and stays the first."""
    if len(found) == 1:
        return found
    kept: dict[Any, Any] = {}
    for each in found:
        try:
            kept.setdefault(text_of(each), each)
        except (Unkeyable, RecursionError):  # the key's error names the parameter
            kept.setdefault(id(each), each)
    return list(kept.values())


def _may_hold_moments(annotation: Any) -> bool:
    """Whether values may contain moments. A list of ten thousand numbers need not be searched."""
    return any(
        not isinstance(kind, type) or not issubclass(kind, _WITHOUT_MOMENTS)
        for kind in alternatives(annotation)
        if kind is not None and kind not in _COLLECTIONS and typing.get_origin(kind) is None
    )
