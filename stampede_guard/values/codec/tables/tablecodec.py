"""Codecs for NumPy arrays, pandas frames and series, and Arrow tables.

An array is stored in NumPy's own format, which keeps its type, shape and order. The others are stored as an Arrow IPC
stream (https://arrow.apache.org/docs/format/Columnar.html). Neither form can make code run, nor take much more memory
than it has bytes: see `arrowbounds`. Every caller gets an object of its own that it may change. The caller that
computed gets the decoded one, too.

A value that would come back changed is refused: an array of Python objects, a column of mixed types.
"""

from __future__ import annotations

import hashlib
import io
import math
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from stampede_guard.errors import Undecodable, UnsupportedValue
from stampede_guard.values.annotations import unwrap
from stampede_guard.values.codec.compressed import unpacked
from stampede_guard.values.codec.tables.arrowbounds import batches_of, refuse_unbounded_metadata, schema_of

__all__ = ["TableCodec", "table_of"]

_FORMAT = "2"  # of the stored bytes; a new one gives all entries new keys
_NONE = b"\x00"
_FREQ = b"stampede_guard.freq"


class _Kind(NamedTuple):
    """One class of these packages, how it becomes bytes, and how it comes back. Both may raise anything."""

    package: str
    names: tuple[str, ...]
    dump: Callable[[Any], bytes]
    load: Callable[[bytes], Any]


class TableCodec:
    """The codec of one such class, or of "that class or None"."""

    shareable: bool | None = False

    def __init__(self, kind: _Kind, cls: type, text: str, *, optional: bool) -> None:
        self.fingerprint = hashlib.blake2b(f"{_FORMAT}\ntable\n{text}".encode(), digest_size=8).hexdigest()
        self._kind, self._cls, self._optional = kind, cls, optional

    def encode(self, value: Any) -> bytes:
        """Raises `UnsupportedValue`."""
        if value is None and self._optional:
            return _NONE
        if type(value) is not self._cls:
            raise UnsupportedValue(
                f"the function returned a {type(value).__name__} and declares a {self._cls.__name__}: "
                "return exactly what is declared, or change the annotation"
            )
        try:
            return self._kind.dump(value)
        except UnsupportedValue:
            raise
        except Exception as error:  # its text may hold values of the table
            raise UnsupportedValue(
                f"a {self._cls.__name__} of this content cannot be stored ({type(error).__name__}): give each column "
                "one type that Arrow knows, without Python objects"
            ) from error

    def decode(self, data: bytes) -> Any:
        """A new object. Raises `Undecodable`."""
        if data == _NONE and self._optional:
            return None
        try:
            return self._kind.load(data)
        except Exception as error:
            if (body := unpacked(data)) is not None:
                return self.decode(body)
            raise Undecodable(
                f"stored bytes are not a {self._cls.__name__}: {type(error).__name__}"
            ) from error


