"""The request that the computation of a view gets. It has the parts in the key, and notes reads of other parts.

A view that reads other parts would give one visitor's response to all. Or it would make a response for no visitor,
because it misses a field of its caller's request. So such a response is computed for each caller. See `responses`.
"""

from __future__ import annotations

import io
import sys
import types
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from collections.abc import Set as AbstractSet
from typing import Any

from stampede_guard.values.codec.attributes import per_class

__all__ = ["A_TYPE", "OF_COPIES", "KeyedEnviron", "environ_of", "note_address"]

OF_COPIES = frozenset(
    {"host", "cache-control", "pragma", "range", "if-range", "if-match", "if-none-match"}
    | {"if-modified-since", "if-unmodified-since", "transfer-encoding"}
)
"""Without them, the complete response is right for all. A request with a body is not shared, so none is chunked."""
_OF_ALL = (
    "CONTENT_LENGTH", "GATEWAY_INTERFACE", "PATH_INFO", "QUERY_STRING", "RAW_URI", "REQUEST_", "SCRIPT_NAME", "SERVER_",
    "flask.", "werkzeug.", "wsgi.",
)  # fmt: skip
"""Names in the environment of a WSGI application that do not tell one client from another, or are in the key."""
_TYPE = "CONTENT_TYPE"
"""A field of the request like any other, but WSGI writes its name without HTTP_."""
A_TYPE = "Content-Type"
"""Among what a view looked for. No name in `g` has a dash."""
_FRAMES = 12
"""From Flask-Login's look at a header field to the environment of the request."""


class KeyedEnviron(dict[str, Any]):
    """`missed`: what the view looked for, and the key does not have. Header fields are in lower case. Anything else is
    written as the view reads it, `request.remote_addr`. `missed_all`: the view read all of them. `missed_type`: it
    looked for a Content-Type. Few requests without a body have one, so only these do not get the response.
    """

    def __init__(self, given: dict[str, Any], known: AbstractSet[str]) -> None:
        super().__init__(given)
        self._known = known
        self.forget()

    def forget(self) -> None:
        self.missed: set[str] = set()
        self.missed_all = self.missed_type = False

    def __getitem__(self, name: str) -> Any:
        self._look_at(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._look_at(name)
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._look_at(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self._look_at(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        self._look_at(name)
        return super().setdefault(name, default)

    def __iter__(self) -> Iterator[str]:
        self.missed_all = True
        return super().__iter__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        self.missed_all = True
        return super().keys()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self.missed_all = True
        return super().values()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self.missed_all = True
        return super().items()

    def copy(self) -> dict[str, Any]:
        self.missed_all = True
        return super().copy()

    def _look_at(self, name: Any) -> None:
        """Only for missing names: a view, or a library that it uses, may also keep data of its own here."""
        if not isinstance(name, str) or super().__contains__(name):
            return
        if name == _TYPE:
            self.missed_type = self.missed_type or "content-type" not in self._known
        elif name.startswith("HTTP_"):
            self.look_for(name[5:].replace("_", "-").lower())
        elif not name.startswith(_OF_ALL):
            self.look_for(name.replace("_", "-").lower(), f"request.environ[{name!r}]")

    def look_for(self, field: str, written: str = "") -> None:
        """`written`: how a view reads it, if it is not a header field."""
        if field not in self._known and not _reads_for_a_user():
            self.missed.add(written or field)


def _reads_for_a_user() -> bool:
    """Flask-Login compares fields with the session of a user. The request of a computation has none."""
    frame: types.FrameType | None = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if frame.f_globals.get("__name__", "").startswith("flask_login."):
            return True
        frame = frame.f_back
    return False


def note_address(request: Any) -> None:
    """Let the request note a look at the client's address, which Werkzeug reads when it makes a request."""
    request.__class__ = _without_address(type(request))


@per_class
def _without_address(kind: type) -> type:
    def look(self: Any) -> None:
        self.environ.look_for("remote-addr", "request.remote_addr")

    def ignore(self: Any, address: Any) -> None:
        """A copy of the request sets it."""

    names = {"remote_addr": property(look, ignore), "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), names)


def environ_of(url: Any, query: str) -> dict[str, Any]:
    """The WSGI environment of a GET request. `url`: scheme, host, root, path, and pairs of header fields."""
    scheme, host, root, path, fields = url
    name, _, port = host.rpartition(":") if host.rpartition(":")[2].isdecimal() else (host, "", "")
    return {
        "REQUEST_METHOD": "GET", "SCRIPT_NAME": root, "PATH_INFO": path, "QUERY_STRING": query,
        "SERVER_NAME": name, "SERVER_PORT": port or ("443" if scheme == "https" else "80"),
        "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": host,
        "wsgi.version": (1, 0), "wsgi.url_scheme": scheme, "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr,
        "wsgi.multithread": True, "wsgi.multiprocess": True, "wsgi.run_once": False,
    } | {_in_environ(field): value for field, value in fields if value is not None}  # fmt: skip


def _in_environ(field: str) -> str:
    name = field.upper().replace("-", "_")
    return name if name == _TYPE else f"HTTP_{name}"
