"""A PgBouncer of our own in transaction mode, in front of a PostgreSQL on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from bench.herd import processes
from bench.herd.account import Account, server_account
from bench.herd.valkey import free_port

__all__ = ["PgBouncer", "find_pgbouncer"]

_PATIENCE = 15.0
_ATTEMPTS = 5
_SETTINGS = """
[databases]
postgres = host={host} port={port} user={user} dbname={database}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {servers}
max_client_conn = 200
"""


def find_pgbouncer() -> Path:
    """The program, on PATH or where Debian puts it. Raises `RuntimeError`, whose text names what to install."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise RuntimeError("no pgbouncer found: apt-get install pgbouncer")
    return Path(found)


@dataclass(slots=True)
class PgBouncer:
    """`target`: the URL of the PostgreSQL. `servers`: connections to it, which all clients share."""

    target: str
    servers: int = 2
    port: int = 0
    _account: Account = field(default_factory=server_account, init=False, repr=False)
    _home: Path | None = field(default=None, init=False, repr=False)
    _child: processes.Child | None = field(default=None, init=False, repr=False)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        program = find_pgbouncer()
        self._home = self._account.open_to(processes.temporary_directory("herd-pgbouncer-"))
        words = ""
        for _ in range(_ATTEMPTS):
            self.port = free_port()
            settings = self._home / "pgbouncer.ini"
            settings.write_text(self._settings())
            settings.chmod(0o644)
            child = processes.start(
                [program, settings],
                end_signal=signal.SIGINT,
                log=self._home / "log",
                cwd=Path("/"),
                user=self._account.user,
                group=self._account.group,
            )
            self._child = child
            if self._wait_until_ready(child):
                return self
            child.stop()
            words = child.last_words()
        raise RuntimeError(f"pgbouncer did not start:\n{words}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.kill()
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def _settings(self) -> str:
        target = urlsplit(self.target)
        return _SETTINGS.format(
            host=target.hostname,
            port=target.port,
            user=target.username,
            database=target.path.lstrip("/"),
            own=self.port,
            servers=self.servers,
        )

    def _wait_until_ready(self, child: processes.Child) -> bool:
        deadline = time.monotonic() + _PATIENCE
        while child.running and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                    return child.running
            except OSError:
                time.sleep(0.02)
        return False
