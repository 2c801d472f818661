"""NumPy arrays, pandas frames and Arrow tables: equal on a hit and on a miss, or refused."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import decimal
import io
import pickle
import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest

from stampede_guard import Policy, UnsupportedValue
from stampede_guard.errors import Undecodable
from stampede_guard.values.codec import codec_for
from stampede_guard.values.codec.compressed import compressing
from stampede_guard.values.codec.tables import table_of
from tests.support.guards import Guards
from tests.values import hostile_tables as hostile

TIMES = pd.date_range("2026-01-01", periods=3, freq="D", tz="Europe/Berlin")
ARRAYS: dict[str, Any] = {
    "floats": np.array([1.0, float("nan"), -0.0, float("inf")]),
    "in Fortran's order": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "no dimension": np.array(3),
    "empty": np.zeros((0, 4), dtype=np.int8),
    "texts": np.array(["a", "äöü"], dtype="U5"),
    "bytes": np.array([b"a"], dtype="S3"),
    "times": np.array(["2026-01-01"], dtype="M8[us]"),
    "complex": np.array([1 + 2j]),
    "truths": np.array([True, False]),
    "big-endian": np.array([1, 2], dtype=">i4"),
    "records": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8", (2,))]),
    "a slice": np.arange(20)[3:17:2],
}
FRAMES: dict[str, Any] = {
    "numbers and texts": pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [1.5, float("nan")]}),
    "empty": pd.DataFrame(),
    "no rows": pd.DataFrame({"a": pd.array([], dtype="Int64")}),
    "numbers as columns": pd.DataFrame(np.zeros((2, 2))),
    "an index": pd.DataFrame({"a": [1, 2], "b": [3, 4]}).set_index("a"),
    "an index of texts": pd.DataFrame({"a": [1, 2]}, index=["x", "y"]),
    "two indices": pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": [5, 6]}).set_index(["a", "b"]),
    "columns of two levels": pd.DataFrame({"k": ["x", "x"], "v": [1, 2]})
    .groupby("k")
    .agg({"v": ["sum", "mean"]}),
    "times with their frequency": pd.DataFrame({"a": [1, 2, 3]}, index=TIMES),
    "times without": pd.DataFrame({"a": [1, 3]}, index=TIMES[[0, 2]]),
    "spans of time": pd.DataFrame({"a": pd.to_timedelta([1, 2], unit="s")}),
    "an index of periods": pd.DataFrame({"a": [1, 2]}, index=pd.period_range("2026", periods=2, freq="M")),
    "categories": pd.DataFrame({"a": pd.Categorical(["x", "y"], categories=["y", "x", "z"], ordered=True)}),
    "integers with gaps": pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
    "decimals and dates": pd.DataFrame({"a": [decimal.Decimal("1.10")], "b": [datetime.date(2026, 1, 1)]}),
    "attributes": pd.DataFrame({"a": [1]}),
}
FRAMES["attributes"].attrs["source"] = "sales"
SERIES: dict[str, Any] = {
    "a name": pd.Series([1, 2], name="q"),
    "no name": pd.Series([1.0, 2.0]),
    "an empty name": pd.Series([1], name=""),
    "an index": pd.Series([1, 2], index=["x", "y"], name="index"),
    "times": pd.Series([1, 2, 3], index=TIMES),
}
TABLES: dict[str, Any] = {
    "a table": pa.table({"a": [1, None], "b": [["x"], []]}),
    "with metadata": pa.table({"a": [1]}).replace_schema_metadata({"k": "v"}),
    "without columns": pa.table({}),
    "in chunks": pa.table({"a": pa.chunked_array([[1], [2, 3]])}),
    "a dictionary": pa.table({"a": pa.array(["x", "y", "x"]).dictionary_encode()}),
}
BATCHES: dict[str, Any] = {
    "a batch": pa.record_batch({"a": [1, 2]}),
    "no rows": pa.record_batch({"a": pa.array([], pa.int8())}),
}


def same(one: Any, other: Any) -> None:
    """Fails unless both are equal, including their types."""
    assert type(one) is type(other)
    match one:
        case np.ndarray():
            assert one.dtype == other.dtype and one.shape == other.shape
            assert np.isfortran(one) == np.isfortran(other)
            np.testing.assert_array_equal(one, other)
        case pd.DataFrame():
            pd.testing.assert_frame_equal(one, other, check_exact=True, check_freq=True)
            assert one.attrs == other.attrs
        case pd.Series():
            pd.testing.assert_series_equal(one, other, check_exact=True, check_freq=True)
        case _:
            assert one.equals(other, check_metadata=True)


def cases() -> list[Any]:
    found = []
    for kind, values in ((np.ndarray, ARRAYS), (pd.DataFrame, FRAMES), (pd.Series, SERIES), (pa.Table, TABLES),
                         (pa.RecordBatch, BATCHES)):  # fmt: skip
        for name, value in values.items():
            found.append(pytest.param(kind, value, id=f"{kind.__name__}: {name}"))
    return found


@pytest.mark.parametrize(("kind", "value"), cases())
def test_a_value_comes_back_equal(kind: Any, value: Any) -> None:
    codec = codec_for(kind)
    same(codec.decode(codec.encode(value)), value)


@pytest.mark.parametrize(("kind", "value"), cases())
def test_no_two_callers_share_memory_and_each_may_change_its_own(kind: Any, value: Any) -> None:
    codec = codec_for(kind)
    body = codec.encode(value)
    one, other = codec.decode(body), codec.decode(body)
    if isinstance(one, np.ndarray):
        assert one.flags.writeable and not np.shares_memory(one, other)
    elif isinstance(one, pd.DataFrame) and one.size:
        one.iloc[0, 0] = one.iloc[-1, 0]
        assert not np.shares_memory(one.iloc[:, 0].to_numpy(), other.iloc[:, 0].to_numpy())
    same(other, value)


REFUSED: dict[str, tuple[Any, Any]] = {
    "Python objects in an array": (np.ndarray, np.array([object()])),
    "a subclass": (np.ndarray, np.ma.masked_array([1], mask=[True])),
    "a list": (np.ndarray, [1, 2]),
    "None without saying so": (np.ndarray, None),
    "mixed types": (pd.DataFrame, pd.DataFrame({"a": [{"x": 1}, 2]})),
    "lists in a column": (pd.DataFrame, pd.DataFrame({"a": [[1], [2]]})),
    "two columns of one name": (pd.DataFrame, pd.DataFrame([[1, 2]], columns=["a", "a"])),
    "a series instead": (pd.DataFrame, pd.Series([1])),
    "a name that is a number": (pd.Series, pd.Series([1], name=3)),
}


@pytest.mark.parametrize(("kind", "value"), REFUSED.values(), ids=REFUSED)
def test_what_would_come_back_changed_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(UnsupportedValue):
        codec_for(kind).encode(value)


def test_a_refusal_does_not_repeat_the_values() -> None:
    with pytest.raises(UnsupportedValue) as told:
        codec_for(pd.DataFrame).encode(pd.DataFrame({"a": ["card-4711", 2]}))
    assert "4711" not in str(told.value)


def test_an_array_of_pickled_objects_in_the_store_is_not_opened() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([print], dtype=object), allow_pickle=True)
    for body in (buffer.getvalue(), pickle.dumps(print), b"", b"\x00", b"\xff" * 100):
        for kind in (np.ndarray, pd.DataFrame, pd.Series, pa.Table, pa.RecordBatch):
            with pytest.raises(Undecodable):
                codec_for(kind).decode(body)


def test_damaged_streams_are_undecodable_or_something_valid() -> None:
    for kind, value in ((np.ndarray, ARRAYS["records"]), (pa.Table, TABLES["a table"]),
                        (pd.DataFrame, FRAMES["numbers and texts"])):  # fmt: skip
        codec = codec_for(kind)
        body = codec.encode(value)
        for place in range(0, len(body), 3):
            with contextlib.suppress(Undecodable):
                codec.decode(body[:place] + bytes([body[place] ^ 0xFF]) + body[place + 1 :])
        for place in range(0, len(body) - 16, 7):
            with pytest.raises(Undecodable):
                codec.decode(body[:place])


def peak_of_refusing(kind: Any, body: bytes) -> int:
    """The bytes that NumPy, Python and Arrow had taken at once while these bytes were refused. Of two times the lower:
    a table of the interpreter's own, such as that of its texts, may grow at one of them."""
    return min(one_refusal(kind, body) for _ in range(2))


