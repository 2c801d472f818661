"""Requests and responses as values."""

from __future__ import annotations

import msgspec

__all__ = ["Fields", "Request", "Response"]

Fields = tuple[tuple[bytes, bytes], ...]


class Request(msgspec.Struct, frozen=True):
    """`target` is scheme, authority, path and query, as far as they name the resource."""

    method: str
    target: str
    fields: Fields = ()


class Response(msgspec.Struct, frozen=True):
    status: int
    fields: Fields = ()
    body: bytes = b""
