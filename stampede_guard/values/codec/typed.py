"""Codecs for declared types. An encoding is used only after decoding it has given the same value back."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import msgpack

from stampede_guard.errors import Undecodable, UnsupportedValue
from stampede_guard.values.annotations import root_package
from stampede_guard.values.codec.builtin import EXACT_TYPES, dumps, lift, loads
from stampede_guard.values.codec.compressed import unpacked
from stampede_guard.values.codec.likeness import alike, difference, shown_difference
from stampede_guard.values.codec.records import NAMED, Records
from stampede_guard.values.codec.shapes import TEXTUAL, Shape
from stampede_guard.values.filtering.filter import Filter, Filtered
from stampede_guard.values.filtering.narrowing import Foreign, narrowed

__all__ = ["MsgspecCodec", "PickleCodec", "PydanticCodec"]

_Attempt = Callable[[Any], bytes]

_NO_VALIDATION = ("serialization", "metadata", "computed_fields", "function")


def _from_text(kind: Any, value: Any) -> Any:
    if kind is object:
        return value
    if issubclass(kind, TEXTUAL) and isinstance(value, kind | str):
        return kind(value)
    raise NotImplementedError(kind)


def _to_text(value: Any) -> str:
    if isinstance(value, TEXTUAL):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no place in the declared type")


def _reason(error: BaseException) -> str:
    """Why an encoding failed, without the values: they may be secrets, and this text is logged."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, msgspec.ValidationError) and "'" not in str(error):
        return str(error)
    details = getattr(error, "errors", None)
    if callable(details):
        places = [".".join(map(str, detail["loc"])) + ": " + str(detail["type"]) for detail in details()]
        return f"{type(error).__name__} ({', '.join(places[:5])})"
    return type(error).__name__


def _private_of_attrs(classes: Iterable[type]) -> str | None:
    """An attribute of an attrs class that its encoding never holds."""
    for kind in classes:
        for attribute in getattr(kind, "__attrs_attrs__", ()):
            if attribute.name.startswith("_"):
                return f"{kind.__name__}.{attribute.name}"
    return None


