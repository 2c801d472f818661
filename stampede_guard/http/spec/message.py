"""Requests and responses as values."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Fields", "Request", "Response"]

Fields = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """`target` is scheme, authority, path and query, as far as they name the resource."""

    method: str
    target: str
    fields: Fields = ()


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    fields: Fields = ()
    body: bytes = b""
