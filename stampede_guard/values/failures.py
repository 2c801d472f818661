"""How callers in other processes see a failed computation.

An error arrives as itself if the other process has already imported its class, and if JSON can express its arguments
and attributes: see `errorclasses` and `errorstate`. For types given to `register_failure`, its functions decide. Every
other error arrives as `ComputeFailed`, with the type's name, the message and the HTTP status, if it had one. Nothing is
pickled or imported. A process of an older version reads `type`, `message`, `kind` and `content`, and ignores the rest.

Three kinds of errors never leave their process:

- An error about one caller (401, 403).
- An error about the state of one process: `WaitTimeout` and `Overloaded`, from a cached function that the computation
  called.
- An error that stops a process or a task (a cancellation, Ctrl-C).

In every text that crosses, URLs lose their query and password.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from stampede_guard.errors import ComputeFailed, ComputeTimeout, WaitTimeout
from stampede_guard.options import ALL, takes_options
from stampede_guard.values.errorstate import pack, unpack
from stampede_guard.values.masking import beginning, mask, mask_all
from stampede_guard.values.ownerrors import OWN_ERRORS
from stampede_guard.values.personal import is_personal, status_of

__all__ = ["decode_failure", "encode_failure", "message_of", "register_failure", "stand_in"]

_LONGEST_MESSAGE = 500
_LARGEST_CONTENT = 64 * 1024
_LARGEST_STATE = 16 * 1024
_UNKNOWN = "the error of another process could not be read"

_HTTP = ("fastapi", "starlette")

_E = TypeVar("_E", bound=Exception)


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored failure. `made` is the state of the error, for processes that have its class. `id`: see `OwnErrors`.

    Else `kind` selects the reader of `content`. For an unknown kind, `type`, `message` and `status` are used.
    """

    type: str
    message: str = ""
    kind: str = ""
    content: Any = None
    status: int | None = None
    id: str = ""
    made: Any = None


_ToDict = Callable[[Any], dict[str, Any]]
_FromDict = Callable[[dict[str, Any]], Exception]

_registered: dict[type[Exception], tuple[str, _ToDict]] = {}
_readers: dict[str, _FromDict] = {}
_read = msgspec.json.Decoder(_Record).decode


@takes_options("register_failure", own=ALL)
def register_failure(
    kind: type[_E], to_dict: Callable[[_E], dict[str, Any]], from_dict: Callable[[dict[str, Any]], _E]
) -> None:
    """Let an exception type reach other processes as itself. It travels as the JSON that `to_dict` returns.

    Only needed for a type with arguments or attributes that JSON cannot express, or to leave some out.

    Subclasses that are not registered themselves arrive as this type. Register the type in every process, before the
    first computation. A process that does not know the type gets `ComputeFailed`. 401 and 403 still never cross.
    """
    name = f"{kind.__module__}.{kind.__qualname__}"
    _registered[kind] = (name, to_dict)
    _readers[name] = from_dict


def encode_failure(error: BaseException, *, id: str = "") -> bytes | None:
    """The bytes of an error for other processes, or None if it must not leave this one."""
    if not isinstance(error, Exception) or _is_private(error):
        return None
    plain = _Record(type(error).__name__, message_of(error), status=status_of(error), id=id)
    try:
        kind, content = _content(error)
        if _has_secret_headers(content):
            # A redirect without its query would send other callers to another page.
            return None
        known = msgspec.structs.replace(plain, kind=kind, content=mask_all(content))
        # A registered type's own function decides what travels.
        made = _state(error) if kind in _HTTP or not kind else None
        for record in (msgspec.structs.replace(known, made=made), known):
            data = msgspec.json.encode(record)
            if len(data) <= _LARGEST_CONTENT:
                return data
    except Exception:  # a fault in a user's to_dict, detail or error class must not hide the error itself
        pass
    return msgspec.json.encode(plain)


def _state(error: Exception) -> msgspec.Raw | None:
    try:
        state = pack(error)
        data = msgspec.json.encode(state)
    except Exception:  # half of a surrogate pair
        return None
    return msgspec.Raw(data) if state is not None and len(data) <= _LARGEST_STATE else None


def decode_failure(data: bytes, *, entry: str = "") -> Exception:
    """The error to raise for the stored bytes of this entry's failure.

    It is `ComputeFailed` for types that are unknown here, and for damaged bytes.
    """
    try:
        record = _read(data)
    except Exception:
        return ComputeFailed("Exception", _UNKNOWN)
    error: object = OWN_ERRORS.recall(entry, record.id) or unpack(record.made)
    if error is None and record.kind:
        try:
            reader = _OURS.get(record.kind) or _readers[record.kind]
            error = reader(record.content)
        except Exception:
            error = None
    if isinstance(error, Exception):
        return error
    return ComputeFailed(record.type, record.message, status_code=_public(record.status))


def stand_in(error: BaseException) -> ComputeFailed:
    """The error for callers that cannot have this one. It has no status of a redirect, which would lead nowhere."""
    status = status_of(error)
    if status is not None and not 400 <= status <= 599:
        status = None
    return ComputeFailed(type(error).__name__, message_of(error), status_code=status)


def _public(status: int | None) -> int | None:
    """A 401 or 403 never crosses, so a record that has one was not written by this library."""
    return status if status is not None and 400 <= status <= 599 and status not in (401, 403) else None


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
        content = {"type": error.type_name, "message": error.message}
        return "failed", content if error.status_code is None else {**content, "status": error.status_code}
    if type(error) is ComputeTimeout:
        return "timeout", {"message": message_of(error)}
    for package in _HTTP:
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
        # Nothing is imported because the store names it.
        module: Any = sys.modules[f"{package}.exceptions"]
        error: Exception = module.HTTPException(
            status_code=status, detail=content["detail"], headers=content["headers"]
        )
        return error

    return read


_OURS: dict[str, _FromDict] = {
    "failed": lambda content: ComputeFailed(
        str(content["type"]), str(content["message"]), status_code=_public(content.get("status"))
    ),
    "timeout": lambda content: ComputeTimeout(content["message"]),
    "fastapi": _http_error("fastapi"),
    "starlette": _http_error("starlette"),
}
