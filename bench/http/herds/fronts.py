"""nginx and Varnish in front of a port, where they are installed: as their documentation says, in a folder of ours."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.herd import processes
from bench.herd.valkey import free_port

__all__ = ["FRONTS", "behind", "program"]

PATIENCE = 20.0
_NGINX = """\
daemon off;
{user}worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/temporary;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_cache_path {folder}/cache keys_zone=herds:1m;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            proxy_pass http://127.0.0.1:{application};
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_cache herds;
            proxy_cache_lock on;
            proxy_cache_use_stale updating;
            proxy_cache_revalidate on;
            proxy_cache_background_update on;
        }}
    }}
}}
"""


def _nginx(path: str, folder: Path, port: int, application: int) -> list[str]:
    # As root it would give its workers to an account that may not enter our folder.
    user = "user root;\n" if getpass.getuser() == "root" else ""
    folder.chmod(0o755)
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(user=user, folder=folder, port=port, application=application))
    return [path, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(configuration)]


def _varnish(path: str, folder: Path, port: int, application: int) -> list[str]:
    storage = ["-s", "malloc,16m"]
    backend = f"127.0.0.1:{application}"
    return [path, "-F", "-n", str(folder / "work"), "-a", f"127.0.0.1:{port}", "-b", backend, *storage]


FRONTS: dict[str, tuple[str, Callable[[str, Path, int, int], list[str]]]] = {
    "nginx": ("nginx", _nginx),
    "varnish": ("varnishd", _varnish),
}


def program(front: str) -> str | None:
    return shutil.which(
        FRONTS[front][0], path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
    )


@contextlib.contextmanager
def behind(front: str, application: int) -> Iterator[int]:
    """The port of the cache. Raises `RuntimeError` with its last words if it does not start."""
    path = program(front)
    if path is None:
        raise RuntimeError(f"{FRONTS[front][0]} is not installed")
    folder, port = processes.temporary_directory(f"bench-{front}-"), free_port()
    child = processes.start(FRONTS[front][1](path, folder, port, application), log=folder / "log")
    try:
        deadline = time.monotonic() + PATIENCE
        while not _listens(port):
            if not child.running or time.monotonic() > deadline:
                raise RuntimeError(f"{front} did not start:\n{child.last_words()}")
            time.sleep(0.02)
        yield port
    finally:
        child.stop(patience=5.0)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True
