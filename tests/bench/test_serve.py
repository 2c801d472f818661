"""`make herd-serve`: the service stands alone, Locust's own file loads it, and Ctrl-C stops everything."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0


@contextmanager
def served() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The service in mode `guard` with two workers, and the address that it prints."""
    command = [sys.executable, "-m", "bench.herd.serve", "--workers", "2", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C" in line:
                break
        found = re.search(r"--host (http://127\.0\.0\.1:\d+)$", "".join(said), re.MULTILINE)
        assert found, "".join(said)
        yield process, found[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def statuses_that_users_see(url: str, *options: str, **environment: str) -> set[int]:
    """In a run that ends after four requests."""
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "locust", "-f", ROOT / "bench" / "locustfile.py", "--host", url),
            *("--headless", "--users", "4", "--spawn-rate", "4", "--only-summary"),
            *("--exit-code-on-error", "0", *options),
        ],
        env={**os.environ, "HERD_REQUESTS": f"/dev/fd/{write_end}", **environment},
        pass_fds=[write_end],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(write_end)
    seen: list[int] = []
    try:
        with open(read_end) as lines:
            for record in map(json.loads, lines):
                if "status" in record:
                    seen.append(record["status"])
                    if len(seen) == 4:
                        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    assert len(seen) >= 4
    return set(seen)


def test_the_service_answers_at_its_address_and_an_interrupt_stops_servers_and_workers() -> None:
    with served() as (process, url):
        with urllib.request.urlopen(f"{url}/quality?project=1", timeout=PATIENCE) as response:
            assert json.load(response)
        # The users ask for the path that is given.
        options = ("--path", "/quality?project=2", "--period", "0.3")
        assert statuses_that_users_see(url, *options) == {200}
        assert statuses_that_users_see(url, HERD_PATH="/absent", HERD_PERIOD="0.3") == {404}
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 4
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert psutil.wait_procs(children, timeout=PATIENCE)[1] == []


def test_a_port_that_is_taken_is_an_error_and_not_half_of_the_requests() -> None:
    from bench.herd.fleet import Fleet
    from bench.herd.settings import AppSettings

    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        settings = AppSettings(
            mode="naive", database_url="", redis_url="redis://127.0.0.1:1", namespace="n", ttl=1, stale_ttl=1
        )
        with pytest.raises(OSError, match="in use"):
            Fleet(settings, 2, port=other.getsockname()[1]).start()
