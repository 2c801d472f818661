"""Cached values as bytes, without pickle: a writer to Redis cannot run code in the workers.

Python's own types come back exactly as they were. So do rendered fragments (`SafeString`), also inside of them. An
`HttpResponse` comes back with its status, headers, cookies and content. A subclass of it comes back as a plain
`HttpResponse`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.utils.safestring import SafeString
from msgspec import msgpack

from stampede_guard.errors import UnsupportedValue
from stampede_guard.values.codec.builtin import dumps, lift_with, loads, refusal

__all__ = ["Serializer", "response_from", "response_parts"]

_VALUE, _SAFE, _RESPONSE = b"v", b"s", b"r"
_SAFE_INSIDE = 100
"""The extension type of a `SafeString` inside another value. Types of the library itself are below."""


class Serializer:
    """What `OPTIONS["serializer"]` means in Django: an object with `dumps` and `loads`."""

    def dumps(self, value: Any) -> Any:
        """Raises `UnsupportedValue`, which names the type."""
        if type(value) is int:
            return value  # as Redis counts it: see `incr`
        if isinstance(value, HttpResponse):
            return _RESPONSE + dumps(response_parts(value))
        if type(value) is SafeString:
            return _SAFE + dumps(value + "")
        try:
            return _VALUE + dumps(value, _lower_safe)
        except UnsupportedValue:
            kind = type(value)
            raise UnsupportedValue(
                f"the value, a {kind.__module__}.{kind.__qualname__}, is or holds something that cannot be stored "
                f"without pickle. Store Python's own types, such as dict(row) or list(queryset.values()); or write "
                f'OPTIONS={{"serializer": "pickle"}}: then anyone who can write to Redis can run code here'
            ) from None

    def loads(self, data: bytes) -> Any:
        """Raises any error that damaged bytes cause."""
        kind, body = data[:1], data[1:]
        if kind == _VALUE:
            return _loads_inside(body)
        if kind == _SAFE:
            return SafeString(loads(body))
        if kind == _RESPONSE:
            return response_from(loads(body))
        return int(data)


def _lower_safe(value: Any, _: Callable[[Any], Any]) -> msgpack.Ext:
    if type(value) is not SafeString:
        raise refusal(value)
    return msgpack.Ext(_SAFE_INSIDE, dumps(value + ""))


def _lift_safe(code: int, data: memoryview) -> Any:
    return SafeString(loads(bytes(data))) if code == _SAFE_INSIDE else lift_with(_loads_inside, code, data)


_loads_inside = msgpack.Decoder(ext_hook=_lift_safe).decode


def response_parts(response: HttpResponse) -> list[Any]:
    """Raises `ContentNotRenderedError` for a template response that is not rendered yet."""
    cookies = [
        [
            name,
            morsel.value,
            morsel.coded_value,
            {key: _plain(value) for key, value in morsel.items() if value},
        ]
        for name, morsel in response.cookies.items()
    ]
    headers = [[name, value] for name, value in response.items()]
    return [
        response.status_code,
        response.reason_phrase,
        response.charset,
        headers,
        response.content,
        cookies,
    ]


def response_from(parts: list[Any]) -> HttpResponse:
    status, reason, charset, headers, content, cookies = parts
    response = HttpResponse(content, status=status, reason=reason, charset=charset)
    del response["Content-Type"]
    for name, value in headers:
        response[name] = value
    for name, value, coded, attributes in cookies:
        response.cookies[name] = value
        response.cookies[name].set(name, value, coded)
        response.cookies[name].update(attributes)
    return response


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int) else str(value)
