"""One uvicorn worker of one peer, on a socket it inherits."""

from __future__ import annotations

import socket
import sys
from typing import Any

import uvicorn

from bench.herd.worker import ReadyServer
from bench.http.peers import application
from bench.http.settings import AppSettings


def create_app() -> Any:
    return application(AppSettings.from_environment())


def main() -> None:
    listening, ready = (int(argument) for argument in sys.argv[1:3])
    config = uvicorn.Config(
        create_app,
        factory=True,
        log_level="warning",
        access_log=False,
        date_header=False,
        timeout_keep_alive=120,
    )
    ReadyServer(config, ready=ready).run([socket.socket(fileno=listening)])


if __name__ == "__main__":
    main()