def one_refusal(kind: Any, body: bytes) -> int:
    codec, usual = codec_for(kind), pa.default_memory_pool()
    with contextlib.suppress(Undecodable):  # imports what decoding needs
        codec.decode(codec_for(pd.DataFrame).encode(FRAMES["numbers and texts"]))
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        with pytest.raises(Undecodable):
            codec.decode(body)
        return tracemalloc.get_traced_memory()[1] + int(pool.max_memory())
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)


@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatch, pd.DataFrame, pd.Series])
@pytest.mark.parametrize("what", hostile.STREAMS)
def test_a_small_stream_that_stands_for_a_huge_table_is_refused_before_it_takes_memory(
    what: str, kind: Any
) -> None:
    body = hostile.STREAMS[what]
    assert peak_of_refusing(kind, body) < 1_000_000 + 8 * len(body)


@pytest.mark.parametrize("kind", [pd.DataFrame, pd.Series])
@pytest.mark.parametrize("what", hostile.FRAMES)
def test_metadata_for_pandas_that_asks_for_more_than_there_is_is_refused(what: str, kind: Any) -> None:
    body = hostile.FRAMES[what]
    assert peak_of_refusing(kind, body) < 1_000_000 + 8 * len(body)


@pytest.mark.parametrize("what", hostile.ARRAYS)
def test_an_array_that_names_another_size_than_it_has_is_refused_before_it_takes_memory(what: str) -> None:
    assert peak_of_refusing(np.ndarray, hostile.ARRAYS[what]) < 100_000


