"""TLS: one SSLContext per store. It is made in a thread, and made again only when its files have changed.

redis-py makes one for each connection, in the event loop. Each takes 20 to 70 ms, four times a second while the store
is away. An error in the files or in a certificate does not pass by itself, so it is distinguished from an outage.
"""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from redis.asyncio.connection import AbstractConnection, SSLConnection

from stampede_guard.errors import StoreMisconfigured
from stampede_guard.values.forks import renew_in_children

C = TypeVar("C", bound=AbstractConnection)

__all__ = ["SharedContext", "sharing", "tls_trouble"]

_FILES = {
    "ca_certs": "ssl_ca_certs",
    "ca_path": "ssl_ca_path",
    "certfile": "ssl_certfile",
    "keyfile": "ssl_keyfile",
}
_REASONS = (
    "CERTIFICATE",
    "UNKNOWN_CA",
    "WRONG_VERSION",
    "PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "HANDSHAKE_FAILURE",
    "NO_SHARED_CIPHER",
    "ACCESS_DENIED",
    "HTTP_REQUEST",
    "NO_PROTOCOLS_AVAILABLE",
)
"""OpenSSL errors that another attempt will not change. A reset or a damaged record is not one of them."""


class SharedContext:
    """The SSLContext of all connections of a store. Safe for several event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_in_children(self, "_lock")
        self._seen: tuple[object, ...] | None = None
        self._made: ssl.SSLContext | None = None

    async def lend(self, connection: Any) -> None:
        """Give the context to a connection before it connects. Raises `StoreMisconfigured`, which names the file."""
        asked = connection.ssl_context
        if asked.context is not None:
            return
        seen = _versions(asked)
        if self._made is None or seen != self._seen:
            await _in_thread(lambda: self._make(asked, seen))
        asked.context = self._made

    def _make(self, asked: Any, seen: tuple[object, ...]) -> None:
        with self._lock:
            if self._made is not None and seen == self._seen:
                return
            _check_files(asked)
            try:
                made = asked.get()
            except (OSError, ValueError, TypeError) as error:
                names = ", ".join(f"{option}={path}" for option, path in _files(asked)) or "the system's own"
                raise StoreMisconfigured(f"TLS cannot be set up with {names}: {error}") from None
            finally:
                # Otherwise the first connection would keep a context that another thread has replaced.
                asked.context = None
            self._made, self._seen = made, seen


def sharing(connection_class: type[C], shared: SharedContext | None = None) -> Callable[..., C]:
    """A function that makes connections of this class. If they speak TLS, they share one SSLContext.

    All of them must have the same TLS options.
    """
    if not issubclass(connection_class, SSLConnection):
        return connection_class
    context = shared or SharedContext()
    borrowing = _borrowing(connection_class)  # type: ignore[arg-type]  # mypy takes a type for unhashable

    def make(*args: Any, **kwargs: Any) -> C:
        made: Any = borrowing(*args, **kwargs)
        made.shared_context = context
        lent: C = made
        return lent

    return make


@functools.lru_cache(maxsize=64)
def _borrowing(connection_class: type[Any]) -> type[Any]:
    """A subclass whose connections use the SSLContext that `lend` gives them."""

    async def connect(self: Any, *args: Any, **kwargs: Any) -> None:
        if not self.is_connected:
            await self.shared_context.lend(self)
        await super(made, self).connect(*args, **kwargs)

    made: type[Any] = type(connection_class.__name__, (connection_class,), {"connect": connect})
    return made


def tls_trouble(error: BaseException) -> StoreMisconfigured | None:
    """The error with its cure, if this error or its cause concerns certificates or protocols."""
    for cause in _causes(error):
        if isinstance(cause, StoreMisconfigured):
            return cause
        if isinstance(cause, ssl.SSLCertVerificationError):
            return StoreMisconfigured(
                f"the server's certificate is not accepted ({cause.verify_message}): give the file of the authority "
                "that signed it as ?ssl_ca_certs=, and write the host as in the certificate"
            )
        reason = (getattr(cause, "reason", None) or "") if isinstance(cause, ssl.SSLError) else ""
        if "WRONG_VERSION" in reason or "HTTP_REQUEST" in reason:
            return StoreMisconfigured(
                "the server does not speak TLS on this port: write redis:// in place of rediss://, or the TLS port"
            )
        if any(known in reason for known in _REASONS):
            return StoreMisconfigured(
                f"TLS is refused ({reason}): check ?ssl_certfile= and ?ssl_keyfile=, and the protocols and "
                "ciphers that the server allows"
            )
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _files(asked: Any) -> Iterator[tuple[str, str]]:
    for attribute, option in _FILES.items():
        path = getattr(asked, attribute, None)
        if path:
            yield option, path


def _versions(asked: Any) -> tuple[object, ...]:
    """Versions of the files. The next connection reads a rotated certificate again."""
    found: list[object] = []
    for _, path in _files(asked):
        status = None
        with suppress(OSError):
            status = os.stat(path)
        found.append(status and (status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def _check_files(asked: Any) -> None:
    for option, path in _files(asked):
        try:
            if os.path.isdir(path):
                os.listdir(path)
            else:
                with open(path, "rb"):
                    pass
        except OSError as error:
            raise StoreMisconfigured(
                f"TLS cannot be set up: {option}={path}: {error.strerror or error}"
            ) from None


async def _in_thread(work: Any) -> None:
    """Run it in a new thread: the threads of the event loop may all be busy for minutes."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def run() -> None:
        failure: BaseException | None = None
        try:
            work()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_end, done, failure)

    threading.Thread(target=run, name="stampede_guard tls", daemon=True).start()
    await done


def _end(done: asyncio.Future[None], failure: BaseException | None) -> None:
    if done.done():
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)