class _Verified:
    """Tries encodings in order and uses the first that decodes to the same value."""

    def __init__(self, annotation: Any, shape: Shape, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.shareable = shape.immutable
        self._annotation = annotation
        self._quick = not (shape.records or shape.pydantic or "bytes" in shape.text)
        self._classes = shape.classes
        self._by_name = Records(shape.classes, is_open=shape.open)

    def encode(self, value: Any) -> bytes:
        """Raises `UnsupportedValue` if the value does not have the declared type, or would lose something."""
        why = _Why()
        for attempt in (*self._attempts(), self._named):
            data = self._tried(attempt, value, why)
            if data is not None:
                return data
        raise self._refusal(value, why)

    def decode(self, data: bytes) -> Any:
        raise NotImplementedError

    def _attempts(self) -> Iterator[_Attempt]:
        raise NotImplementedError

    def _tried(self, attempt: _Attempt, value: Any, why: _Why) -> bytes | None:
        """The bytes, if they decode to the same value."""
        try:
            data = attempt(value)
            back = self.decode(data)
            found = None if self._quick and alike(value, back) else difference(value, back)
        except UnsupportedValue as error:
            if why.lost is None:
                why.refused = why.refused or str(error)
        except Exception as error:
            why.failed = why.failed or _reason(error)
        else:
            if found is None:
                return data
            why.lost = found
        return None

    def _refusal(self, value: Any, why: _Why) -> UnsupportedValue:
        name = getattr(self._annotation, "__name__", None) or str(self._annotation)
        if private := _private_of_attrs(self._classes):
            return UnsupportedValue(
                f"the {name} of the annotation cannot be stored: msgspec leaves out {private}, because its name begins "
                "with an underscore. Rename the attribute, or make the class a dataclass"
            )
        return UnsupportedValue(
            f"the function returned a {type(value).__name__} that cannot be stored as the {name} of its annotation: "
            f"{why.refused or why.lost or why.failed}. Return exactly what is declared, or change the annotation."
        )

    def _named(self, value: Any) -> bytes:
        return NAMED + self._by_name.dumps(value)

    def _from_names(self, data: bytes) -> Any:
        try:
            value = self._by_name.loads(data[1:])
            # No validator runs here, so the types are checked.
            if narrowed(self._annotation, value) is not value:
                raise Foreign(value)
            return value
        except Exception as error:
            raise Undecodable(f"stored bytes are not a {self._annotation}: {type(error).__name__}") from error


@dataclass
class _Why:
    """Why encodings were not used. The texts hold no values."""

    refused: str | None = None
    lost: str | None = None
    failed: str | None = None


class MsgspecCodec(_Verified):
    """Builtins, dataclasses, TypedDicts, NamedTuples, enums and structs, by msgspec. Raises msgspec's TypeErrors."""

    def __init__(self, annotation: Any, shape: Shape, fingerprint: str) -> None:
        super().__init__(annotation, shape, fingerprint)
        self._records = shape.records
        # Any and time zones need the exact form. If everything else is JSON-like, one typed decoder reads it at
        # once
        self._exact = shape.open or shape.zoned
        self._at_once = not self._exact or not (shape.zoned or shape.exotic)
        self._read: Callable[[bytes], Any] = msgpack.Decoder(
            annotation, ext_hook=lift, dec_hook=_from_text
        ).decode

    def decode(self, data: bytes) -> Any:
        """Raises `Undecodable`."""
        if self._at_once:
            try:
                return self._read(data)
            except Exception:  # try the exact form next, if this one loses something
                pass
        if data[:1] == NAMED:
            return self._from_names(data)
        try:
            return self._convert(loads(data))
        except Exception as error:
            if (body := unpacked(data)) is not None:
                return self.decode(body)
            raise Undecodable(f"stored bytes are not a {self._annotation}: {type(error).__name__}") from error

    def _convert(self, value: Any) -> Any:
        return msgspec.convert(value, self._annotation, builtin_types=EXACT_TYPES, dec_hook=_from_text)

    def _attempts(self) -> Iterator[_Attempt]:
        if not self._exact:
            yield lambda value: msgpack.encode(value, enc_hook=_to_text)
        yield lambda value: dumps(self._plain(value))
        yield lambda value: dumps(self._plain(self._convert(value)))

    def _plain(self, value: Any) -> Any:
        if not self._records:
            return value
        return msgspec.to_builtins(value, builtin_types=EXACT_TYPES, enc_hook=_to_text)


class PydanticCodec(_Verified):
    """Types that contain a pydantic model. Only declared parts of a value are stored: see `values.filtering.filter`.

    The bytes are pydantic's own JSON, or exact builtins if JSON loses something. Both run the model's validators when a
    value is read. If a model has validators of its own, or one of these forms loses something, the fields are stored
    under the names of their classes, and no validator runs: see `values.codec.records`.
    """

    def __init__(self, annotation: Any, shape: Shape, fingerprint: str) -> None:
        super().__init__(annotation, shape, fingerprint)
        from pydantic import TypeAdapter

        self._filter = Filter(annotation)
        self._adapter: Any = self._filter.adapter
        self._only_set = not shape.computed_defaults
        self._validates = runs_own_code(getattr(self._adapter, "core_schema", None))
        # by name, so that aliases may differ between reading and writing (pydantic 2.11 and later)
        by_name = "by_name" in inspect.signature(TypeAdapter.validate_json).parameters
        self._names: dict[str, bool] = {"by_alias": False, "by_name": True} if by_name else {}
        self._by_alias = not by_name

    def encode(self, value: Any) -> bytes:
        """Raises `UnsupportedValue` if the value does not have the declared type, or would lose a declared part."""
        why = _Why()
        filtered = self._filter.of(value)
        for candidate in filtered.candidates():
            for attempt in self._attempts():
                data = self._tried(attempt, candidate, why)
                if data is not None and (candidate is value or filtered.gives(self.decode(data))):
                    return data
            data = self._without_hidden(candidate, filtered, why)
            if data is not None:
                return data
        if filtered.error is not None:
            why.failed = why.failed or _reason(filtered.error)
        raise self._refusal(value, why)

    def settled(self, value: Any) -> Any:
        return self._filter.of(value).settled()

    def _without_hidden(self, value: Any, filtered: Filtered, why: _Why) -> bytes | None:
        """The bytes of the fields that pydantic shows, if the answer to a client does not need the others."""
        try:
            data = self._named(value)
            back = self.decode(data)
            found = shown_difference(value, back)
        except UnsupportedValue as error:
            why.refused = why.refused or str(error)
            return None
        except Exception as error:
            if isinstance(cause := error.__cause__, Foreign):  # assigned after the model was validated
                kind = type(cause.part).__name__
                why.lost = why.lost or f"it holds a {kind} in a place that is declared otherwise"
            why.failed = why.failed or _reason(error)
            return None
        if found is None and filtered.gives(back):
            return data
        why.lost = found or "what is declared depends on what is not stored, such as an excluded field"
        return None

    def decode(self, data: bytes) -> Any:
        """Raises `Undecodable`."""
        if data[:1] == NAMED:
            return self._from_names(data)
        try:
            return self._adapter.validate_json(data, **self._names)
        except Exception:  # try the exact form next
            pass
        try:
            return self._adapter.validate_python(loads(data), **self._names)
        except Exception as error:
            if (body := unpacked(data)) is not None:
                return self.decode(body)
            raise Undecodable(f"stored bytes are not a {self._annotation}: {type(error).__name__}") from error

    def _attempts(self) -> Iterator[_Attempt]:
        if self._validates:
            yield self._named
        for write in (self._json, self._python):
            for only_set in (True, False) if self._only_set else (False,):
                yield functools.partial(self._write, write, only_set)
        if not self._validates:
            yield self._named

    def _write(self, write: Callable[[Any, dict[str, Any]], bytes], only_set: bool, value: Any) -> bytes:
        options = {
            "by_alias": self._by_alias,
            "exclude_unset": only_set,
            "round_trip": True,
            "warnings": "error",
        }
        return write(value, options)

    def _json(self, value: Any, options: dict[str, Any]) -> bytes:
        data: bytes = self._adapter.dump_json(value, **options)
        return data

    def _python(self, value: Any, options: dict[str, Any]) -> bytes:
        plain = self._adapter.dump_python(value, **options)
        try:
            return dumps(plain)
        except UnsupportedValue:  # enums, paths and the like: pydantic reads them back from their plain form
            return dumps(msgspec.to_builtins(plain, builtin_types=EXACT_TYPES, enc_hook=_to_text))


def runs_own_code(schema: Any) -> bool:
    """Whether the application's code takes part when pydantic validates: validators, or an `__init__`."""
    if isinstance(schema, list | tuple):
        return any(map(runs_own_code, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("custom_init"):
        return True
    if str(schema.get("type", "")).startswith("function-"):
        called = (schema.get("function") or {}).get("function")
        if called is not None and root_package(called) not in ("pydantic", "pydantic_core"):
            return True
    return any(runs_own_code(inner) for name, inner in schema.items() if name not in _NO_VALIDATION)


class PickleCodec:
    """Anything that pickles. Anyone who can write to the store can then run code in every process that reads it."""

    shareable: bool | None = None

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def encode(self, value: Any) -> bytes:
        """Raises `UnsupportedValue`."""
        try:
            return pickle.dumps(value, protocol=5)
        except Exception as error:
            raise UnsupportedValue(f"a {type(value).__name__} cannot be pickled: {error}") from error

    def decode(self, data: bytes) -> Any:
        """Raises `Undecodable`."""
        try:
            return pickle.loads(data)  # the user asked for pickle by name
        except Exception as error:
            if (body := unpacked(data)) is not None:
                return self.decode(body)
            raise Undecodable(f"stored bytes cannot be unpickled: {type(error).__name__}") from error