def test_nulls_empty_tables_and_many_batches_are_ordinary_values() -> None:
    nulls = pa.table({"a": range(100), "b": pa.nulls(100), "c": [{"x": None, "y": 1}] * 100})
    batches = pa.Table.from_batches([pa.record_batch({"a": ["x"]})] * 100)
    empty = pa.schema({"a": pa.list_(pa.struct({"b": pa.bool_()})), "c": pa.null()}).empty_table()
    for table in (nulls, batches, empty):
        codec = codec_for(pa.Table)
        same(codec.decode(codec.encode(table)), table)


def test_a_column_of_views_is_refused_with_what_to_write() -> None:
    with pytest.raises(UnsupportedValue, match="cast it to a type without them"):
        codec_for(pa.Table).encode(pa.table({"a": pa.array(["x"], pa.string_view())}))


@pytest.mark.parametrize(
    "annotation", [int, list[np.ndarray], dict[str, pd.DataFrame], Any, None, "DataFrame"]
)
def test_other_annotations_are_not_taken(annotation: Any) -> None:
    assert table_of(annotation) is None


def test_the_declared_type_is_part_of_the_fingerprint() -> None:
    kinds = (np.ndarray, npt.NDArray[np.float64], npt.NDArray[np.float32], pd.DataFrame, pd.Series, pa.Table)
    assert len({codec_for(kind).fingerprint for kind in kinds}) == len(kinds)
    codec = codec_for(pd.DataFrame | None)
    assert codec.decode(codec.encode(None)) is None


def test_a_frame_is_compressed_like_any_value() -> None:
    frame = pd.DataFrame({"a": ["same"] * 5_000})
    codec = compressing(codec_for(pd.DataFrame), Policy(compression="zstd"))
    body = codec.encode(frame)
    assert len(body) < len(codec_for(pd.DataFrame).encode(frame)) / 2
    same(codec_for(pd.DataFrame).decode(body), frame)


async def test_the_first_caller_passengers_and_hits_get_equal_frames_of_their_own(guards: Guards) -> None:
    computed: list[int] = []
    one, other = guards.guard(strict=True), guards.guard(strict=True, l1_ttl=10.0)

    def cached(guard: Any) -> Any:
        @guard.locked_cache(ttl=60, name="sales")
        async def sales(shop: int) -> pd.DataFrame:
            computed.append(shop)
            return FRAMES["times with their frequency"].copy()

        return sales

    first, second = cached(one), cached(other)
    found = await asyncio.gather(*(first(7) for _ in range(3)))
    found += [await first(7), await second(7), await second(7), await second(7)]
    assert computed == [7]
    for frame in found:
        same(frame, FRAMES["times with their frequency"])
        frame.iloc[0, 0] = 999


async def test_a_frame_without_an_annotation_is_served_and_the_error_says_what_to_write(
    guards: Guards,
) -> None:
    with pytest.raises(UnsupportedValue, match="annotate the function: -> DataFrame"):
        codec_for(Any).encode(FRAMES["an index"])
    with pytest.raises(UnsupportedValue, match=r"call \.item\(\) on a single number"):
        codec_for(Any).encode({"mean": np.float64(2.5)})
