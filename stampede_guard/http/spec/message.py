"""Requests and responses as values."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Fields", "Request", "Response", "Stored"]

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


@dataclass(frozen=True, slots=True)
class Stored:
    """A response in the store.

    `age_when_stored` is its corrected initial age in seconds (RFC 9111, 4.2.3). `nominated` are the request's fields
    that its Vary names, normalised. `range` is first and last byte and complete length (None where unknown) of a
    partial body; None for a complete one. `authorised`: the request had Authorization.
    """

    response: Response
    age_when_stored: float = 0.0
    received_at: float = 0.0
    nominated: Fields = ()
    range: tuple[int, int, int | None] | None = None
    authorised: bool = False
    method: str = field(default="GET")
