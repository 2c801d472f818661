"""Compressed values, for `compression="zstd"`.

Tags and encryption treat the compressed form as the value's bytes. It begins with an extension of MessagePack whose
number no value uses, and JSON, pickle, NumPy and Arrow data never do. So a codec tries to unpack only a body that it
cannot decode. Values that are not compressed cost nothing, and every process reads both forms, whatever its own option
says.

The extension holds the size of the value, and the frame behind it must agree. Nothing is unpacked that would be larger
than `LARGEST`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

from stampede_guard.errors import Misuse, Undecodable

if TYPE_CHECKING:
    from stampede_guard.policy import Policy
    from stampede_guard.values.codec import Codec

__all__ = ["LARGEST", "MARK", "Compressed", "compressing", "unpacked"]

MARK = b"\xd6\x0e"
"""Four bytes of extension 14: see `values.codec.builtin`."""
LARGEST = 64 * 1024 * 1024
"""Bytes of a value before it is compressed. A larger one is stored as it is, if the policy lets it be stored."""
LEVEL = 3
_HEAD = len(MARK) + 4
_kept = threading.local()


def compressing(codec: Codec, policy: Policy) -> Codec:
    """The codec, with compression if the policy asks for it. Raises `Misuse` if the library for it is missing."""
    if policy.compression is None:
        return codec
    around = getattr(codec, "around", None)
    if around is not None:  # tags must stay readable without unpacking
        outer: Codec = around(compressing(cast("Any", codec).inner, policy))
        return outer
    try:
        import zstandard  # noqa: F401
    except ImportError:
        raise Misuse(
            f"compression={policy.compression!r} needs a package that is not installed: "
            "pip install '.[compression]' in a clone of the repository"
        ) from None
    return Compressed(codec, policy.compression_min_bytes)


class Compressed:
    """Compresses bodies of at least `least` bytes, if that makes them smaller."""

    def __init__(self, inner: Codec, least: int) -> None:
        self.inner = inner
        self.fingerprint = inner.fingerprint
        self.shareable = inner.shareable
        self.decode = inner.decode
        self._least = least

    def encode(self, value: Any) -> bytes:
        """Raises `UnsupportedValue`."""
        body = self.inner.encode(value)
        if not self._least <= len(body) <= LARGEST:
            return body
        packed = MARK + len(body).to_bytes(4, "big") + _compressor().compress(body)
        return packed if len(packed) < len(body) else body


def unpacked(body: bytes) -> bytes | None:
    """The bytes that were compressed; None if the body is not compressed. Raises `Undecodable`."""
    if body[: len(MARK)] != MARK:
        return None
    size = int.from_bytes(body[len(MARK) : _HEAD], "big")
    try:
        import zstandard
    except ImportError:
        raise Undecodable(
            "the stored bytes are compressed, and this process has no zstandard: "
            "pip install '.[compression]' in a clone of the repository"
        ) from None
    frame = body[_HEAD:]
    try:
        # The library allocates what the frame's own header says, so both sizes are checked first.
        if size > LARGEST or zstandard.frame_content_size(frame) != size:
            raise Undecodable("compressed bytes name a size that they do not have")
        found: bytes = _decompressor().decompress(frame, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Undecodable(f"compressed bytes are damaged: {type(error).__name__}") from error
    if len(found) != size or found[: len(MARK)] == MARK:
        raise Undecodable("compressed bytes are not what was compressed")
    return found


# One of each per thread: two threads must not use one at once, and making one costs more than a small value.


def _compressor() -> Any:
    found = getattr(_kept, "compressor", None)
    if found is None:
        import zstandard

        found = _kept.compressor = zstandard.ZstdCompressor(level=LEVEL)
    return found


def _decompressor() -> Any:
    found = getattr(_kept, "decompressor", None)
    if found is None:
        import zstandard

        found = _kept.decompressor = zstandard.ZstdDecompressor()
    return found
