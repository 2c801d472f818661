"""Arrow streams whose tables take memory in proportion to the stream.

Somebody who can write to the store chooses the stream. The format has many ways to say much with few bytes: compressed
buffers, run ends, views, values that take no bytes, columns that share one buffer. Each of them is refused before
anything is decoded. What remains has its bytes in the stream, and is read without a copy.

pyarrow does not show the header of a message, so `_Header` reads the flatbuffer
(https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc; the tables are in
`Message.fbs`). pyarrow has verified its offsets by then.
"""

from __future__ import annotations

import struct
from typing import Any

from stampede_guard.errors import UnsupportedValue

__all__ = ["batches_of", "refuse_unbounded_metadata", "schema_of"]

_BITS = 8
"""A value takes at least one bit of the stream."""
_WIDEST = 32
"""Bytes of the widest number that NumPy knows. The name of a type may say any width for a text."""


def schema_of(body: bytes) -> Any:
    """The schema of a stream. Raises `UnsupportedValue` for a type whose values may share their bytes."""
    import pyarrow

    schema = pyarrow.ipc.open_stream(body).schema
    for part in _parts_of(schema.types):
        if _is_sharing(part):
            raise UnsupportedValue(
                "a column with views or run ends cannot be stored: cast it to a type without them, such as "
                "pyarrow.string()"
            )
    return schema


def batches_of(body: bytes) -> list[Any]:
    """The batches of a stream. Raises `UnsupportedValue`, or whatever pyarrow raises for damaged bytes."""
    import pyarrow

    counted = [_takes_bytes_itself(part) for part in _parts_of(schema_of(body).types)]
    values = 0
    for message in pyarrow.ipc.MessageReader.open_stream(body):
        header = _Header(message.metadata.to_pybytes())
        if header.batch is None:
            continue
        if header.is_compressed or header.is_delta:
            raise UnsupportedValue(
                "an Arrow stream with compressed buffers or parts of dictionaries is refused"
            )
        lengths, sizes = header.lengths, header.sizes
        if min((header.rows, *lengths, *sizes)) < 0 or sum(sizes) > message.body.size:
            raise UnsupportedValue("an Arrow stream whose columns share their bytes is refused")
        if not header.is_dictionary and len(lengths) == len(counted):
            lengths = [length for length, counts in zip(lengths, counted, strict=True) if counts]
        values += max(header.rows, sum(lengths))
    if values > _BITS * len(body):
        raise UnsupportedValue("a table with more values than bits, for example of nulls only, is refused")
    batches = list(pyarrow.ipc.open_stream(body))
    for batch in batches:
        batch.validate(full=True)  # damaged offsets would read memory that is not the table's
    return batches


def refuse_unbounded_metadata(schema: Any) -> None:
    """Raises `UnsupportedValue` if the metadata for pandas could make it take memory for what the stream has not."""
    import numpy

    found = schema.pandas_metadata or {}
    for column in (*found.get("column_indexes", ()), *found.get("columns", ())):
        try:
            width = numpy.dtype(column["numpy_type"]).itemsize
        except TypeError:  # a type of pandas
            continue
        if width > _WIDEST:
            raise UnsupportedValue("a frame with a type of fixed width for texts is refused")


def _parts_of(columns: list[Any]) -> list[Any]:
    """The types of all arrays of a batch, in the order of their lengths in its header: each before its parts."""
    found: list[Any] = []
    ahead = columns[::-1]
    while ahead:
        kind = ahead.pop()
        while (storage := getattr(kind, "storage_type", None)) is not None:  # an extension
            kind = storage
        found.append(kind)
        ahead.extend(kind.field(number).type for number in reversed(range(kind.num_fields)))
    return found


def _is_sharing(kind: Any) -> bool:
    """Whether several values of this type may be the same bytes."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return any(map(_is_sharing, _parts_of([kind.value_type])))
    return any(
        is_kind(kind)
        for is_kind in (
            types.is_run_end_encoded,
            types.is_string_view,
            types.is_binary_view,
            types.is_list_view,
            types.is_large_list_view,
        )
    )


def _takes_bytes_itself(kind: Any) -> bool:
    """False if the parts of a value have the bytes: a structure, a list of a fixed size."""
    from pyarrow import types

    return not (
        (types.is_struct(kind) and kind.num_fields) or (types.is_fixed_size_list(kind) and kind.list_size > 0)
    )


class _Header:
    """What the header of a message says. `batch`: the place of its RecordBatch, None for a schema."""

    _DICTIONARY, _RECORDS = 2, 3

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.batch: int | None = None
        self.is_dictionary = self.is_delta = False
        (message,) = struct.unpack_from("<I", data)
        kind = self._number(message, 1, "<B")
        header = self._table(message, 2)
        if kind == self._DICTIONARY and header is not None:
            self.batch, self.is_dictionary = self._table(header, 1), True
            self.is_delta = bool(self._number(header, 2, "<B"))
        elif kind == self._RECORDS:
            self.batch = header

    @property
    def rows(self) -> int:
        assert self.batch is not None
        return self._number(self.batch, 0, "<q")

    @property
    def is_compressed(self) -> bool:
        assert self.batch is not None
        return self._place(self.batch, 3) is not None

    @property
    def lengths(self) -> list[int]:
        """The number of values in each array."""
        return [length for length, _ in self._pairs(1)]

    @property
    def sizes(self) -> list[int]:
        """The bytes of each buffer."""
        return [size for _, size in self._pairs(2)]

    def _pairs(self, field: int) -> list[tuple[int, ...]]:
        assert self.batch is not None
        vector = self._table(self.batch, field)
        if vector is None:
            return []
        (count,) = struct.unpack_from("<I", self._data, vector)
        return list(struct.iter_unpack("<qq", self._data[vector + 4 : vector + 4 + 16 * count]))

    # A table begins with the distance back to its list of fields: two lengths, then the place of each field or 0.

    def _place(self, table: int, field: int) -> int | None:
        fields = table - struct.unpack_from("<i", self._data, table)[0]
        at = 4 + 2 * field
        if at >= struct.unpack_from("<H", self._data, fields)[0]:
            return None
        place: int = struct.unpack_from("<H", self._data, fields + at)[0]
        return table + place if place else None

    def _number(self, table: int, field: int, form: str) -> int:
        place = self._place(table, field)
        return 0 if place is None else int(struct.unpack_from(form, self._data, place)[0])

    def _table(self, table: int, field: int) -> int | None:
        place = self._place(table, field)
        return None if place is None else place + int(struct.unpack_from("<I", self._data, place)[0])
