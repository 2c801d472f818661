"""Small streams that stand for huge tables, as somebody would write them who can write to the store."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

__all__ = ["ARRAYS", "FRAMES", "MUCH", "STREAMS"]

MUCH = 20_000_000


def _stream(table: Any, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _column(array: Any) -> Any:
    return pa.record_batch({"name:a": array})


def _zeros(count: int, kind: Any) -> Any:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(bytes(count * kind.bit_width // 8))])


def _dictionary_of_zeros() -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), _zeros(MUCH // 8, pa.int64()))


def _views() -> Any:
    """Each row is the same long text."""
    text = b"x" * 100_000
    view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    count = MUCH // len(text)
    return pa.Array.from_buffers(
        pa.string_view(), count, [None, pa.py_buffer(view * count), pa.py_buffer(text)]
    )


def _list_views() -> Any:
    values = pa.array(range(10_000), pa.int64())
    places = pa.array([0] * 1000, pa.int32())
    return pa.ListViewArray.from_arrays(places, pa.array([10_000] * 1000, pa.int32()), values)


def _run() -> Any:
    return pa.RunEndEncodedArray.from_arrays(
        pa.array([MUCH], pa.int32()), pa.array(["a text of some length"])
    )


def _sharing_columns() -> bytes:
    """A hundred columns, and the bytes of one."""
    size, count = 200_000, 100
    batch = pa.record_batch({f"c{number}": _zeros(1, pa.binary(size)) for number in range(count)})
    parts = []
    for message in pa.ipc.MessageReader.open_stream(_stream(batch)):
        header, body = message.metadata.to_pybytes(), b""
        if message.type == "record batch":
            body = message.body.to_pybytes()
            places = range(0, len(body), size)
            buffers = [struct.pack("<4q", place, 0, place, size) for place in places]
            assert b"".join(buffers) in header
            header = header.replace(b"".join(buffers), struct.pack("<4q", 0, 0, 0, size) * count)
            header = header.replace(struct.pack("<q", len(body)), struct.pack("<q", size))
            body = body[:size]
        parts += [struct.pack("<Ii", 0xFFFFFFFF, len(header)), header, body]
    return b"".join([*parts, struct.pack("<Ii", 0xFFFFFFFF, 0)])


def _deltas() -> bytes:
    sink, text = pa.BufferOutputStream(), "x" * 1000
    with pa.ipc.new_stream(
        sink,
        pa.schema({"name:a": pa.dictionary(pa.int32(), pa.string())}),
        options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True),
    ) as writer:
        for number in range(1, 3):
            known = pa.array([f"{text}{one}" for one in range(number)])
            writer.write(_column(pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), known)))
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _claimed_body() -> bytes:
    body = _stream(_column(_zeros(64, pa.int64())))
    return body.replace(struct.pack("<q", 512), struct.pack("<q", MUCH * 100))


def _with_metadata(change: Any) -> bytes:
    table = pa.Table.from_pandas(pd.DataFrame({"name:a": [1.0] * 5000}).set_index("name:a", drop=False))
    found = json.loads(table.schema.metadata[b"pandas"])
    change(found)
    return _stream(table.replace_schema_metadata({"pandas": json.dumps(found)}))


def _wide_names(found: Any) -> None:
    found["column_indexes"][0]["numpy_type"] = f"U{MUCH}"


def _nested(array: Any, count: int) -> Any:
    return pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), array)


def _no_fields(count: int) -> Any:
    return pa.StructArray.from_buffers(pa.struct([]), count, [None])


STREAMS: dict[str, bytes] = {
    "compressed with zstd": _stream(_column(_zeros(MUCH // 8, pa.int64())), compression="zstd"),
    "compressed with lz4": _stream(_column(_zeros(MUCH // 8, pa.int64())), compression="lz4"),
    "one long value, compressed": _stream(_column(_zeros(1, pa.binary(MUCH))), compression="zstd"),
    "a compressed dictionary": _stream(_column(_dictionary_of_zeros()), compression="zstd"),
    "parts of a dictionary": _deltas(),
    "one run": _stream(_column(_run())),
    "a run in a struct": _stream(_column(pa.StructArray.from_arrays([_run()], names=["x"]))),
    "views of one text": _stream(_column(_views())),
    "views of one list": _stream(_column(_list_views())),
    "rows of nulls": _stream(_column(pa.nulls(MUCH))),
    "columns of nulls": _stream(pa.record_batch({f"c{number}": pa.nulls(10_000) for number in range(2000)})),
    "rows without columns": _stream(_column(_no_fields(MUCH))),
    "a list of nulls": _stream(_column(_nested(pa.nulls(MUCH), MUCH))),
    "a dictionary of nulls": _stream(
        _column(pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.nulls(MUCH)))
    ),
    "a list of empty structs": _stream(_column(_nested(_no_fields(MUCH), MUCH))),
    "a list of texts without length": _stream(
        _column(_nested(pa.Array.from_buffers(pa.binary(0), MUCH, [None, pa.py_buffer(b"")]), MUCH))
    ),
    "a list of lists without length": _stream(
        _column(
            _nested(
                pa.Array.from_buffers(
                    pa.list_(pa.int8(), 0), MUCH, [None], children=[pa.array([], pa.int8())]
                ),
                MUCH,
            )
        )
    ),
    "columns that share their bytes": _sharing_columns(),
    "a body that is not there": _claimed_body(),
}
"""Each is refused as whatever it is read."""

FRAMES: dict[str, bytes] = {
    "names of a fixed width": _with_metadata(_wide_names),
}
"""Metadata that only pandas reads."""


def _array(descr: Any, shape: tuple[int, ...], data: bytes = b"", version: int = 2) -> bytes:
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    size = struct.pack("<I", len(header)) if version > 1 else struct.pack("<H", len(header))
    return np.lib.format.magic(version, 0) + size + header + data


ARRAYS: dict[str, bytes] = {
    "more than there is": _array("<i8", (MUCH,), bytes(80)),
    "less than there is": _array("<i8", (9,), bytes(80)),
    "more, in version 1": _array("<i8", (MUCH,), bytes(80), version=1),
    "more, in version 3": _array("<i8", (MUCH,), bytes(80), version=3),
    "records of a size of their own": _array([("a", "<i8", (MUCH,))], (1,), bytes(80)),
    "values without bytes": _array("|V0", (MUCH,)),
    "texts without bytes": _array("<U0", (MUCH,)),
    "a negative size": _array("<i8", (-1, -10), bytes(80)),
    "no number": _array("<i8", (True, 10.0), bytes(80)),  # type: ignore[arg-type]
    "objects": _array("|O", (10,), bytes(80)),
}
