"""Values of functions without a useful return annotation: Python's own types and records, exactly."""

from __future__ import annotations

from typing import Any

from stampede_guard.errors import Undecodable
from stampede_guard.values.codec.compressed import unpacked
from stampede_guard.values.codec.records import Records

__all__ = ["BuiltinCodec"]


class BuiltinCodec:
    """What no annotation describes: see `values.codec.builtin` and `values.codec.records`."""

    shareable: bool | None = None

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._records = Records()
        self._loads = self._records.loads

    def encode(self, value: Any) -> bytes:
        """Raises `UnsupportedValue`."""
        return self._records.dumps(value)

    def decode(self, data: bytes) -> Any:
        """Raises `Undecodable`."""
        try:
            return self._loads(data)
        except Exception as error:
            if (body := unpacked(data)) is not None:
                return self.decode(body)
            raise Undecodable(f"stored bytes are damaged: {type(error).__name__}") from error
