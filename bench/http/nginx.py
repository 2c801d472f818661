"""nginx in front of a fleet, where there is one on this machine: its own cache, in a folder of ours."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.herd import processes
from bench.herd.valkey import free_port

__all__ = ["Nginx", "missing", "version"]

_PATIENCE = 10.0


@cache
def _program() -> str | None:
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/opt/homebrew/bin")


def missing() -> str:
    return "" if _program() else "nginx is not installed"


@cache
def version() -> str:
    program = _program()
    if program is None:
        return ""
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stderr
    return said.strip().rpartition("/")[2].split(" ")[0]


_CONFIGURATION = """\
daemon off;
{user}worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/temporary;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_cache_path {folder}/cache keys_zone=reports:1m;
    upstream application {{
        server 127.0.0.1:{application};
        keepalive 64;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            proxy_pass http://application;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_cache reports;
            proxy_cache_lock on;
            proxy_cache_use_stale updating;
            add_header X-Cache $upstream_cache_status;
        }}
    }}
}}
"""


@dataclass(slots=True)
class Nginx:
    """`application`: the port of the application behind it. Raises `RuntimeError` if it does not start."""

    application: int
    workers: int
    port: int = 0
    _child: processes.Child | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        program = _program()
        if program is None:
            raise RuntimeError(missing())
        folder = processes.temporary_directory("bench-nginx-")
        folder.chmod(0o755)
        self.port = free_port()
        configuration = folder / "nginx.conf"
        configuration.write_text(self._configuration(folder))
        self._child = processes.start(
            [program, "-p", folder, "-e", folder / "error.log", "-c", configuration], log=folder / "log"
        )
        self._wait(self._child)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.stop(patience=5.0)

    @property
    def pid(self) -> int:
        return 0 if self._child is None else self._child.pid

    def _configuration(self, folder: Path) -> str:
        # As root it would give its workers to an account that may not enter our folder.
        user = "user root;\n" if getpass.getuser() == "root" else ""
        return _CONFIGURATION.format(
            user=user, workers=self.workers, folder=folder, application=self.application, port=self.port
        )

    def _wait(self, child: processes.Child) -> None:
        deadline = time.monotonic() + _PATIENCE
        while child.running and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                    return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError(f"nginx did not start:\n{child.last_words()}")
