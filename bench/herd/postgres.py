"""A real PostgreSQL of our own on loopback, on a private copy of a data directory that is made once."""

from __future__ import annotations

import hashlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.herd import processes
from bench.herd.account import Account, server_account
from bench.herd.binaries import PostgresBinaries, find_postgres
from bench.herd.cache import cache_directory, made_once
from bench.herd.valkey import free_port

__all__ = ["PostgresServer", "Seed"]

_START_PATIENCE = 60.0
_ATTEMPTS = 5
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_preload_libraries": "pg_stat_statements",
    "compute_query_id": "on",
    "max_connections": "200",
    # A table above a quarter of the buffers is read past them, so that every query would copy it anew.
    "shared_buffers": "1GB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "autovacuum": "off",
    # The data can be made again; only the queries are measured.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    # Tests commit in two phases, too.
    "max_prepared_transactions": "10",
}
_HBA = "host all all 127.0.0.1/32 trust\n"


@dataclass(frozen=True, slots=True)
class Seed:
    """What a data directory is filled with: `fill(url)` runs once, `text` identifies the result."""

    text: str
    fill: Callable[[str], None]


@dataclass(slots=True)
class PostgresServer:
    """One server on a free loopback port. It trusts TCP from loopback only, and pg_stat_statements is loaded.

    The first start makes a data directory (initdb, then `seed`) in the cache. Every start runs on a private copy of it,
    so neither a killed server nor two runs at once can damage the cache. Raises `RuntimeError` with the server's last
    output if it does not start.
    """

    seed: Seed | None = None
    port: int = 0
    _account: Account = field(default_factory=server_account, init=False, repr=False)
    _home: Path | None = field(default=None, init=False, repr=False)
    _child: processes.Child | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        if self._child is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        return _url(self.port)

    @property
    def pid(self) -> int:
        """Of the postmaster, whose children are the backends."""
        if self._child is None:
            raise RuntimeError("PostgreSQL has not been started; call start() first")
        return self._child.pid

    def start(self) -> None:
        binaries = find_postgres(self._account)
        template = self._template(binaries)
        self._home = _home(self._account)
        data = self._home / "data"
        shutil.copytree(template, data, symlinks=True)
        self._account.give(data)
        self._child, self.port = _launch(binaries, self._account, data, self._home / "log")

    def stop(self) -> None:
        """End in good order; running queries are cancelled."""
        if self._child is not None:
            self._child.stop()

    def restart(self, *, crash: bool = False) -> None:
        """End and start again on the same data, on another port. `crash`: it is killed, and closes nothing."""
        if self._child is None or self._home is None:
            raise RuntimeError("PostgreSQL has not been started; call start() first")
        if crash:
            self._child.kill()
            # A new postmaster would not believe that the old one has gone, with the same number reused.
            (self._home / "data" / "postmaster.pid").unlink(missing_ok=True)
        else:
            self._child.stop()
        binaries = find_postgres(self._account)
        self._child, self.port = _launch(binaries, self._account, self._home / "data", self._home / "log")

    def close(self) -> None:
        """Stop and delete the private copy."""
        self.stop()
        self._child = None
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def _template(self, binaries: PostgresBinaries) -> Path:
        text = repr((binaries.version, _SETTINGS, _HBA, self.seed.text if self.seed else ""))
        name = f"pgdata-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        return made_once(cache_directory(self._account) / name, lambda making: self._make(binaries, making))

    def _make(self, binaries: PostgresBinaries, making: Path) -> None:
        self._account.give(making)
        self._run([binaries.initdb, "--pgdata", making, "--username=postgres", "--auth=trust", "--no-sync",
                   "--encoding=UTF8", "--locale=C", "--no-instructions"])  # fmt: skip
        with (making / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in _SETTINGS.items())
        (making / "pg_hba.conf").write_text(_HBA)
        log = processes.temporary_directory("herd-seed-") / "log"
        child, port = _launch(binaries, self._account, making, log)
        try:
            if self.seed is not None:
                self.seed.fill(_url(port))
        finally:
            child.stop(patience=60.0)
        if child.process.returncode != 0:
            raise RuntimeError(f"PostgreSQL did not shut down cleanly after seeding:\n{child.last_words()}")

    def _run(self, command: list[str | Path]) -> None:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",  # the current directory may be closed to the account
            user=self._account.user,
            group=self._account.group,
            extra_groups=[] if self._account.is_other else None,
        )
        if done.returncode != 0:
            name = Path(command[0]).name
            raise RuntimeError(f"{name} failed with status {done.returncode}:\n{done.stderr}")


def _home(account: Account) -> Path:
    """The folder for temporary files. If the account cannot enter it: the cache directory."""
    reachable = account.may_enter(Path(tempfile.gettempdir()))
    parent = None if reachable else cache_directory(account)
    return account.open_to(processes.temporary_directory("herd-postgres-", parent=parent))


def _url(port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}/postgres"


def _launch(
    binaries: PostgresBinaries, account: Account, data: Path, log: Path
) -> tuple[processes.Child, int]:
    last_words = ""
    for _ in range(_ATTEMPTS):
        port = free_port()
        child = processes.start(
            [binaries.postgres, "-D", data, "-p", str(port)],
            end_signal=signal.SIGINT,
            log=log,
            cwd=Path("/"),
            user=account.user,
            group=account.group,
        )
        if _wait_until_ready(child, data, port):
            return child, port
        child.stop()
        last_words = child.last_words()
    raise RuntimeError(f"PostgreSQL did not start:\n{last_words}")


def _wait_until_ready(child: processes.Child, data: Path, port: int) -> bool:
    """Ready is what the server itself writes into its pid file: a stranger on the port cannot deceive us."""
    pid_file = data / "postmaster.pid"
    deadline = time.monotonic() + _START_PATIENCE
    while child.running and time.monotonic() < deadline:
        try:
            lines = pid_file.read_text().splitlines()
        except FileNotFoundError:
            lines = []
        if len(lines) >= 8 and lines[0] == str(child.pid) and lines[7].strip() == "ready":
            with socket.create_connection(("127.0.0.1", port), timeout=5.0):
                return True
        time.sleep(0.02)
    return False
