"""How callers in other processes see a failed computation.

Only declared types cross to other processes: an HTTPException of Starlette or FastAPI with its status, detail and
headers, `ComputeTimeout`, and types given to `register_failure`. Every other error arrives as `ComputeFailed`, with the
type's name and the message. Nothing is pickled. Three kinds of errors never leave their process:

- An error about one caller (401, 403).
- An error about the state of one process: `WaitTimeout` and `Overloaded`, from a cached function that the computation
  called.
- An error that stops a process or a task (a cancellation, Ctrl-C).

In every text that crosses, URLs lose their query and password.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from stampede_guard.errors import ComputeFailed, ComputeTimeout, WaitTimeout
from stampede_guard.values.masking import beginning, mask, mask_all
from stampede_guard.values.personal import is_personal

__all__ = ["decode_failure", "encode_failure", "message_of", "register_failure"]

_LONGEST_MESSAGE = 500
_LARGEST_CONTENT = 64 * 1024
_UNKNOWN = "the error of another process could not be read"

_E = TypeVar("_E", bound=Exception)


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored failure. `kind` selects the reader of `content`. For an unknown kind, `type` and `message` are used."""

    type: str
    message: str = ""
    kind: str = ""
    content: Any = None


_ToDict = Callable[[Any], dict[str, Any]]
_FromDict = Callable[[dict[str, Any]], Exception]

_registered: dict[type[Exception], tuple[str, _ToDict]] = {}
_readers: dict[str, _FromDict] = {}
_read = msgspec.json.Decoder(_Record).decode


def register_failure(
    kind: type[_E], to_dict: Callable[[_E], dict[str, Any]], from_dict: Callable[[dict[str, Any]], _E]
) -> None:
    """Let an exception type reach other processes as itself. It travels as the JSON that `to_dict` returns.

    Subclasses that are not registered themselves arrive as this type. Register the type in every process, before the
    first computation. A process that does not know the type gets `ComputeFailed`. 401 and 403 still never cross.
    """
    name = f"{kind.__module__}.{kind.__qualname__}"
    _registered[kind] = (name, to_dict)
    _readers[name] = from_dict


def encode_failure(error: BaseException) -> bytes | None:
    """The bytes of an error for other processes, or None if it must not leave this one."""
    if not isinstance(error, Exception) or _is_private(error):
        return None
    plain = _Record(type(error).__name__, message_of(error))
    try:
        kind, content = _content(error)
        if _has_secret_headers(content):
            # A redirect without its query would send other callers to another page.
            return None
        content = mask_all(content)
        data = msgspec.json.encode(msgspec.structs.replace(plain, kind=kind, content=content))
        if len(data) <= _LARGEST_CONTENT:
            return data
    except Exception:  # a fault in a user's to_dict, detail or error class must not hide the error itself
        pass
    return msgspec.json.encode(plain)


def decode_failure(data: bytes) -> Exception:
    """The error to raise for stored bytes. It is `ComputeFailed` for unknown types and for damaged bytes."""
    try:
        record = _read(data)
    except Exception:
        return ComputeFailed("Exception", _UNKNOWN)
    if not record.kind:
        return ComputeFailed(record.type, record.message)
    try:
        reader = _OURS.get(record.kind) or _readers[record.kind]
        error: object = reader(record.content)
    except Exception:
        return ComputeFailed(record.type, record.message)
    return error if isinstance(error, Exception) else ComputeFailed(record.type, record.message)


def _is_private(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_private, error.exceptions))
    if isinstance(error, WaitTimeout):
        return True
    return is_personal(error)


def message_of(error: BaseException) -> str:
    """The text of an error, without the secrets of its URLs. A long text is cut off."""
    try:
        text = mask(beginning(str(error)))
    except Exception:
        return ""
    # JSON cannot express half of a surrogate pair.
    return text[:_LONGEST_MESSAGE].encode("utf-8", "replace").decode()


def _content(error: Exception) -> tuple[str, Any]:
    for base in type(error).__mro__:
        if base in _registered:
            name, to_dict = _registered[base]
            return name, to_dict(error)
    if type(error) is ComputeFailed:
        return "failed", {"type": error.type_name, "message": error.message}
    if type(error) is ComputeTimeout:
        return "timeout", {"message": message_of(error)}
    for package in ("fastapi", "starlette"):
        module = sys.modules.get(f"{package}.exceptions")
        if module is not None and isinstance(error, module.HTTPException):
            return package, _http_content(error)
    return "", None


def _has_secret_headers(content: Any) -> bool:
    headers = content.get("headers") if isinstance(content, dict) else None
    return isinstance(headers, dict) and mask_all(headers) != headers


def _http_content(error: Any) -> dict[str, Any]:
    headers = (
        None if error.headers is None else {str(name): str(text) for name, text in error.headers.items()}
    )
    return {"status": int(error.status_code), "detail": error.detail, "headers": headers}


def _http_error(package: str) -> _FromDict:
    def read(content: dict[str, Any]) -> Exception:
        status = content["status"]
        if type(status) is not int or not 100 <= status <= 599:
            raise ValueError("not an HTTP status")
        module = importlib.import_module(f"{package}.exceptions")
        error: Exception = module.HTTPException(
            status_code=status, detail=content["detail"], headers=content["headers"]
        )
        return error

    return read


_OURS: dict[str, _FromDict] = {
    "failed": lambda content: ComputeFailed(str(content["type"]), str(content["message"])),
    "timeout": lambda content: ComputeTimeout(content["message"]),
    "fastapi": _http_error("fastapi"),
    "starlette": _http_error("starlette"),
}
