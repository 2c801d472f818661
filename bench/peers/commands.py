"""How many commands reach a server while something happens, a script being one whatever it does inside.

By MONITOR, as in `bench.micro.commands`, but counting lines instead of parsing them: a peer that spins sends so many
that a parser would be the third process on two cores.
"""

from __future__ import annotations

import socket
import threading
import uuid
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

__all__ = ["CommandCount"]

_FROM_A_SCRIPT: Final = b" lua] "
_PATIENCE: Final = 10.0


class CommandCount:
    """Counts within its `with` block. `total` is complete after the block."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._address = (address.hostname or "127.0.0.1", address.port or 6379)
        self._mark = uuid.uuid4().hex.encode()
        self._thread = threading.Thread(target=self._listen, name="command count", daemon=True)
        self.total = 0

    def __enter__(self) -> Self:
        self._marker = socket.create_connection(self._address, _PATIENCE)
        self._socket = socket.create_connection(self._address, _PATIENCE)
        self._socket.sendall(b"MONITOR\r\n")
        if self._socket.recv(5) != b"+OK\r\n":
            raise RuntimeError("the server does not let itself be monitored")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._marker.sendall(b"ECHO " + self._mark + b"\r\n")
        self._thread.join(_PATIENCE)
        self._marker.close()
        self._socket.close()

    def _listen(self) -> None:
        rest = b""
        while True:
            try:
                received = self._socket.recv(1 << 18)
            except TimeoutError:
                continue  # no command for a while
            except OSError:
                return
            if not received:
                return
            whole, _, rest = (rest + received).rpartition(b"\n")
            if self._mark in whole:
                whole = whole[: whole.index(self._mark)].rpartition(b"\n")[0]
                self.total += _commands(whole)
                return
            self.total += _commands(whole)


def _commands(lines: bytes) -> int:
    return 0 if not lines else lines.count(b"\n") + 1 - lines.count(_FROM_A_SCRIPT)
