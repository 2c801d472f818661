"""One uvicorn worker on a socket it inherits; says on a pipe when it is ready to answer."""

from __future__ import annotations

import os
import socket
import sys

import uvicorn

from bench.herd.app import create_app

__all__ = ["ReadyServer"]


class ReadyServer(uvicorn.Server):
    """Writes one byte to `ready` once it accepts connections."""

    def __init__(self, config: uvicorn.Config, *, ready: int) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            os.write(self._ready, b"1")


def main() -> None:
    listening, ready = (int(argument) for argument in sys.argv[1:3])
    config = uvicorn.Config(
        create_app, factory=True, log_level="warning", access_log=False, timeout_keep_alive=120
    )
    ReadyServer(config, ready=ready).run([socket.socket(fileno=listening)])


if __name__ == "__main__":
    main()
