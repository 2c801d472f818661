"""Codecs: a result as bytes and back, so that a hit has the same type as a miss.

The return annotation chooses the codec. Without one, Python's own types and records are stored exactly, and any other
type is an error that names it. With one, a value is stored only if decoding the bytes gives back what is declared of
the returned value. Every caller, including the one that computed, gets the declared type.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from typing import Any, Protocol

from stampede_guard.errors import UnsupportedValue
from stampede_guard.values.annotations import resolve
from stampede_guard.values.codec.immutable import is_immutable
from stampede_guard.values.codec.shapes import Shape, Undescribed, shape_of
from stampede_guard.values.codec.stamped import Stamped, stamp_of
from stampede_guard.values.codec.tables import table_of
from stampede_guard.values.codec.typed import MsgspecCodec, PickleCodec, PydanticCodec
from stampede_guard.values.codec.unannotated import BuiltinCodec
from stampede_guard.values.filtering.routed import ResponseModels, Routed
from stampede_guard.values.keys.codeversion import AUTO
from stampede_guard.values.keys.naming import full_name

__all__ = ["Codec", "codec_for", "encoded", "function_codec", "is_immutable", "return_annotation", "settled"]

_FORMAT = "1"  # of the stored bytes; a new one gives all entries new keys


class Codec(Protocol):
    """How the results of one function are stored.

    `fingerprint` changes with the shape of the type. `shareable` is False if no value of the type is immutable.
    Otherwise `is_immutable(value)` decides whether callers may share the object.
    """

    fingerprint: str
    shareable: bool | None

    def encode(self, value: Any) -> bytes:
        """The bytes to store. Raises `UnsupportedValue`."""
        ...

    def decode(self, data: bytes) -> Any:
        """A new value. Raises `Undecodable` for damaged bytes, and nothing else."""
        ...


def return_annotation(function: Callable[..., Any]) -> Any:
    """The return annotation of a function, evaluated; `Any` without one."""
    return resolve(function).get("return", Any)


def function_codec(
    function: Callable[..., Any],
    annotation: Any,
    name: str | None,
    version: str | int,
    *,
    pickle: bool,
    models: ResponseModels | None = None,
) -> Codec:
    """The codec of a decorated function, from its return annotation and options. Raises `UnsupportedValue`.

    `models` gives the response models of its routes.
    """
    if version == AUTO:
        # Other code has other entries, so values need no stamp of it.
        return codec_for(annotation, pickle=pickle, models=models)
    title = name or full_name(function)
    return codec_for(annotation, pickle=pickle, function=function, title=title, models=models)


def encoded(codec: Codec, value: Any) -> bytes:
    """The bytes to store. Raises `UnsupportedValue`, also where code of a class in the value raises something else."""
    try:
        return codec.encode(value)
    except UnsupportedValue:
        raise
    except Exception as error:
        raise UnsupportedValue(
            f"the function returned a {type(value).__name__} that cannot be stored: reading it raised "
            f"{type(error).__name__}"
        ) from error


def settled(codec: Any, value: Any) -> Any:
    """What may leave the place where its data is open: an ORM row becomes the declared model."""
    while codec is not None:
        if hasattr(codec, "settled"):
            return codec.settled(value)
        codec = getattr(codec, "inner", None)
    return value


def codec_for(
    annotation: Any,
    *,
    pickle: bool = False,
    function: Callable[..., Any] | None = None,
    title: str = "",
    models: ResponseModels | None = None,
) -> Codec:
    """The codec for a return annotation (`Any` for none). Raises `UnsupportedValue` for a type that cannot be stored.

    With `models`, a class without declared fields is no error here if the program uses FastAPI: the response model of
    a route may describe its values.

    `pickle=True` stores anything that pickles, for types that nothing else can hold. `function`, with its `title`:
    values carry a stamp of its code where the annotation leaves their shape open; see `values.codec.stamped`.
    """
    if not pickle and (table := table_of(annotation)) is not None:
        return table
    undescribed = ""
    try:
        shape = shape_of(annotation, lenient=pickle)
    except Undescribed as error:
        if models is None or "fastapi" not in sys.modules:
            raise
        # A route's response model may describe what the annotation does not: FastAPI then ignores the annotation.
        undescribed, annotation, shape = str(error), Any, shape_of(Any)
    codec = _codec_of(shape, annotation, pickle=pickle)
    if models is not None and not pickle:
        codec = Routed(codec, annotation, models, undescribed=undescribed)
    stamp = stamp_of(function) if function is not None and shape.open else b""
    return Stamped(codec, stamp, title) if stamp else codec


def _codec_of(shape: Shape, annotation: Any, *, pickle: bool) -> Codec:
    fingerprint = _fingerprint(shape, "pickle" if pickle else "")
    if pickle:
        return PickleCodec(fingerprint)
    if shape.text == "Any":
        return BuiltinCodec(fingerprint)
    if shape.pydantic:
        return _made(PydanticCodec, annotation, shape, fingerprint)
    try:
        return _made(MsgspecCodec, annotation, shape, fingerprint)
    except UnsupportedValue as error:
        # pydantic may distinguish the members of a union that msgspec cannot, if the program uses it
        if isinstance(error.__cause__, KeyError):
            _import_pydantic(error.__cause__)
        elif "pydantic" not in sys.modules:
            raise
        return _made(PydanticCodec, annotation, shape, fingerprint)


def _import_pydantic(error: KeyError) -> None:
    """msgspec needs a type for each field of a dataclass. A field resolver of Strawberry is a field without one."""
    try:
        importlib.import_module("pydantic")
    except ImportError:
        raise UnsupportedValue(
            f"the return annotation holds a dataclass whose field {error} has no type, for example a field resolver of "
            "Strawberry: install pydantic, which can store it, or return a dataclass without such fields"
        ) from None


def _made(kind: Callable[[Any, Shape, str], Codec], annotation: Any, shape: Shape, fingerprint: str) -> Codec:
    try:
        return kind(annotation, shape, fingerprint)
    except Exception as error:
        raise UnsupportedValue(f"the return annotation {annotation} cannot be stored: {error}") from error


def _fingerprint(shape: Shape, way: str) -> str:
    return hashlib.blake2b(f"{_FORMAT}\n{way}\n{shape.text}".encode(), digest_size=8).hexdigest()
