"""NumPy arrays, pandas frames and series, and Arrow tables as values."""

from stampede_guard.values.codec.tables.tablecodec import TableCodec, table_of

__all__ = ["TableCodec", "table_of"]