def table_of(annotation: Any) -> TableCodec | None:
    """The codec of an annotation that is such a class, with or without None; None for all other annotations.

    Imports nothing: a program that names the class has imported its package.
    """
    annotation = unwrap(annotation)
    members = [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [unwrap(member) for member in typing.get_args(annotation)]
    classes = [member for member in members if member not in (None, types.NoneType)]
    if len(classes) != 1:
        return None
    cls = typing.get_origin(classes[0]) or classes[0]
    if not isinstance(cls, type):
        return None
    package = cls.__module__.partition(".")[0]
    for kind in _KINDS:
        if package == kind.package and cls.__name__ in kind.names:
            text = f"{package}.{cls.__name__}{typing.get_args(classes[0])}"
            return TableCodec(kind, cls, text, optional=len(members) > 1)
    return None


# --- NumPy ---------------------------------------------------------------------------------------


def _dump_array(array: Any) -> bytes:
    import numpy

    if array.dtype.hasobject:
        raise UnsupportedValue(
            "an array of Python objects cannot be stored: give it a type with astype(), or return a list"
        )
    buffer = io.BytesIO()
    numpy.lib.format.write_array(buffer, array, version=(2, 0), allow_pickle=False)
    body = buffer.getvalue()
    if _load_array(body).dtype != array.dtype:
        raise UnsupportedValue(f"an array of type {array.dtype} cannot be stored exactly")
    return body


def _load_array(body: bytes) -> Any:
    """NumPy's own reader allocates what the header names. So the header is held against the bytes first."""
    import numpy

    buffer = io.BytesIO(body)
    if numpy.lib.format.read_magic(buffer) != (2, 0):
        raise ValueError("another version of the format")
    shape, is_fortran, dtype = numpy.lib.format.read_array_header_2_0(buffer)
    if dtype.hasobject or dtype.itemsize < 1:
        raise ValueError("values without bytes of their own")
    if math.prod(shape) * dtype.itemsize != len(body) - buffer.tell():
        raise ValueError("more or fewer bytes than the array")
    found = numpy.ndarray(shape, dtype, buffer=body, offset=buffer.tell(), order="F" if is_fortran else "C")
    return found.copy(order="K")


# --- pandas --------------------------------------------------------------------------------------


def _dump_frame(frame: Any) -> bytes:
    import pandas
    import pyarrow

    table = pyarrow.Table.from_pandas(frame, preserve_index=None, nthreads=1)
    # Arrow does not keep the frequency of an index of times. That of periods is part of their type.
    freq = frame.index.freqstr if type(frame.index) in (pandas.DatetimeIndex, pandas.TimedeltaIndex) else None
    if freq is not None:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _FREQ: freq.encode()})
    body = _stream(table)
    back = _load_frame(body)
    try:
        pandas.testing.assert_frame_equal(frame, back, check_exact=True, check_flags=False)
    except AssertionError:  # its text holds values
        different = True
    else:
        different = frame.attrs != back.attrs
    if different:
        raise UnsupportedValue(
            "this DataFrame would come back changed: give each column one type, name columns by texts, or return an "
            "Arrow table"
        )
    return body


def _load_frame(body: bytes) -> Any:
    table = _opened(body)
    refuse_unbounded_metadata(table.schema)
    # Arrow may share its read-only memory with the frame: callers may change theirs.
    frame = table.to_pandas(use_threads=False).copy()
    freq = (table.schema.metadata or {}).get(_FREQ)
    if freq is not None:
        frame.index.freq = freq.decode()
    return frame


def _dump_series(series: Any) -> bytes:
    # A frame has no column without a name, so the name of the column says whether there is one.
    column = "none" if series.name is None else "name"
    if series.name is not None and type(series.name) is not str:
        raise UnsupportedValue("a Series whose name is no text cannot be stored: rename it")
    frame = series.to_frame(f"{column}:{series.name or ''}")
    frame.attrs = dict(series.attrs)
    return _dump_frame(frame)


def _load_series(body: bytes) -> Any:
    frame = _load_frame(body)
    (column,) = frame.columns
    kind, _, name = column.partition(":")
    series = frame[column].copy()
    series.name = name if kind == "name" else None
    series.attrs = dict(frame.attrs)
    return series


# --- Arrow ---------------------------------------------------------------------------------------


def _stream(table: Any) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _opened(body: bytes) -> Any:
    import pyarrow

    return pyarrow.Table.from_batches(batches_of(body), schema_of(body))


def _dump_table(table: Any) -> bytes:
    body = _stream(table)
    if not _opened(body).equals(table, check_metadata=True):
        raise UnsupportedValue("this Arrow table would come back changed")
    return body


def _dump_batch(batch: Any) -> bytes:
    body = _stream(batch)
    if not _load_batch(body).equals(batch, check_metadata=True):
        raise UnsupportedValue("this Arrow batch would come back changed")
    return body


def _load_batch(body: bytes) -> Any:
    (batch,) = batches_of(body)
    return batch


_KINDS = (
    _Kind("numpy", ("ndarray",), _dump_array, _load_array),
    _Kind("pandas", ("DataFrame",), _dump_frame, _load_frame),
    _Kind("pandas", ("Series",), _dump_series, _load_series),
    _Kind("pyarrow", ("Table",), _dump_table, _opened),
    _Kind("pyarrow", ("RecordBatch",), _dump_batch, _load_batch),
)
